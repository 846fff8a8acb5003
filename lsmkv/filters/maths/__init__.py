"""Sizes and exact error rates of filters, without any bits.  Imports nothing of the store."""
