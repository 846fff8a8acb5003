"""Costs and memory as a store grows: ``python -m bench growth``."""
