"""GETs that block filters save in object storage: ``python -m bench saved-requests``."""
