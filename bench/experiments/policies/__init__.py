"""Filter policies at equal memory, by the reads that absent keys waste: ``python -m bench policies``."""
