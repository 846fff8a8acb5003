"""The measured stores, each in one small file behind one interface.

Importing the package registers the built-in ones.  A peer's library is imported only when a store is
opened, so that a missing one can be reported as missing.
"""

from __future__ import annotations

from bench.engines.base import register
from bench.engines.leveldb_engine import LevelDB
from bench.engines.lmdb_engine import LMDB
from bench.engines.lsmkv_engine import Lsmkv
from bench.engines.rocksdb_engine import RocksDB
from bench.engines.sqlite_engine import SQLite

for _engine in (Lsmkv(), RocksDB(), LevelDB(), LMDB(), SQLite()):
    register(_engine)
