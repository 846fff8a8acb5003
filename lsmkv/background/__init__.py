"""Flushes and compactions: the threads and processes that run them, and how they give way to writers."""
