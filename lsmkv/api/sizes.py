"""How large an open store is: its memory, its keys, a range of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lsmkv.engine.engine import Engine
from lsmkv.read.scan import Bounds
from lsmkv.read.view import SuperVersion


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory by purpose, in bytes, without Python's own overhead.

    ``total`` is the sum of memtables, cache, filters and indexes, which ``Options.memory_budget_bytes``
    bounds; ``budget`` is that option, or 0.  ``block_cache_budget`` is what the cache may use now.
    ``filters`` and ``indexes`` are those of tables used so far, because each is read at its first use.
    ``memtables`` is the size of the logs that hold the same writes.  ``snapshot_versions`` is no size:
    it counts the overwritten entries that memtables keep for snapshots.
    """

    memtables: int
    snapshot_versions: int
    block_cache: int
    block_cache_budget: int
    filters: int
    indexes: int
    budget: int

    @property
    def total(self) -> int:
        """Memtables, block cache, filters and indexes together."""
        return self.memtables + self.block_cache + self.filters + self.indexes

    def as_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return asdict(self)


def memory_usage(engine: Engine) -> MemoryUsage:
    current = engine.require_open()
    tables = list(current.version.tables())
    return MemoryUsage(
        memtables=engine.memtable_bytes(),
        snapshot_versions=sum(memtable.history_count for memtable in current.memtables),
        block_cache=engine.cache.used_bytes,
        block_cache_budget=engine.cache.capacity_bytes,
        filters=sum(table.filter_memory_bytes for table in tables),
        indexes=sum(table.index_memory_bytes for table in tables),
        budget=engine.options.memory_budget_bytes,
    )


def approximate_count(current: SuperVersion) -> int:
    """About how many keys there are; overwritten ones may count twice."""
    metas = [table.meta for table in current.version.tables()]
    total = sum(meta.entry_count - 2 * meta.tombstone_count for meta in metas)
    for memtable in reversed(current.memtables):  # oldest first: deletions hide older entries
        kept, deleted = memtable.key_counts()
        total = max(0, total - deleted) + kept
    return max(0, total)


def approximate_size(current: SuperVersion, wanted: Bounds) -> int:
    """About how many bytes of tables a range of keys takes."""
    if wanted.is_empty:
        return 0
    return sum(
        _size_between(wanted, run_table)
        for run in current.version.runs
        for run_table in run.tables_between(wanted.start, wanted.stop)
    )


def _size_between(wanted: Bounds, table: Any) -> int:
    meta = table.meta
    low, high = 0, table.footer.data_length
    if wanted.start is not None and wanted.start > meta.smallest:
        index = table.index
        low = index.offset(index.seek(wanted.start))
    if wanted.stop is not None and wanted.stop <= meta.largest:
        index = table.index
        high = index.offset(min(index.seek(wanted.stop) + 1, index.block_count))
    return int(high - low)
