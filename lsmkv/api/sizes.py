"""How large an open store is: its memory, its keys, a range of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lsmkv.engine.engine import Engine
from lsmkv.read.bounds import Bounds, block_range, bounds_within
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.reader import TableReader


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory by purpose, in bytes, without Python's own overhead.

    ``memtables`` is the size of the logs that hold the same writes; ``filters`` and ``indexes`` are those
    of tables used so far.  ``total``, the sum of these and the cache, is bounded by
    ``Options.memory_budget_bytes``: ``budget``, or 0.  ``block_cache_budget`` is what the cache may use
    now.  ``snapshot_versions`` counts the overwritten entries that memtables keep for snapshots.
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
    current = engine.state.require_open()
    tables = list(current.version.tables())
    return MemoryUsage(
        memtables=engine.writer.memtable_bytes(),
        snapshot_versions=sum(memtable.history_count for memtable in current.memtables),
        block_cache=engine.cache.used_bytes,
        block_cache_budget=engine.cache.capacity_bytes,
        filters=sum(table.filter_memory_bytes for table in tables),
        indexes=sum(table.index_memory_bytes for table in tables),
        budget=engine.state.options.memory_budget_bytes,
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
        _size_between(wanted, table)
        for run in current.version.runs
        for table in run.tables_between(wanted.start, wanted.stop)
    )


def _size_between(wanted: Bounds, table: TableReader) -> int:
    start, stop = bounds_within(table, wanted)
    if start is None and stop is None:  # then the index need not be read
        return table.footer.data_length
    first, end = block_range(table, start, stop)
    return int(table.index.offset(end) - table.index.offset(first))
