"""An embedded, ordered key-value store: an LSM tree whose blocks embed Bloom filters.

>>> import lsmkv, tempfile
>>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
...     db[b"fox"] = b"red"
...     db[b"hare"] = b"brown"
...     db[b"fox"], db.get(b"owl"), list(db.items(start=b"g"))
(b'red', None, [(b'hare', b'brown')])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsmkv.runtime import check_main_interpreter, loaded_when_used

check_main_interpreter()  # before anything compiled is loaded

if TYPE_CHECKING:
    from lsmkv import filters as filters
    from lsmkv.api.cursor import Cursor, CursorError
    from lsmkv.api.db import DB, MemoryUsage
    from lsmkv.api.opening import destroy, open
    from lsmkv.api.snapshot import Snapshot
    from lsmkv.api.write_batch import WriteBatch
    from lsmkv.encoding.entries import MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES
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
    from lsmkv.salvage.repair import repair
    from lsmkv.stats import Histogram, Stats

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

_HOMES: Final = {
    "lsmkv.api.cursor": ("Cursor", "CursorError"),
    "lsmkv.api.db": ("DB", "MemoryUsage"),
    "lsmkv.encoding.entries": ("MAX_BATCH_BYTES", "MAX_KEY_BYTES", "MAX_VALUE_BYTES"),
    "lsmkv.errors": (
        "BackgroundError",
        "ClosedError",
        "CorruptionError",
        "Error",
        "ForkedError",
        "LockedError",
        "NotAStoreError",
        "ReadOnlyError",
        "StoreExistsError",
        "UnsupportedFormatError",
    ),
    "lsmkv.filters.keys": ("DelimitedPrefix", "FilterKey", "FixedPrefix", "WholeKey"),
    "lsmkv.api.opening": ("destroy", "open"),
    "lsmkv.options": ("Options",),
    "lsmkv.api.snapshot": ("Snapshot",),
    "lsmkv.salvage.repair": ("repair",),
    "lsmkv.stats": ("Histogram", "Stats"),
    "lsmkv.api.write_batch": ("WriteBatch",),
}
"""Where the names come from.  Each is loaded when it is first used, so that a helper process, or a
program that wants one filter, loads only what it needs."""

if not TYPE_CHECKING:  # they would take any name for one of ours
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
