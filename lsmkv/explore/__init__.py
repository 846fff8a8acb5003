"""The page that shows a store avoid its reads."""
