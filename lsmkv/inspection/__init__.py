"""Looking at a store: explain, info, verify.  May import reading, the tree and what is below."""
