"""Every published section of the documents, measured again: ``python -m bench reproduce``."""
