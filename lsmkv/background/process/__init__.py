"""Background work in helper processes.  May import what background imports."""
