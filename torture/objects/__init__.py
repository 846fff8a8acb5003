"""The part ``objects``: misuse of objects of the API."""
