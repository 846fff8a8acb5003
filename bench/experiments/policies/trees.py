"""Part ``trees``: filter memory shared among the runs of full trees, beside the papers' formulas.

Level i of L has T times the keys of level i - 1.  A *leveled* tree has one run in each level, a *tiered*
one T - 1, before the next one causes a merge, and a *lazy-leveled* one T - 1, but one in the last level.

Sources: N. Dayan, M. Athanassoulis, S. Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017;
N. Dayan, S. Idreos, "Dostoevsky: Better Space-Time Trade-Offs for LSM-Tree Based Key-Value Stores via
Adaptive Removal of Superfluous Merging", SIGMOD 2018.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import lsmkv
from lsmkv.filters.maths.allocation import expected_wasted_reads, monkey_error_rates

from ...harness.run_stores import write_tree
from ...workloads.keys import absent_key, present_key
from .rows import Row
from .stores import look_up, rate_of

STYLES: Final = ("leveled", "tiered", "lazy-leveled")
SIZE_RATIO: Final = 4
LEVELS: Final = 3
BITS: Final = 8.0  # what is kept while the others vary
_BITS: Final = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
_LEVELS: Final = (1, 2, 3, 4, 5)
_RATIOS: Final = (2, 3, 4, 6, 8)
_PRESENT: Final = 10_000
_TOLERANCE: Final = 0.15  # of the formula, besides what chance explains
_SIGMAS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Tree:
    """A full tree of about ``key_count`` keys.

    >>> Tree("lazy-leveled", size_ratio=3, level_count=3, key_count=1300).runs()
    [50, 50, 150, 150, 900]
    """

    style: str
    size_ratio: int
    level_count: int
    key_count: int

    def runs_in(self, level: int) -> int:
        """The runs of a level; the first is 1."""
        if self.style == "leveled" or (self.style != "tiered" and level == self.level_count):
            return 1
        return self.size_ratio - 1

    def runs(self) -> list[int]:
        """The keys of each run, the newest first."""
        levels = range(1, self.level_count + 1)
        smallest = self.key_count / sum(self.size_ratio ** (level - 1) for level in levels)
        return [
            round(smallest * self.size_ratio ** (level - 1) / self.runs_in(level))
            for level in levels
            for _ in range(self.runs_in(level))
        ]

    def rates(self, filters: str, bits_per_key: float) -> list[float]:
        """The rate of each run, 1 for no filter, at these bits per key; ``hits`` leaves out the last."""
        runs, rate = self.runs(), rate_of(bits_per_key)
        if filters == "monkey":
            return monkey_error_rates(runs, rate)
        last = self.runs_in(self.level_count) if filters == "hits" else 0
        return [rate] * (len(runs) - last) + [1.0] * last

    def reads(self, filters: str, bits_per_key: float) -> float:
        """Reads of an absent key: the sum of the runs' rates (Monkey, R = sum of p_i)."""
        return expected_wasted_reads(self.rates(filters, bits_per_key))


@dataclass(frozen=True, slots=True)
class Task:
    """One tree, and the lookups in it; ``bits_per_key`` are those of one rate for all runs."""

    tree: Tree
    filters: str
    bits_per_key: float
    lookups: int
    seed: int

    def __str__(self) -> str:
        tree = self.tree
        shape = f"{tree.style}, T={tree.size_ratio}, {tree.level_count} levels"
        return f"{shape}, {self.filters}, {self.bits_per_key:g} bits"

    def measure(self, directory: str) -> list[Row]:
        path, tree = os.path.join(directory, "store"), self.tree
        runs = tree.runs()
        write_tree(path, runs, tree.rates(self.filters, self.bits_per_key), self.seed)
        count = sum(runs)
        draw = random.Random(f"allocation/{self.seed}")
        between = count - 1
        absent = [absent_key(n) for n in draw.sample(range(between), min(self.lookups, between))]
        present = [present_key(n) for n in draw.sample(range(count), min(_PRESENT, count))]
        with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
            gone, before = look_up(db, absent), db.stats()
            if any(db.get(key) is None for key in present):
                raise AssertionError(f"{self}: wrong answers")
            here, info = db.stats() - before, db.inspect()
        return [
            Row(
                part="trees",
                load=tree.style,
                filters=self.filters,
                bits_per_key=self.bits_per_key,
                key_count=count,
                lookup_count=len(absent),
                size_ratio=tree.size_ratio,
                level_count=tree.level_count,
                independent_lookups=len(absent),
                run_count=len(runs),
                entry_count=info.entry_count,
                filter_bytes=info.filter_bytes,
                learnt_bits_per_key=0.0,
                wasted_reads=gone.block_reads,
                passed=gone.filter_false_positives + gone.unfiltered_probes,
                filters_asked=gone.filter_negatives + gone.filter_false_positives,
                expected_reads=tree.reads(self.filters, self.bits_per_key),
                present_reads=here.block_reads / len(present),
            )
        ]


def tasks(keys: int, seed: int, quick: bool) -> list[Task]:
    """Each tree with several memories; with one, several numbers of levels and size ratios."""
    found: dict[Task, None] = {}
    for style in STYLES:
        usual = Tree(style, SIZE_RATIO, LEVELS, keys)
        points = [(usual, bits) for bits in ((2.0, BITS) if quick else _BITS)]
        points += [(replace(usual, level_count=n), BITS) for n in ((2, 3) if quick else _LEVELS)]
        points += [(replace(usual, size_ratio=n), BITS) for n in ((3, 4) if quick else _RATIOS)]
        for tree, bits in points:
            for filters in ("uniform", "monkey"):
                found[Task(tree, filters, bits, keys - 1, seed)] = None
        found[Task(usual, "hits", BITS, keys - 1, seed)] = None
    return list(found)


def failures(rows: Sequence[Row]) -> list[str]:
    """The trees whose reads are not those of the formula."""
    return [
        f"{row.load}, T={row.size_ratio}, {row.level_count} levels, {row.filters}, "
        f"{row.bits_per_key:g} bits: {row.reads:.4f} reads of an absent key, "
        f"{row.expected_reads:.4f} by the formula"
        for row in rows
        if row.expected_reads is not None
        and abs(row.wasted_reads - (expected := row.expected_reads * row.lookup_count))
        > _TOLERANCE * expected + _SIGMAS * row.wasted_reads**0.5 + _SIGMAS
    ]
