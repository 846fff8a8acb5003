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

from lsmkv.absent import ABSENT, Absent
from lsmkv.compare import is_same
from lsmkv.encoding import COMPILED, MAX_SEQUENCE, common_prefix_length
from lsmkv.filters.hashing import hash_key
from lsmkv.memtable import Memtable
from lsmkv.sstable.block import Block
from lsmkv.sstable.filtering import TableFilters
from lsmkv.sstable.index import fence, lower_bound
from lsmkv.sstable.reader import TableReader
from lsmkv.stats import Stats
from lsmkv.tree import Tree

Value = bytes | None  # None is a deletion

_TOGETHER: Final = 64  # keys that are looked up side by side: as many blocks may be held at once
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
                filters[at].index.touch(places[at])
        for at in range(count):
            position = asked[at]
            places[at] = filters[at].block_near(keys[position], hashes[position], places[at])
        if COMPILED:
            for at in range(count):
                if places[at] >= 0:
                    filters[at].touch(places[at])
        asked_count, count = count, 0
        for at in range(asked_count):
            position, number = asked[at], places[at]
            if number >= 0 and filters[at].may_be_in(number, keys[position], hashes[position]):
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
                block.touch()
        for at in range(count):
            position = asked[at]
            places[at] = tables[at].find_in(blocks[at], keys[position], hashes[position])
        if COMPILED:
            for at in range(count):
                if places[at] >= 0:
                    blocks[at].touch_value(places[at])
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
        is_impatient: whether that was as often as :meth:`watch` was told.
    """

    def __init__(self, tree: Tree, readers: dict[int, TableReader]) -> None:
        self.tree = tree
        self.is_impatient = False
        self._patience: i64 = _ENDLESS
        self._out_of_patience: Callable[[], None] | None = None
        self.runs: list[Run] = [
            Run(level, run.number, [readers[table.number] for table in run.tables])
            for level, runs in enumerate(tree.levels)
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
                self._patience -= 1
                if self._patience <= 0:
                    self._lose_patience()
        return None

    def watch(self, patience: int, out_of_patience: Callable[[], None]) -> None:
        """Have ``out_of_patience`` called once runs have been asked in vain so often from now on."""
        self.is_impatient = False
        self._out_of_patience = out_of_patience
        self._patience = patience

    def note_vain(self, count: i64) -> None:
        """Count so many times that a run was asked, and knew nothing of the key."""
        self._patience -= count
        if self._patience <= 0:
            self._lose_patience()

    def _lose_patience(self) -> None:
        self._patience = _ENDLESS
        self.is_impatient = True
        if self._out_of_patience is not None:
            self._out_of_patience()

    def tables(self) -> Iterator[TableReader]:
        for run in self.runs:
            yield from run.tables


class View:
    """One consistent set of everything that can hold a key: memtables, newest first, and tables."""

    def __init__(
        self, memtable: Memtable, flushing: tuple[Memtable, ...], version: Version
    ) -> None:
        self.memtable = memtable
        self.flushing = flushing
        self.version = version

    def get(self, key: bytes, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none."""
        stats.gets += 1
        found = self._in_memtables(key)
        if isinstance(found, Absent):
            value = self.version.get(key, hash_key(key), MAX_SEQUENCE, stats)
            if value is not None:
                stats.get_hits += 1
            return value
        stats.memtable_hits += 1
        if found is not None:
            stats.get_hits += 1
        return found

    def get_many(self, keys: list[bytes], stats: Stats) -> list[Value]:
        """The present value of each of ``keys``; None where there is none."""
        found: list[Value] = []
        for start in range(0, len(keys), _TOGETHER):
            end = start + _TOGETHER
            found += self._get_together(keys[start:end], stats)
        return found

    def _get_together(self, keys: list[bytes], stats: Stats) -> list[Value]:
        count = len(keys)
        stats.gets += count
        values: list[Value] = [None] * count
        wanted = vec[i64]([0] * count)
        hashes = vec[i64]([0] * count)
        left: i64 = 0
        for position, key in enumerate(keys):
            known = self._in_memtables(key)
            if isinstance(known, Absent):
                hashes[position] = hash_key(key)
                wanted[left] = position
                left += 1
            else:
                values[position] = known
                stats.memtable_hits += 1
        wanted = wanted[:left]
        for run in self.version.runs:
            if len(wanted):
                wanted = run.get_many(keys, hashes, wanted, values, stats)
                self.version.note_vain(len(wanted))
        stats.get_hits += count - values.count(None)
        return values

    def _in_memtables(self, key: bytes) -> Value | Absent:
        if not self.memtable.is_empty:  # an empty one is not worth hashing the key
            found = self.memtable.get(key)
            if not isinstance(found, Absent):
                return found
        for memtable in self.flushing:
            found = memtable.get(key)
            if not isinstance(found, Absent):
                return found
        return ABSENT

    def get_at(self, key: bytes, seq: int, stats: Stats) -> Value:
        """The value that ``key`` had as of ``seq``, which is pinned; None when it had none."""
        return value_at(self.memtables, self.version, key, seq, stats)

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        return (self.memtable, *self.flushing)


def value_at(
    memtables: tuple[Memtable, ...], version: Version, key: bytes, seq: int, stats: Stats
) -> Value:
    """The value that ``key`` had as of ``seq``, of which nothing is forgotten; None: it had none."""
    stats.gets += 1
    for memtable in memtables:
        found = memtable.get_at(key, seq)
        if not isinstance(found, Absent):
            stats.memtable_hits += 1
            break
    else:
        found = version.get(key, hash_key(key), seq, stats)
    if found is not None:
        stats.get_hits += 1
    return found
