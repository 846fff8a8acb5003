"""Trees as papers draw them, and the reads of an absent key that their formulas state.

Level i of L has T times the keys of level i - 1.  A *leveled* tree has one run in each level, a *tiered*
one T - 1, before the next one causes a merge, and a *lazy-leveled* one T - 1, but one in the last level.

Sources: N. Dayan, M. Athanassoulis, S. Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD 2017;
N. Dayan, S. Idreos, "Dostoevsky: Better Space-Time Trade-Offs for LSM-Tree Based Key-Value Stores via
Adaptive Removal of Superfluous Merging", SIGMOD 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from lsmkv.filters.maths.allocation import expected_wasted_reads, monkey_error_rates

Style = Literal["leveled", "tiered", "lazy-leveled"]
STYLES: Final[tuple[Style, ...]] = ("leveled", "tiered", "lazy-leveled")

Allocation = Literal["uniform", "monkey", "hits"]
"""One rate for all runs; rates as the runs' sizes; one rate, and no filters in the last level.

The last is RocksDB's ``optimize_filters_for_hits``.
"""

_LN2_SQUARED: Final = math.log(2.0) ** 2


@dataclass(frozen=True, slots=True)
class Tree:
    """A full tree of about ``key_count`` keys.

    >>> Tree("lazy-leveled", size_ratio=3, level_count=3, key_count=1300).runs()
    [50, 50, 150, 150, 900]
    """

    style: Style
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

    def rates(self, allocation: Allocation, bits_per_key: float) -> list[float]:
        """The rate of each run; 1 for no filter.  ``bits_per_key`` are those of one rate for all."""
        runs = self.runs()
        rate = math.exp(-bits_per_key * _LN2_SQUARED)
        if allocation == "monkey":
            return monkey_error_rates(runs, rate)
        last = self.runs_in(self.level_count) if allocation == "hits" else 0
        return [rate] * (len(runs) - last) + [1.0] * last

    def reads(self, allocation: Allocation, bits_per_key: float) -> float:
        """Reads of an absent key: the sum of the runs' rates (Monkey, R = sum of p_i)."""
        return expected_wasted_reads(self.rates(allocation, bits_per_key))

    def monkey_reads(self, bits_per_key: float) -> float:
        """Dostoevsky's closed form for a tree of very many levels, of which each has a filter.

        e^(-M/N (ln 2)^2) Z^((T-1)/T) K^(1/T) T^(T/(T-1)) / (T-1), with Z runs in the last level and K in
        each other one.

        >>> tree = Tree("leveled", 4, 8, 10**9)
        >>> round(tree.monkey_reads(10) / tree.reads("monkey", 10), 3)
        1.0
        >>> tree = Tree("lazy-leveled", 4, 8, 10**9)
        >>> round(tree.monkey_reads(10) / tree.reads("monkey", 10), 3)
        1.0
        """
        ratio, last, above = float(self.size_ratio), self.runs_in(self.level_count), self.runs_in(0)
        shape: float = last ** ((ratio - 1) / ratio) * above ** (1 / ratio)
        growth: float = ratio ** (ratio / (ratio - 1)) / (ratio - 1)
        return math.exp(-bits_per_key * _LN2_SQUARED) * shape * growth
