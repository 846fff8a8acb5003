"""A trace in its own order, on several engines in the same memory."""
