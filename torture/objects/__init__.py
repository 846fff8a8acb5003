"""The part ``objects``: misuse of API objects."""
