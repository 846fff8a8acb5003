"""The best error rate by lookups between two openings: ``python -m bench openings``."""
