"""Flushes and compactions: whose turn it is, in which thread or process they run, and their failures."""
