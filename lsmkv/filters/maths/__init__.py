"""Sizes and exact error rates of filters, without any bits.  May import nothing of the store."""
