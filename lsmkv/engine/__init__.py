"""One open store: opening it, writing, closing it.  May import what is below the api."""
