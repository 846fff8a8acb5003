"""Measurements of lsmkv: what is counted first, what is timed second."""
