"""One data block: its layout, search, compression and trailer.  May import encoding and filters."""
