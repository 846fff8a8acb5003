"""The page that shows a store's map, its lookups, and what its filters spare."""
