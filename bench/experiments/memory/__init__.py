"""Filters or block cache: ``python -m bench memory``."""
