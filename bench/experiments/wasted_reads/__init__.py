"""Block reads that filters waste: RocksDB, LevelDB and lsmkv, with filters of the same bytes."""
