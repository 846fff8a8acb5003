"""Disk reads saved as the false-positive rate p varies: ``python -m bench saved-io``."""
