"""Repairing a damaged store.  May import inspection, compaction and what is below."""
