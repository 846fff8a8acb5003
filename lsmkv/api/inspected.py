"""The part of a store that looks inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lsmkv.api.ranges import scan_range
from lsmkv.api.sizes import MemoryUsage, approximate_count, approximate_size, memory_usage
from lsmkv.api.snapshot import StoreReader
from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.stats import Stats

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.inspection.explain import Explanation
    from lsmkv.inspection.store_info import BlockInfo, StoreInfo
    from lsmkv.inspection.verify import VerifyReport


class InspectedStore(StoreReader):
    """Counters, sizes and reports of an open store."""

    def stats(self) -> Stats:
        """All counters since the store was opened; two results can be subtracted."""
        self._engine.require_open()
        return self._engine.stats.copy()

    def memory_usage(self) -> MemoryUsage:
        """Memory by purpose."""
        return memory_usage(self._engine)

    @property
    def write_room_bytes(self) -> int:
        """How many bytes of log the next writes may fill without waiting; 0 if the next may wait.

        It may wait for a flush, for a new log file, or to let compactions catch up.  Other threads that
        write use up the same room.
        """
        return self._engine.room_bytes()

    def approximate_count(self) -> int:
        """About how many keys there are; overwritten ones may count twice.  O(tables)."""
        return approximate_count(self._engine.require_open())

    def approximate_size(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """About how many bytes of tables a range of keys takes.

        start <= key < stop.  Memtables do not count.  O(tables + log blocks): reads no block.
        """
        wanted = scan_range(start, stop, None, False)
        return approximate_size(self._engine.require_open(), wanted)

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
