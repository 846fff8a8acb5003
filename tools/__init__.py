"""For those who develop lsmkv; no part of what is installed."""
