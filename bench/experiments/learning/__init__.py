"""Wasted reads that learning filters save: ``python -m bench learning``."""
