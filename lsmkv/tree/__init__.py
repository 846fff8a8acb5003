"""Which tables make the tree: levels, versions, the manifest.  May import sstable and below."""
