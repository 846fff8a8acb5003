"""An embedded, ordered key-value store: an LSM tree whose blocks embed Bloom filters.

>>> import lsmkv, tempfile
>>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
...     db[b"fox"] = b"red"
...     db[b"hare"] = b"brown"
...     db[b"fox"], db.get(b"owl"), list(db.items(start=b"g"))
(b'red', None, [(b'hare', b'brown')])
"""

from __future__ import annotations

from lsmkv.cursor import Cursor, CursorError
from lsmkv.db import DB, MemoryUsage, destroy, open
from lsmkv.encoding import MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES
from lsmkv.errors import (
    BackgroundError,
    ClosedError,
    CorruptionError,
    Error,
    ForkedError,
    LockedError,
    NotAStoreError,
    ReadOnlyError,
    StoreExistsError,
    UnsupportedFormatError,
)
from lsmkv.filters.keys import DelimitedPrefix, FilterKey, FixedPrefix, WholeKey
from lsmkv.options import Options
from lsmkv.reads import Snapshot
from lsmkv.repair import repair
from lsmkv.stats import Histogram, Stats
from lsmkv.writes import WriteBatch

__version__ = "0.1.0"

__all__ = [
    "DB",
    "MAX_BATCH_BYTES",
    "MAX_KEY_BYTES",
    "MAX_VALUE_BYTES",
    "BackgroundError",
    "ClosedError",
    "CorruptionError",
    "Cursor",
    "CursorError",
    "DelimitedPrefix",
    "Error",
    "FilterKey",
    "FixedPrefix",
    "ForkedError",
    "Histogram",
    "LockedError",
    "MemoryUsage",
    "NotAStoreError",
    "Options",
    "ReadOnlyError",
    "Snapshot",
    "Stats",
    "StoreExistsError",
    "UnsupportedFormatError",
    "WholeKey",
    "WriteBatch",
    "destroy",
    "open",
    "repair",
]
