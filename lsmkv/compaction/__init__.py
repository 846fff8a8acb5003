"""Compaction: what to merge next, and the merge itself.  May import tree and below."""
