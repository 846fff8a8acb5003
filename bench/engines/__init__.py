"""The measured stores, each in one small file behind one interface.

Importing the package registers the built-in ones.  A peer's library is imported only when a store is
opened, so that a missing one can be reported as missing.
"""

from __future__ import annotations

from .base import register
from .leveldb_engine import LevelDB
from .lmdb_engine import LMDB
from .lsmkv_engine import Lsmkv
from .rocksdb_engine import RocksDB
from .sqlite_engine import SQLite

for _engine in (Lsmkv(), RocksDB(), LevelDB(), LMDB(), SQLite()):
    register(_engine)
