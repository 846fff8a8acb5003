"""Consistent read views, and scans of memtables and tables.  May import the tree and below."""
