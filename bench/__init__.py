"""Measurements of lsmkv: counts first, times second."""
