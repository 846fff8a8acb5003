"""The part ``corruption``: damaged files."""
