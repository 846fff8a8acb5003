"""Stores in object storage: published there, and read from there."""
