"""Keys, values and orders for stores."""
