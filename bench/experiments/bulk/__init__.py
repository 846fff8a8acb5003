"""Ways to load many entries: ``python -m bench bulk``."""
