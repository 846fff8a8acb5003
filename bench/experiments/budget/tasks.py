"""The configurations of ``budget``: how lookups are spread, and the memory of filters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from bench.harness.experiment import Plan
from lsmkv.filters.maths.allocation import budget_error_rates

HOT: Final = 0.1
"""The part of the key range that is popular."""

SHARES: Final = (0.1, 0.5, 0.9, 0.99)
"""Of the lookups, those in the popular tenth; 0.1 is the same everywhere."""

BITS: Final = 10.0
ALL_BITS: Final = (4.0, 7.0, BITS)
QUICK_BITS: Final = (4.0, BITS)

_LN2_SQUARED: Final = math.log(2.0) ** 2


@dataclass(frozen=True, slots=True)
class Task:
    """One share of lookups in the popular tenth, with filters of ``bits_per_key``."""

    hot_share: float
    bits_per_key: float
    keys: int
    seed: int

    def __str__(self) -> str:
        return f"{self.hot_share:.0%} of the lookups in a tenth, {self.bits_per_key:g} bits"


def tasks(plan: Plan) -> list[Task]:
    keys = plan.options.keys or (10_000 if plan.quick else 40_000)
    bits = QUICK_BITS if plan.quick else ALL_BITS
    return [Task(share, each, keys, plan.seed) for share in SHARES for each in bits]


def monkey_rate(bits_per_key: float) -> float:
    """The rate of one run in that memory, by the formula."""
    return math.exp(-bits_per_key * _LN2_SQUARED)


def best_reads(hot_share: float, bits_per_key: float) -> float:
    """Reads of an absent key in one run, with the best rates for the popular tenth and the rest.

    >>> round(best_reads(0.9, 10.0) / monkey_rate(10.0), 3), round(best_reads(0.1, 10.0), 4)
    (0.172, 0.0082)
    """
    asks = [hot_share, 1 - hot_share]
    rates = budget_error_rates([HOT, 1 - HOT], asks, bits_per_key)
    return math.fsum(f * p for f, p in zip(asks, rates, strict=True))
