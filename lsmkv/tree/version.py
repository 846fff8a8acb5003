"""The open tables of the tree, for lookups and scans.

A :class:`Version` is immutable.  Flushes and compactions make a new one; a reader that still uses the
old one keeps it, and through it its files, alive.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

from librt.strings import read_i64_be, read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import Absent
from lsmkv.encoding.expiry import Held
from lsmkv.encoding.fences import MASK_63, fence, lower_bound
from lsmkv.encoding.range_deletes import RangeDelete, RangeDeletes
from lsmkv.encoding.words import COMPILED, common_prefix_length, is_same
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import fetch_blocks, forget_blocks
from lsmkv.sstable.reader import TableReader
from lsmkv.stats import Stats
from lsmkv.storage.files import LOOKUPS_TOGETHER
from lsmkv.tree.levels import Levels

_ENDLESS: Final = i64(1 << 62)


class Run:
    def __init__(self, level: int, number: int, tables: list[TableReader]) -> None:
        self.level = level
        self.number = number
        self.tables = tables
        self._smallest = [table.meta.smallest for table in tables]
        self._largest = [table.meta.largest for table in tables]
        self._first_key = self._smallest[0]
        self._largest_seq = max([table.largest_seq for table in tables])
        self._has_versions = True in [table.has_versions for table in tables]
        self._prefix_length = common_prefix_length([self._first_key, self._largest[-1]])
        self._smallest_fences = self._fences(self._smallest)
        self._largest_fences = self._fences(self._largest)

    def _fences(self, keys: list[bytes]) -> bytes:
        fences = [fence(key, self._prefix_length, len(key)) for key in keys]
        return struct.pack(f"<{len(fences)}Q", *fences)

    def table_for(self, key: bytes) -> TableReader | None:
        """The table whose key range holds ``key``.  O(log tables)."""
        shared = self._prefix_length
        if len(key) < shared or not is_same(key, 0, self._first_key, 0, shared):
            return None  # outside the range of the run
        if shared + 8 <= len(key):  # fence, without the cost of a call
            target = (read_i64_be(key, shared) >> 1) & MASK_63
        else:
            target = fence(key, shared, len(key))
        count: i64 = len(self.tables)
        at = lower_bound(self._largest_fences, 0, count - 1, target)
        largest = read_i64_le(self._largest_fences, 8 * at)
        if largest <= target:
            if largest < target:
                return None  # above the last
            at = bisect_left(self._largest, key, at)  # equal fences: compare keys
            if at == count:
                return None
        smallest = read_i64_le(self._smallest_fences, 8 * at)
        if target < smallest or (target == smallest and key < self._smallest[at]):
            return None
        return self.tables[at]

    def is_all_visible(self, seq: int) -> bool:
        """Whether a view of ``seq`` sees every entry, one for each key."""
        return seq >= self._largest_seq and not self._has_versions

    def tables_between(self, start: bytes | None, stop: bytes | None) -> list[TableReader]:
        """Tables that may hold keys with start <= key < stop; not to be changed."""
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
        values: list[Held],
        stats: Stats,
    ) -> vec[i64]:
        """Put the values of keys that this run has into ``values``.

        ``wanted`` are positions in ``keys``, and ``hashes`` their hashes.  Returns the positions of
        keys without an entry here; ``wanted`` is overwritten.

        Each step is done for all keys before the next, so that the processor waits for many reads from
        memory at once.  It looks only some hundred instructions ahead, so each step prefetches in a
        short loop what the next one reads (an interpreter is too slow to gain from that).
        """
        asked = vec[i64]([0] * len(wanted))
        tables: list[TableReader] = []
        count: i64 = 0
        unknown: i64 = 0  # positions without an entry, moved to the front of ``wanted``
        for position in wanted:
            table = self.table_for(keys[position])
            if table is None:
                stats.range_negatives += 1
                wanted[unknown] = position
                unknown += 1
            elif table.has_versions:  # the newest one may stand in an earlier block: one by one
                found = table.get(keys[position], hashes[position], table.largest_seq)
                if isinstance(found, Absent):
                    wanted[unknown] = position
                    unknown += 1
                else:
                    values[position] = found
            else:
                tables.append(table)
                asked[count] = position
                count += 1
        places = vec[i64]([0] * count)
        unknown = _find_blocks(keys, hashes, tables, asked, places, wanted, unknown)
        unknown = _find_entries(keys, hashes, tables, asked, places, wanted, unknown, values)
        return wanted[:unknown]


def _find_blocks(
    keys: list[bytes],
    hashes: vec[i64],
    tables: list[TableReader],
    asked: vec[i64],
    places: vec[i64],
    wanted: vec[i64],
    unknown: i64,
) -> i64:
    """Find the block for each asked key; drop keys that filters exclude.

    The blocks go to ``places``, dropped positions behind the ``unknown`` first of ``wanted``; returns
    their new count.
    """
    filters = [table.filters for table in tables]
    asked_count: i64 = len(tables)
    for at in range(asked_count):
        places[at] = filters[at].index.group_of(keys[asked[at]])
    if COMPILED:
        for at in range(asked_count):
            filters[at].index.prefetch(places[at])
    for at in range(asked_count):
        position = asked[at]
        places[at] = tables[at].block_near(keys[position], hashes[position], places[at])
    if COMPILED:
        for at in range(asked_count):
            if places[at] >= 0:
                filters[at].prefetch(places[at])
    count: i64 = 0
    for at in range(asked_count):
        position, block_number = asked[at], places[at]
        if block_number >= 0 and tables[at].filter_allows(
            block_number, keys[position], hashes[position]
        ):
            asked[count] = position
            places[count] = block_number
            tables[count] = tables[at]
            count += 1
        else:
            wanted[unknown] = position
            unknown += 1
    del tables[count:]
    return unknown


def _find_entries(
    keys: list[bytes],
    hashes: vec[i64],
    tables: list[TableReader],
    asked: vec[i64],
    places: vec[i64],
    wanted: vec[i64],
    unknown: i64,
    values: list[Held],
) -> i64:
    """Put the values of asked keys, in the blocks ``places``, into ``values``."""
    count: i64 = len(tables)
    if COMPILED:
        for at in range(count):
            tables[at].is_cached(places[at])  # which reads the cache entry of the block
    if count > 1 and tables[0].file.reads_under_way > 1:
        blocks = _blocks_together(tables, places)
    else:
        blocks = []
        for at in range(count):
            blocks.append(tables[at].block(places[at], True))
    if COMPILED:
        for block in blocks:
            block.prefetch()
    for at in range(count):
        position = asked[at]
        places[at] = tables[at].find_in(blocks[at], places[at], keys[position], hashes[position])
    if COMPILED:
        for at in range(count):
            if places[at] >= 0:
                blocks[at].prefetch_value(places[at])
    for at in range(count):
        position, entry_position = asked[at], places[at]
        if entry_position < 0:
            table = tables[at]
            if table.asks.learns:
                number = table.index.find(keys[position])
                table.asks.learn(table.filters, blocks[at], number, hashes[position])
            wanted[unknown] = position
            unknown += 1
        else:
            values[position] = blocks[at].value(entry_position)
    return unknown


def _blocks_together(tables: list[TableReader], places: vec[i64]) -> list[Block]:
    """The first blocks ``places``, one of each table: each read once, all at the same time."""
    found: dict[tuple[int, int], Block] = {}
    blocks: list[Block] = []
    try:
        for at, table in enumerate(tables):
            if not table.is_cached(places[at]):
                fetch_blocks(table, places[at], places[at] + 1)
        for at, table in enumerate(tables):
            key = (table.meta.number, int(places[at]))
            block = found.get(key)
            if block is None:
                block = found[key] = table.block(places[at], True)
            blocks.append(block)
    except BaseException:
        for at, table in enumerate(tables):
            forget_blocks(table, places[at], places[at] + 1)
        raise
    return blocks


class Version:
    """Every run of the tree, opened, newest data first.

    It counts wasted probes: how often a lookup asks a run that does not have its key.
    ``needs_read_compaction`` is set when their budget is spent.  ``range_deletes``: those that may hide
    entries of its tables.  ``epoch`` is that of the entry cache in which lookups read them.
    """

    def __init__(
        self,
        levels: Levels,
        readers: dict[int, TableReader],
        range_deletes: RangeDeletes | None = None,
    ) -> None:
        self.levels = levels
        self.range_deletes = range_deletes
        self.epoch: i64 = 0
        self._ranges = RangeDeletes(()) if range_deletes is None else range_deletes
        self.needs_read_compaction = False
        self._read_compaction_budget: i64 = _ENDLESS
        self._budget_spent: Callable[[], None] | None = None
        self.runs: list[Run] = [
            Run(level, run.number, [readers[table.number] for table in run.tables])
            for level, runs in enumerate(levels.by_depth)
            for run in runs
        ]
        self.lookups_together = max(
            (reader.file.lookups_together for reader in readers.values()), default=LOOKUPS_TOGETHER
        )

    def range_deletes_with(self, newer: tuple[RangeDelete, ...]) -> RangeDeletes | None:
        """Those of the version and ``newer`` ones; None without any."""
        return self._ranges.followed_by(newer) if newer else self.range_deletes

    def get(self, key: bytes, h: i64, max_seq: int, stats: Stats) -> Held:
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

    def set_read_compaction_budget(
        self, read_compaction_budget: int, budget_spent: Callable[[], None]
    ) -> None:
        """Call ``budget_spent`` after that many more wasted probes."""
        self.needs_read_compaction = False
        self._budget_spent = budget_spent
        self._read_compaction_budget = read_compaction_budget

    def charge_wasted_probes(self, count: i64) -> None:
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
