"""Open tables arranged as the tree is: what look-ups and scans walk through.

A :class:`Version` is never changed.  Flushes and compactions make a new one; whoever still reads the
old one keeps it, and through it its files, alive.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

from librt.strings import read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.absent import Absent
from lsmkv.encoding.fences import fence, lower_bound
from lsmkv.encoding.words import COMPILED, common_prefix_length, is_same
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.table_filters import TableFilters
from lsmkv.stats import Stats
from lsmkv.tree.levels import Levels

Value = bytes | None  # None is a deletion

_ENDLESS: Final = i64(1 << 62)


class Run:
    """Open tables whose key ranges do not overlap, by ascending key."""

    def __init__(self, level: int, number: int, tables: list[TableReader]) -> None:
        self.level = level
        self.number = number
        self.tables = tables
        self._smallest = [table.meta.smallest for table in tables]
        self._largest = [table.meta.largest for table in tables]
        self._first_key = self._smallest[0]
        self._prefix_length: i64 = common_prefix_length(self._first_key, self._largest[-1])
        self._smallest_fences = self._fences(self._smallest)
        self._largest_fences = self._fences(self._largest)

    def _fences(self, keys: list[bytes]) -> bytes:
        fences = [fence(key, self._prefix_length) for key in keys]
        return struct.pack(f"<{len(fences)}Q", *fences)

    def table_for(self, key: bytes) -> TableReader | None:
        """The table whose key range holds ``key``.  O(log tables)."""
        shared = self._prefix_length
        if len(key) < shared or not is_same(key, 0, self._first_key, 0, shared):
            return None  # outside of the whole run's range
        target = fence(key, shared)
        count: i64 = len(self.tables)
        at = lower_bound(self._largest_fences, 0, count - 1, target)
        largest = read_i64_le(self._largest_fences, 8 * at)
        if largest <= target:
            if largest < target:
                return None  # above the last
            at = bisect_left(self._largest, key, at)  # fences do not tell them apart
            if at == count:
                return None
        smallest = read_i64_le(self._smallest_fences, 8 * at)
        if target < smallest or (target == smallest and key < self._smallest[at]):
            return None
        return self.tables[at]

    def tables_between(self, start: bytes | None, stop: bytes | None) -> list[TableReader]:
        """The tables that may hold keys with start <= key < stop; not to be changed.

        O(log tables), and a copy.
        """
        if len(self.tables) == 1:
            beyond = (start is not None and self._largest[0] < start) or (
                stop is not None and self._first_key >= stop
            )
            return [] if beyond else self.tables
        low = 0 if start is None else bisect_left(self._largest, start)
        if stop is None:
            return self.tables[low:]
        high = bisect_left(self._smallest, stop)
        return self.tables[low:high]

    def get_many(
        self,
        keys: list[bytes],
        hashes: vec[i64],
        wanted: vec[i64],
        values: list[Value],
        stats: Stats,
    ) -> vec[i64]:
        """Put the present values of keys that the run has into ``values``.

        What several keys need from memory is asked for step by step, all of them in each step: so the
        processor waits for many at once, and not for one after the other.  It looks only some hundred
        instructions ahead, so to touch is a short loop of its own before the one that needs it (an
        interpreter is too slow to wait).

        Args:
            hashes: of ``keys``.
            wanted: positions in ``keys``; what it holds afterwards is of no use.

        Returns:
            Those of ``wanted`` that the run knows nothing of.
        """
        asked = vec[i64]([0] * len(wanted))
        places = vec[i64]([0] * len(wanted))  # of each that is asked, ever closer to its entry
        tables: list[TableReader] = []
        filters: list[TableFilters] = []
        count: i64 = 0
        unknown: i64 = 0  # they take the places in wanted of those that were looked at
        for position in wanted:
            key = keys[position]
            table = self.table_for(key)
            if table is None:
                stats.range_negatives += 1
                wanted[unknown] = position
                unknown += 1
            else:
                its_filters = table.filters
                tables.append(table)
                filters.append(its_filters)
                asked[count] = position
                places[count] = its_filters.index.group_of(key)
                count += 1
        if COMPILED:
            for at in range(count):
                filters[at].index.prefetch(places[at])
        for at in range(count):
            position = asked[at]
            places[at] = tables[at].block_near(keys[position], hashes[position], places[at])
        if COMPILED:
            for at in range(count):
                if places[at] >= 0:
                    filters[at].prefetch(places[at])
        asked_count, count = count, 0
        for at in range(asked_count):
            position, number = asked[at], places[at]
            if number >= 0 and tables[at].filter_allows(number, keys[position], hashes[position]):
                asked[count] = position
                places[count] = number
                tables[count] = tables[at]
                count += 1
            else:
                wanted[unknown] = position
                unknown += 1
        if COMPILED:
            for at in range(count):
                tables[at].is_cached(places[at])  # which looks at the block itself
        blocks: list[Block] = []
        for at in range(count):
            blocks.append(tables[at].block(places[at], True))
        if COMPILED:
            for block in blocks:
                block.prefetch()
        for at in range(count):
            position = asked[at]
            places[at] = tables[at].find_in(blocks[at], keys[position], hashes[position])
        if COMPILED:
            for at in range(count):
                if places[at] >= 0:
                    blocks[at].prefetch_value(places[at])
        for at in range(count):
            position, place = asked[at], places[at]
            if place < 0:
                wanted[unknown] = position
                unknown += 1
            else:
                values[position] = blocks[at].value(place)
        return wanted[:unknown]


class Version:
    """Every run of the tree, opened, newest data first.

    It counts how often a run is asked in vain.

    Attributes:
        needs_read_compaction: whether that was as often as :meth:`watch` was told.
    """

    def __init__(self, levels: Levels, readers: dict[int, TableReader]) -> None:
        self.levels = levels
        self.needs_read_compaction = False
        self._read_compaction_budget: i64 = _ENDLESS
        self._budget_spent: Callable[[], None] | None = None
        self.runs: list[Run] = [
            Run(level, run.number, [readers[table.number] for table in run.tables])
            for level, runs in enumerate(levels.by_depth)
            for run in runs
        ]

    def get(self, key: bytes, h: i64, max_seq: int, stats: Stats) -> Value:
        """The newest value of ``key`` numbered ``max_seq`` or lower; None: there is none."""
        for run in self.runs:
            table = run.table_for(key)
            if table is None:
                stats.range_negatives += 1
            else:
                found = table.get(key, h, max_seq)
                if not isinstance(found, Absent):
                    return found
                self._read_compaction_budget -= 1
                if self._read_compaction_budget <= 0:
                    self._spend_read_compaction_budget()
        return None

    def watch(self, patience: int, out_of_patience: Callable[[], None]) -> None:
        """Have ``out_of_patience`` called once runs have been asked in vain so often from now on."""
        self.needs_read_compaction = False
        self._budget_spent = out_of_patience
        self._read_compaction_budget = patience

    def charge_wasted_probes(self, count: i64) -> None:
        """Count so many times that a run was asked, and knew nothing of the key."""
        self._read_compaction_budget -= count
        if self._read_compaction_budget <= 0:
            self._spend_read_compaction_budget()

    def _spend_read_compaction_budget(self) -> None:
        self._read_compaction_budget = _ENDLESS
        self.needs_read_compaction = True
        if self._budget_spent is not None:
            self._budget_spent()

    def tables(self) -> Iterator[TableReader]:
        for run in self.runs:
            yield from run.tables
