"""Bytes: entries, checksums, comparisons, batches of entries.  May import errors."""
