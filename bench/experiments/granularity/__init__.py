"""Filters per block or per table, at equal memory: ``python -m bench granularity``."""
