"""The tables of the tree: levels, versions, the manifest.  May import sstable and below."""
