"""The part of a store that looks inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lsmkv.api.ranges import scan_range
from lsmkv.api.snapshot import StoreReader
from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.read.scan import Bounds
from lsmkv.stats import Stats

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.inspection.explain import Explanation
    from lsmkv.inspection.store_info import BlockInfo, StoreInfo
    from lsmkv.inspection.verify import VerifyReport


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory by purpose, in bytes, without Python's own overhead.

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

    def as_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return asdict(self)


class InspectedStore(StoreReader):
    """Counters, sizes and reports of an open store."""

    def stats(self) -> Stats:
        """All counters since the store was opened; two results can be subtracted."""
        self._engine.require_open()
        return self._engine.stats.copy()

    def memory_usage(self) -> MemoryUsage:
        """Memory by purpose."""
        current = self._engine.require_open()
        tables = list(current.version.tables())
        return MemoryUsage(
            memtables=self._engine.memtable_bytes(),
            snapshot_versions=sum(memtable.history_count for memtable in current.memtables),
            block_cache=self._engine.cache.used_bytes,
            block_cache_budget=self._engine.cache.capacity_bytes,
            filters=sum(table.filter_memory_bytes for table in tables),
            indexes=sum(table.index_memory_bytes for table in tables),
        )

    def approximate_count(self) -> int:
        """About how many keys there are; overwritten ones may count twice.  O(tables)."""
        current = self._engine.require_open()
        metas = [table.meta for table in current.version.tables()]
        total = sum(meta.entry_count - 2 * meta.tombstone_count for meta in metas)
        for memtable in reversed(current.memtables):  # oldest first: deletions hide older entries
            kept, deleted = memtable.key_counts()
            total = max(0, total - deleted) + kept
        return max(0, total)

    def approximate_size(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """About how many bytes of tables a range of keys takes.

        start <= key < stop.  Memtables do not count.  O(tables + log blocks): reads no block.
        """
        wanted = scan_range(start, stop, None, False)
        current = self._engine.require_open()
        if wanted.is_empty:
            return 0
        return sum(
            _size_between(wanted, run_table)
            for run in current.version.runs
            for run_table in run.tables_between(wanted.start, wanted.stop)
        )

    def explain(self, key: Buffer) -> Explanation:
        """Every step of one lookup, as data; ``print`` shows it as text."""
        from lsmkv.inspection.explain import explain_lookup

        data = key_bytes(key)
        current, pin = self._engine.pin_current()
        return explain_lookup(current, data, pin.seq)

    def inspect(self) -> StoreInfo:
        """Levels, runs and tables, with the properties that need no block read."""
        from lsmkv.inspection.store_info import inspect_store

        return inspect_store(self._engine.require_open())

    def blocks(self, table_number: int) -> Iterator[BlockInfo]:
        """Every block of a table, with its filter's n, m, k, rate.

        Reads each block, bypassing the cache.

        Raises:
            ValueError: the store has no such table (``inspect`` lists its tables).
            CorruptionError: a block is damaged.
        """
        from lsmkv.inspection.store_info import block_infos

        for table in self._engine.require_open().version.tables():
            if table.meta.number == table_number:
                return block_infos(table)
        raise ValueError(f"table_number={table_number!r}: the store has no such table now")

    def verify(self, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Check every byte of every file, and report all damage.

        ``progress`` is called with the number of blocks checked so far, and of all blocks.
        """
        from lsmkv.inspection.verify import verify_store

        engine = self._engine
        current, _pin = engine.pin_current()
        if engine.published is not None:
            return engine.published.verify(progress)
        return verify_store(engine.storage, engine.directory, current, progress)


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
