"""lsmkv beside RocksDB, LevelDB, LMDB and SQLite, phase by phase: ``python -m bench peers``."""
