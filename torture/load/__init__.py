"""The part ``load``: many threads and processes."""
