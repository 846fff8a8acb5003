"""Filters as objects, for programs and experiments.  May import the filters that tables embed."""
