"""Filters under a workload that shifts: ``python -m bench adaptive``."""
