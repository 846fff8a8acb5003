"""Size, error rate and speed of every filter and its peers: ``python -m bench filters``."""
