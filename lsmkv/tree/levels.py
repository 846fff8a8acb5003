"""The levels of the tree as plain data: which tables make which runs.

A *run* is a sequence of tables whose key ranges do not overlap; a *level* is a list of runs, newest
first.  An entry hides those of its key in older runs of its level and in all deeper levels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Final

import msgspec

from lsmkv.encoding.range_deletes import RangeDelete
from lsmkv.sstable.format import TableMeta

MAX_LEVELS: Final = 32
_LARGEST: Final = attrgetter("largest")


class PlacedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table and its place; a higher run number is a newer run.

    Level 0 is newer than level 1, and so on.  In a leveled tree each level below 0 is one run, number 0.
    """

    level: int
    run: int
    meta: TableMeta


@dataclass(frozen=True, slots=True)
class RunMeta:
    number: int
    tables: tuple[TableMeta, ...]

    @property
    def size_bytes(self) -> int:
        return sum(table.size_bytes for table in self.tables)

    @property
    def entry_count(self) -> int:
        return sum(table.entry_count for table in self.tables)

    def overlapping(self, smallest: bytes, largest: bytes) -> tuple[TableMeta, ...]:
        """Its tables with keys from ``smallest`` to ``largest``, both included."""
        return tuple(
            table
            for table in self.tables
            if table.largest >= smallest and table.smallest <= largest
        )


Level = tuple[RunMeta, ...]


@dataclass(frozen=True, slots=True)
class Levels:
    """Every table of the store, level by level.  Immutable."""

    by_depth: tuple[Level, ...] = ()

    def placed(self) -> Iterator[PlacedTable]:
        """Every table with its place, newest data first."""
        for level, runs in enumerate(self.by_depth):
            for run in runs:
                for table in run.tables:
                    yield PlacedTable(level, run.number, table)

    def tables(self) -> Iterator[TableMeta]:
        return (placed.meta for placed in self.placed())

    def runs(self) -> Iterator[RunMeta]:
        for runs in self.by_depth:
            yield from runs

    def level_bytes(self, level: int) -> int:
        if level >= len(self.by_depth):
            return 0
        return sum(run.size_bytes for run in self.by_depth[level])

    @property
    def level0_run_count(self) -> int:
        return len(self.by_depth[0]) if self.by_depth else 0

    @property
    def deepest(self) -> int:
        """Number of the deepest level; -1 when the tree is empty."""
        return len(self.by_depth) - 1

    def changed(self, added: Iterable[PlacedTable], removed: Iterable[int]) -> Levels:
        """The levels after removing tables by number and adding others.

        ValueError if a removed table is not here, an added one is already, or a run would overlap.
        """
        kept: dict[int, PlacedTable] = {table.meta.number: table for table in self.placed()}
        for number in set(removed):
            if kept.pop(number, None) is None:
                raise ValueError(f"table {number} is removed, but is not in the tree")
        for table in added:
            number = table.meta.number
            if number in kept:
                raise ValueError(f"table {number} is in the tree already")
            if not 0 <= table.level < MAX_LEVELS or table.run < 0:
                raise ValueError(f"table {number} has level {table.level}, run {table.run}")
            if problem := table.meta.problem():
                raise ValueError(f"table {number} is not valid: {problem}")
            kept[number] = table
        runs: dict[tuple[int, int], list[TableMeta]] = {}
        for table in kept.values():
            runs.setdefault((table.level, table.run), []).append(table.meta)
        depth = 1 + max((level for level, _ in runs), default=-1)
        levels: list[list[RunMeta]] = [[] for _ in range(depth)]
        for (level, number), tables in sorted(runs.items(), reverse=True):
            tables.sort(key=lambda table: table.smallest)
            for left, right in pairwise(tables):
                if left.largest >= right.smallest:
                    raise ValueError(f"tables {left.number} and {right.number} of a run overlap")
            levels[level].append(RunMeta(number, tuple(tables)))
        return Levels(tuple(map(tuple, levels)))

    def has_hidden_by(self, erased: RangeDelete) -> bool:
        """Whether a range delete may hide an entry of a table."""
        start, stop, seq = erased
        for run in self.runs():
            for table in run.tables[bisect_left(run.tables, start, key=_LARGEST) :]:
                if stop is not None and table.smallest >= stop:
                    break
                if table.least_seq < seq:
                    return True
        return False
