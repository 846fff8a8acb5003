"""What to merge next, and the merge itself.  May import the tree and what is below it."""
