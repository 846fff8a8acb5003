"""Adds up explained lookups: which blocks and which keys waste reads.

A read is the search of one block.  It is needed where the block has an entry for the key, else wasted.
It is avoided where a filter denied the key.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lsmkv.inspection.explain import Explanation
from lsmkv.inspection.report import Report
from lsmkv.inspection.tables import Table


@dataclass(frozen=True, slots=True)
class WastefulBlock(Report):
    """A block whose reads were wasted.

    Attributes:
        level, run, table, block: its place, as ``DB.inspect`` numbers it.
        first_key, last_key: what it holds.
        wasted: reads of it for keys that it lacks.
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
    """What lookups read, and which blocks and keys wasted most.

    Attributes:
        present, absent: lookups of keys that the store has, and of others.
        needed, wasted, avoided: reads; of those avoided a filter denied the key.
        wasteful_blocks: how many blocks wasted reads.
        blocks: those that wasted most; of equals the newest data first, then in the order of keys.
        keys: those that wasted most; of equals the lower key first.
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

    @property
    def lookups(self) -> int:
        """How many lookups there were."""
        return self.present + self.absent


class WastedReadsCount:
    """Counts reads of lookups.  Memory: O(blocks, and keys that waste reads)."""

    def __init__(self) -> None:
        self._denied: Counter[tuple[int, int]] = Counter()  # by table and block
        self._wasted: Counter[tuple[int, int]] = Counter()
        self._keys: Counter[bytes] = Counter()
        self._present = self._lookups = self._needed = 0

    def add(self, told: Explanation) -> None:
        """Count one lookup."""
        self._lookups += 1
        self._present += told.outcome == "found"
        for step in told.runs:
            if step.table is None or step.spanning is None:
                continue
            if step.outcome == "filtered":
                self._denied[step.table, step.spanning.number] += 1
            searched = [(step.table, block.number) for block in step.blocks]
            if step.outcome in ("found", "deleted", "expired"):
                self._needed += 1
                searched.pop()
            if searched:
                self._wasted.update(searched)
                self._keys[told.key] += len(searched)

    def report(self, tables: Sequence[Table], worst: int) -> WastedReads:
        """What was counted, and the ``worst`` blocks and keys, so many each.  It reads these blocks.

        ``tables``: those of the store, newest data first.
        """
        places = {table.number: (at, table) for at, table in enumerate(tables)}
        blocks = heapq.nsmallest(
            worst,
            self._wasted.items(),
            key=lambda item: (-item[1], places[item[0][0]][0], item[0][1]),
        )
        keys = heapq.nsmallest(worst, self._keys.items(), key=lambda item: (-item[1], item[0]))
        return WastedReads(
            present=self._present,
            absent=self._lookups - self._present,
            needed=self._needed,
            wasted=self._wasted.total(),
            avoided=self._denied.total(),
            wasteful_blocks=len(self._wasted),
            blocks=tuple(
                self._described(places[number][1], block) for (number, block), _ in blocks
            ),
            keys=tuple(WastefulKey(*counted) for counted in keys),
        )

    def _described(self, table: Table, block: int) -> WastefulBlock:
        info, of_filter = table.block(block), table.filter(block)
        rate = of_filter.expected_rate if of_filter.scope == "table" else info.expected_rate
        return WastefulBlock(
            level=table.level,
            run=table.run,
            table=table.number,
            block=block,
            first_key=info.first_key,
            last_key=info.last_key,
            wasted=self._wasted[table.number, block],
            denied=self._denied[table.number, block],
            expected_rate=1.0 if rate is None or not table.asks_filters else rate,
        )
