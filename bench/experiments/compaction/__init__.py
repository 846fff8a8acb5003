"""Compaction styles over a sustained load: ``python -m bench compaction``."""
