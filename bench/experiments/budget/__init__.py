"""A budget of filter memory that follows the lookups, beside Monkey's rates and theory."""
