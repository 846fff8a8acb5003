"""The part ``security``: hostile files and neighbours."""
