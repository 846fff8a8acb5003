"""Block reads that filters waste: RocksDB, LevelDB and lsmkv, filters and index of the same bytes."""
