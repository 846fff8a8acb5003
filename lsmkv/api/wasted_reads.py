"""Replays lookups, and tells which blocks and which keys waste reads.

A read is the search of one block, as it is without a block cache, which would hide reads.  It is needed
where the block has an entry for the key, else wasted.  It is avoided where a filter denied the key.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median_low
from typing import ClassVar, Final

from lsmkv.api.db import DB
from lsmkv.encoding.entries import Absent, key_bytes
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.report import Report
from lsmkv.inspection.store_info import block_info, filter_rate
from lsmkv.sstable.reader import TableReader

_KEYS_BYTES: Final = 16 << 20  # memory for keys that wasted reads
_KEY_OBJECT_BYTES: Final = 160  # a key's object, its place in a dictionary, its count


@dataclass(frozen=True, slots=True)
class WastefulBlock(Report):
    """A block that was read in vain.

    Attributes:
        level, run, table, block: its place, as ``DB.inspect`` numbers it.
        first_key, last_key: what it holds.
        wasted: how often it was read for a key that it lacks.
        denied: how often its filter, or that of the table, denied the key.
        expected_rate: the filter's exact false-positive rate; 1.0 without one.
    """

    derived: ClassVar[tuple[str, ...]] = ("seen_rate",)

    level: int
    run: int
    table: int
    block: int
    first_key: bytes
    last_key: bytes
    wasted: int
    denied: int
    expected_rate: float

    @property
    def seen_rate(self) -> float:
        """The share of lookups of keys that it lacks which read it."""
        return self.wasted / (self.wasted + self.denied)


@dataclass(frozen=True, slots=True)
class WastefulKey(Report):
    """A key whose lookups, all together, wasted reads."""

    key: bytes
    wasted: int


@dataclass(frozen=True, slots=True)
class WastedReads(Report):
    """What replayed lookups read, and what was worst.

    Attributes:
        present, absent: lookups of keys that the store has, and of others.
        needed, wasted, avoided: reads; of those avoided a filter denied the key.
        wasteful_blocks: how many blocks wasted reads.
        blocks: those that wasted most; of equals the newest data first, then in the order of keys.
        keys: those that wasted most; of equals the lower key first.
        uncounted: by how much ``wasted`` of a key may be too low, because too many keys wasted reads to
            count each; 0: it is exact.
    """

    derived: ClassVar[tuple[str, ...]] = ("lookups",)

    present: int
    absent: int
    needed: int
    wasted: int
    avoided: int
    wasteful_blocks: int
    blocks: tuple[WastefulBlock, ...]
    keys: tuple[WastefulKey, ...]
    uncounted: int

    @property
    def lookups(self) -> int:
        """How many lookups there were."""
        return self.present + self.absent


class HeavyKeys:
    """Counts keys, in bounded memory; it loses track of rare ones.

    When the keys take too much, the median count is taken from all, and those left with none go (Misra
    and Gries, "Finding repeated elements", 1982).  ``uncounted`` adds up what was taken, ``kept_bytes``
    is about the memory of the keys.
    """

    def __init__(self, most_bytes: int = _KEYS_BYTES) -> None:
        self._most_bytes = most_bytes
        self.kept_bytes = 0
        self._counts: Counter[bytes] = Counter()
        self.uncounted = 0

    def add(self, key: bytes, count: int) -> None:
        if key not in self._counts:
            self.kept_bytes += len(key) + _KEY_OBJECT_BYTES
        self._counts[key] += count
        if self.kept_bytes > self._most_bytes:
            self._forget()

    def heaviest(self, most: int) -> list[tuple[bytes, int]]:
        """The keys with the highest counts; of equals the lower key first."""
        return heapq.nsmallest(most, self._counts.items(), key=lambda item: (-item[1], item[0]))

    def _forget(self) -> None:
        taken = median_low(self._counts.values())
        left = {key: count - taken for key, count in self._counts.items() if count > taken}
        self._counts = Counter(left)
        self.kept_bytes = sum(map(len, left)) + _KEY_OBJECT_BYTES * len(left)
        self.uncounted += taken


class _BlockCounts:
    """What lookups did in the blocks of one table."""

    def __init__(self, block_count: int) -> None:
        self.denied = [0] * block_count
        self.wasted = [0] * block_count


class Replay:
    """Looks keys up in a store, step by step as ``DB.explain``.  Memory: O(blocks).

    ``DB.stats`` counts its reads alone.  It brings no block into the cache, and teaches filters nothing.
    """

    def __init__(self, db: DB) -> None:
        self._current, self._pin = db._engine.readers.pin_current()
        self._counts: dict[TableReader, _BlockCounts] = {}
        self._keys = HeavyKeys()
        self._present = self._lookups = self._needed = 0

    def look_up(self, key: bytes) -> None:
        """Replay one lookup.  Raises as ``DB.get``."""
        self._lookups += 1
        current, seq = self._current, self._pin.seq
        key_bytes(key)
        ranges = current.range_deletes
        erased_seq = 0 if ranges is None else ranges.newest_over(key, seq)
        for memtable in current.memtables:
            if memtable.entry_seq < erased_seq:
                return
            held = memtable.get_at(key, seq)
            if not isinstance(held, Absent):
                self._present += self._pin.moment.value_of(held) is not None
                return
        h = hash_key(key)
        wasted = 0
        for run in current.version.runs:
            table = run.table_for(key)
            if table is None or table.meta.newest_seq < erased_seq:
                continue
            in_vain, found = self._search(table, key, h, erased_seq)
            wasted += in_vain
            if found is not None:
                self._needed += 1
                self._present += found
                break
        if wasted:
            self._keys.add(key, wasted)

    def _search(
        self, table: TableReader, key: bytes, h: int, erased_seq: int
    ) -> tuple[int, bool | None]:
        """Reads wasted in a table; whether its entry has a value, None without an entry."""
        filters, index = table.filters, table.index
        counts = self._counts.get(table)
        if counts is None:
            counts = self._counts[table] = _BlockCounts(index.block_count)
        filter_hash = filters.hash_of(key, h)
        last = index.find(key)
        first = index.find_first(key) if table.has_versions else last
        if filters.per_table and not filters.table_may_hold(filter_hash):
            counts.denied[first] += 1
            return 0, None
        wasted = 0
        for number in range(first, last + 1):
            if filters.per_block and not filters.block_may_hold(number, filter_hash):
                counts.denied[number] += 1
                continue
            block = table.block(number, False)
            position = block.find(key, h)
            if position >= 0:
                found_seq = table.largest_seq if table.one_seq else block.seq(position)
                is_erased = max(found_seq, table.meta.erased_seq) < erased_seq
                value = self._pin.moment.value_of(block.value(position))
                return wasted, value is not None and not is_erased
            counts.wasted[number] += 1
            wasted += 1
        return wasted, None

    def report(self, worst: int) -> WastedReads:
        """What was counted, with the worst blocks, which are read, and keys."""
        wasteful = [
            (wasted, level, run, table, number)
            for level, run, table in self._tables()
            for number, wasted in enumerate(self._counts[table].wasted)
            if wasted
        ]
        worst_blocks = heapq.nlargest(worst, wasteful, key=lambda block: block[0])
        return WastedReads(
            present=self._present,
            absent=self._lookups - self._present,
            needed=self._needed,
            wasted=sum(block[0] for block in wasteful),
            avoided=sum(sum(counts.denied) for counts in self._counts.values()),
            wasteful_blocks=len(wasteful),
            blocks=tuple(self._described(*block[1:]) for block in worst_blocks),
            keys=tuple(WastefulKey(*counted) for counted in self._keys.heaviest(worst)),
            uncounted=self._keys.uncounted,
        )

    def _tables(self) -> Iterator[tuple[int, int, TableReader]]:
        """Level and run of each table asked, newest data first."""
        for run in self._current.version.runs:
            for table in run.tables:
                if table in self._counts:
                    yield run.level, run.number, table

    def _described(self, level: int, run: int, table: TableReader, number: int) -> WastefulBlock:
        counts, info = self._counts[table], block_info(table, number)
        rate = info.expected_rate if table.filters.per_block else 1.0
        if table.filters.per_table:
            properties = table.properties
            shape = properties.filter_key_count, properties.probe_count
            rate = filter_rate(table, 8 * table.footer.filters_length, *shape)
        return WastefulBlock(
            level=level,
            run=run,
            table=table.meta.number,
            block=number,
            first_key=info.first_key,
            last_key=info.last_key,
            wasted=counts.wasted[number],
            denied=counts.denied[number],
            expected_rate=rate,
        )
