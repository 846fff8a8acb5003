"""The part ``metamorphic``: options must not change answers."""
