"""Flushes and compactions in helper processes."""
