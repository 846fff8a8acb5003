"""Tools for developers of lsmkv; they are not installed."""
