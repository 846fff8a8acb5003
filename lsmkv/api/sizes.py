"""How large an open store is: its memory, its keys, a range of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from lsmkv.encoding.expiry import held_bytes
from lsmkv.engine.engine import Engine
from lsmkv.html import Row
from lsmkv.inspection.report import IndexAndFilters
from lsmkv.log.batch import OPERATION_OVERHEAD_BYTES
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.bounds import Bounds, bounds_within
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import (
    SINGLE_NAMES,
    is_staging_name,
    is_unfinished_name,
    parse_file_name,
)
from lsmkv.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class MemoryUsage(IndexAndFilters):
    """Memory by purpose, without Python's own overhead.

    ``memtable_bytes`` is the size of the logs that hold the same writes.  ``index_bytes`` and
    ``filter_bytes`` are those of tables used so far, which have ``entry_count`` entries in
    ``block_count`` blocks.  ``total_bytes``, the sum of these and the caches, is bounded by
    ``Options.memory_budget_bytes``: ``budget_bytes``, or 0.  ``block_cache_budget_bytes`` is what the
    caches may use now, blocks and entries together.  ``snapshot_versions`` counts the
    overwritten entries that memtables keep for snapshots.
    """

    derived: ClassVar[tuple[str, ...]] = ("total_bytes", *IndexAndFilters.derived)

    memtable_bytes: int
    snapshot_versions: int
    block_cache_bytes: int
    entry_cache_bytes: int
    block_cache_budget_bytes: int
    index_bytes: int
    filter_bytes: int
    entry_count: int
    block_count: int
    budget_bytes: int

    @property
    def total_bytes(self) -> int:
        """Memtables, both caches, indexes and filters together."""
        caches = self.block_cache_bytes + self.entry_cache_bytes
        return self.memtable_bytes + caches + self.index_bytes + self.filter_bytes


def memory_usage(engine: Engine) -> MemoryUsage:
    current = engine.state.require_open()
    tables = [table for table in current.version.tables() if table.index_memory_bytes]
    return MemoryUsage(
        memtable_bytes=engine.writer.memtable_bytes(),
        snapshot_versions=sum(memtable.history_count for memtable in current.memtables),
        block_cache_bytes=engine.cache.used_bytes,
        entry_cache_bytes=int(engine.cache.entries.used_bytes),
        block_cache_budget_bytes=engine.cache.capacity_bytes,
        index_bytes=sum(table.index_memory_bytes for table in tables),
        filter_bytes=sum(table.filter_memory_bytes for table in tables),
        entry_count=sum(table.meta.entry_count for table in tables),
        block_count=sum(table.properties.block_count for table in tables),
        budget_bytes=engine.state.options.memory_budget_bytes,
    )


def approximate_count(current: SuperVersion) -> int:
    """About how many keys there are; overwritten ones may count twice."""
    metas = [table.meta for table in current.version.tables()]
    total = sum(meta.entry_count - 2 * meta.tombstone_count for meta in metas)
    for memtable in reversed(current.memtables):  # oldest first: deletions hide older entries
        kept, deleted = memtable.key_counts()
        total = max(0, total - deleted) + kept
    return max(0, total)


def approximate_size(engine: Engine, wanted: Bounds) -> int:
    """About how many bytes of tables and logs a range takes."""
    if wanted.is_empty:
        return 0
    current = engine.state.require_open()
    size = sum(
        _size_between(wanted, table)
        for run in current.version.runs
        for table in run.tables_between(wanted.start, wanted.stop)
    )
    engine.writer.memtable_bytes()  # notes how long the present log is
    return size + sum(_log_share(wanted, memtable) for memtable in current.memtables)


def _log_share(wanted: Bounds, memtable: Memtable) -> int:
    """A range's share of a log, by the entries of its memtable."""
    if memtable.is_empty or (wanted.start is None and wanted.stop is None):
        return 0 if memtable.is_empty else memtable.log_bytes
    all_bytes = inside_bytes = 0
    low, high = wanted.start or b"", wanted.stop
    for key, value in memtable.newest():
        size = OPERATION_OVERHEAD_BYTES + len(key) + held_bytes(value)
        all_bytes += size
        if low <= key and (high is None or key < high):
            inside_bytes += size
    return memtable.log_bytes * inside_bytes // all_bytes


def size_rows(engine: Engine) -> Iterator[Row]:
    """About how much is in a store, and its memory.  O(tables)."""
    usage = memory_usage(engine)
    yield "keys, about", approximate_count(engine.state.require_open())
    yield "bytes of data", approximate_size(engine, Bounds())
    yield "bytes in memory", usage.total_bytes
    yield "… memtables", usage.memtable_bytes
    yield "… block cache", usage.block_cache_bytes
    yield "… entry cache", usage.entry_cache_bytes
    yield "… index", f"{usage.index_bytes:,} ({usage.index_bytes_per_key:.2f} a key)"
    yield "… filters", f"{usage.filter_bytes:,} ({usage.filter_bytes_per_key:.2f} a key)"
    if usage.budget_bytes:
        yield "memory budget, bytes", usage.budget_bytes


def disk_bytes(engine: Engine) -> int:
    """The bytes of a store's files, or of a published one's tables."""
    current = engine.state.require_open()
    location = engine.location
    if location.directory is None:
        return sum(table.meta.size_bytes for table in current.version.tables())
    return sum(
        _file_bytes(location.storage, path) for path in _files(location.storage, location.directory)
    )


def _files(storage: Storage, directory: str) -> Iterator[str]:
    """Paths of a store's files, with those that are being written."""
    for name in storage.list_directory(directory):
        path = os.path.join(directory, name)
        if is_staging_name(name):
            with contextlib.suppress(FileNotFoundError):
                yield from [os.path.join(path, each) for each in storage.list_directory(path)]
        elif name in SINGLE_NAMES or parse_file_name(name) is not None or is_unfinished_name(name):
            yield path


def _file_bytes(storage: Storage, path: str) -> int:
    try:
        return storage.file_size(path)
    except FileNotFoundError:  # removed meanwhile
        return 0


def _size_between(wanted: Bounds, table: TableReader) -> int:
    start, stop = bounds_within(table, wanted)
    if start is None and stop is None:  # then the index need not be read
        return table.footer.data_length
    first, end = table.block_range(start, stop)
    return int(table.index.offset(end) - table.index.offset(first))
