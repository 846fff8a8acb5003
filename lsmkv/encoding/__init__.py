"""Bytes of keys and values: entries, batches of them, comparisons, checksums.  May import errors."""
