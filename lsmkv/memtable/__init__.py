"""The newest writes, in memory, by key.  May import encoding."""
