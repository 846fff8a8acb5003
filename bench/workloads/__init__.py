"""What stores are filled with and asked for: keys, values, and the order they come in."""
