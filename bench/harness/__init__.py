"""Shared parts of all experiments: sweeps, files and reports."""
