"""Reads in vain that filters spare by learning: ``python -m bench learning``."""
