"""The part ``fuzz``: decoders fed with mutated bytes."""
