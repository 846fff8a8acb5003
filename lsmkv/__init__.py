"""An embedded, ordered key-value store: an LSM tree whose blocks embed Bloom filters.

>>> import lsmkv, tempfile
>>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
...     db[b"fox"] = b"red"
...     db[b"hare"] = b"brown"
...     db[b"fox"], db.get(b"owl"), list(db.items(start=b"g"))
(b'red', None, [(b'hare', b'brown')])

Ten names do for most programs:

- ``open`` opens a store, with ``Options``, and returns a ``DB``, an ordered mapping.
- ``WriteBatch``: writes that happen together; ``Transaction``: reads and writes that do.
- ``Snapshot``: the store as it was; ``Cursor``: moves over its keys.
- ``backup`` copies a store; ``repair`` saves what a damaged one still has.
- ``Error``: the base of all errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsmkv.runtime import (
    check_main_interpreter,
    check_system,
    loaded_when_used,
    tell_of_plain_python,
)

check_system()
check_main_interpreter()  # before anything compiled is loaded
tell_of_plain_python()

if TYPE_CHECKING:
    from lsmkv import filters as filters
    from lsmkv.api.backup import backup as backup
    from lsmkv.api.cursor import Cursor as Cursor
    from lsmkv.api.db import DB as DB
    from lsmkv.api.opening import destroy as destroy
    from lsmkv.api.opening import open as open
    from lsmkv.api.sizes import MemoryUsage as MemoryUsage
    from lsmkv.api.snapshot import Snapshot as Snapshot
    from lsmkv.api.table_writer import TableFileInfo as TableFileInfo
    from lsmkv.api.table_writer import TableWriter as TableWriter
    from lsmkv.api.transaction import Transaction as Transaction
    from lsmkv.api.transaction import TransactionCursor as TransactionCursor
    from lsmkv.api.write_batch import WriteBatch as WriteBatch
    from lsmkv.background.events import BackgroundFailed as BackgroundFailed
    from lsmkv.background.events import CompactionEnded as CompactionEnded
    from lsmkv.background.events import Event as Event
    from lsmkv.background.events import FlushEnded as FlushEnded
    from lsmkv.background.events import HelperFailed as HelperFailed
    from lsmkv.background.events import Ingested as Ingested
    from lsmkv.background.events import Refreshed as Refreshed
    from lsmkv.background.events import Resumed as Resumed
    from lsmkv.background.events import WriteStalled as WriteStalled
    from lsmkv.copies.backup import BackupReport as BackupReport
    from lsmkv.copies.checkpoint import CheckpointReport as CheckpointReport
    from lsmkv.encoding.entries import MAX_BATCH_BYTES as MAX_BATCH_BYTES
    from lsmkv.encoding.entries import MAX_KEY_BYTES as MAX_KEY_BYTES
    from lsmkv.encoding.entries import MAX_VALUE_BYTES as MAX_VALUE_BYTES
    from lsmkv.encoding.entries import Buffer as Buffer
    from lsmkv.encoding.text_form import from_text as from_text
    from lsmkv.encoding.text_form import to_text as to_text
    from lsmkv.engine.adoption import IngestReport as IngestReport
    from lsmkv.errors import BackgroundError as BackgroundError
    from lsmkv.errors import ClosedError as ClosedError
    from lsmkv.errors import ConflictError as ConflictError
    from lsmkv.errors import CorruptionError as CorruptionError
    from lsmkv.errors import CursorError as CursorError
    from lsmkv.errors import Error as Error
    from lsmkv.errors import ForkedError as ForkedError
    from lsmkv.errors import LockedError as LockedError
    from lsmkv.errors import MissingExtraError as MissingExtraError
    from lsmkv.errors import NotAStoreError as NotAStoreError
    from lsmkv.errors import PublishConflictError as PublishConflictError
    from lsmkv.errors import ReadOnlyError as ReadOnlyError
    from lsmkv.errors import StoreExistsError as StoreExistsError
    from lsmkv.errors import StoreReplacedError as StoreReplacedError
    from lsmkv.errors import UnsupportedFormatError as UnsupportedFormatError
    from lsmkv.errors import WorkerError as WorkerError
    from lsmkv.filters.keys import DelimitedPrefix as DelimitedPrefix
    from lsmkv.filters.keys import FilterKey as FilterKey
    from lsmkv.filters.keys import FixedPrefix as FixedPrefix
    from lsmkv.filters.keys import WholeKey as WholeKey
    from lsmkv.inspection.explain import BlockStep as BlockStep
    from lsmkv.inspection.explain import Explanation as Explanation
    from lsmkv.inspection.explain import FilterStep as FilterStep
    from lsmkv.inspection.explain import MemtableStep as MemtableStep
    from lsmkv.inspection.explain import RunStep as RunStep
    from lsmkv.inspection.report import Problem as Problem
    from lsmkv.inspection.store_info import BlockInfo as BlockInfo
    from lsmkv.inspection.store_info import ExpiryInfo as ExpiryInfo
    from lsmkv.inspection.store_info import FilterInfo as FilterInfo
    from lsmkv.inspection.store_info import LevelInfo as LevelInfo
    from lsmkv.inspection.store_info import RunInfo as RunInfo
    from lsmkv.inspection.store_info import StoreInfo as StoreInfo
    from lsmkv.inspection.store_info import TableInfo as TableInfo
    from lsmkv.inspection.tables import Table as Table
    from lsmkv.inspection.tree_changes import AddedTable as AddedTable
    from lsmkv.inspection.tree_changes import TreeChange as TreeChange
    from lsmkv.inspection.verify import VerifyReport as VerifyReport
    from lsmkv.options import Options as Options
    from lsmkv.options import OptionsDict as OptionsDict
    from lsmkv.remote.report import PublishReport as PublishReport
    from lsmkv.salvage.repair import repair as repair
    from lsmkv.salvage.report import LostRange as LostRange
    from lsmkv.salvage.report import RepairReport as RepairReport
    from lsmkv.stats import Histogram as Histogram
    from lsmkv.stats import Stats as Stats

__version__ = "0.1.0"

_HOMES: Final = {
    "lsmkv.api.backup": ("backup",),
    "lsmkv.api.cursor": ("Cursor",),
    "lsmkv.api.db": ("DB",),
    "lsmkv.api.opening": ("destroy", "open"),
    "lsmkv.api.sizes": ("MemoryUsage",),
    "lsmkv.api.snapshot": ("Snapshot",),
    "lsmkv.api.table_writer": ("TableFileInfo", "TableWriter"),
    "lsmkv.api.transaction": ("Transaction", "TransactionCursor"),
    "lsmkv.api.write_batch": ("WriteBatch",),
    "lsmkv.background.events": (
        "BackgroundFailed",
        "CompactionEnded",
        "Event",
        "FlushEnded",
        "HelperFailed",
        "Ingested",
        "Refreshed",
        "Resumed",
        "WriteStalled",
    ),
    "lsmkv.copies.backup": ("BackupReport",),
    "lsmkv.copies.checkpoint": ("CheckpointReport",),
    "lsmkv.encoding.entries": ("MAX_BATCH_BYTES", "MAX_KEY_BYTES", "MAX_VALUE_BYTES", "Buffer"),
    "lsmkv.encoding.text_form": ("from_text", "to_text"),
    "lsmkv.engine.adoption": ("IngestReport",),
    "lsmkv.errors": (
        "BackgroundError",
        "ClosedError",
        "ConflictError",
        "CorruptionError",
        "CursorError",
        "Error",
        "ForkedError",
        "LockedError",
        "MissingExtraError",
        "NotAStoreError",
        "PublishConflictError",
        "ReadOnlyError",
        "StoreExistsError",
        "StoreReplacedError",
        "UnsupportedFormatError",
        "WorkerError",
    ),
    "lsmkv.filters.keys": ("DelimitedPrefix", "FilterKey", "FixedPrefix", "WholeKey"),
    "lsmkv.inspection.explain": (
        "BlockStep",
        "Explanation",
        "FilterStep",
        "MemtableStep",
        "RunStep",
    ),
    "lsmkv.inspection.report": ("Problem",),
    "lsmkv.inspection.store_info": (
        "BlockInfo",
        "ExpiryInfo",
        "FilterInfo",
        "LevelInfo",
        "RunInfo",
        "StoreInfo",
        "TableInfo",
    ),
    "lsmkv.inspection.tables": ("Table",),
    "lsmkv.inspection.tree_changes": ("AddedTable", "TreeChange"),
    "lsmkv.inspection.verify": ("VerifyReport",),
    "lsmkv.options": ("Options", "OptionsDict"),
    "lsmkv.remote.report": ("PublishReport",),
    "lsmkv.salvage.repair": ("repair",),
    "lsmkv.salvage.report": ("LostRange", "RepairReport"),
    "lsmkv.stats": ("Histogram", "Stats"),
}
"""Module of each public name.  A name is loaded on first use: a helper process needs few of them."""

_MODULES: Final = ("aio", "cache", "cluster", "counters", "dbm", "filters", "metrics", "typed")

__all__ = sorted(name for names in _HOMES.values() for name in names)

if not TYPE_CHECKING:  # type checkers would take any name for one of ours
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES, _MODULES)
