"""Sizes of ribbon filters, and the rate that a number of bytes allows.

A ribbon filter grows until its keys have a solution, so its size depends on them.  The mean over seeded
sets of random keys is known beforehand.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from lsmkv.filters import ribbon
from lsmkv.filters.maths import layouts

MIXED_KEYS: Final = 4096
"""The most keys of a filter that has one of two numbers of columns, as ``RibbonPolicy`` decides."""

_LEAST_STEP: Final = 1 / 500  # of a budget, from one try to the next
_SAMPLED_KEYS: Final = 10_000
_MOST_FILTERS: Final = 400


@lru_cache(maxsize=4096)
def mean_bytes(key_count: int, columns: int) -> float:
    """The mean bytes of ribbon filters of so many keys and columns; memoised.

    Over some 10,000 random keys, in at most 400 filters.  Of a larger filter, which is not mixed, it is
    the size that is tried first, which grows by a per cent or two at most.

    >>> mean_bytes(0, 7), mean_bytes(32, 0), 29 < mean_bytes(32, 7) < 30
    (0.0, 0.0, True)
    """
    if not key_count or not columns:
        return 0.0
    if key_count > MIXED_KEYS:
        return -(-layouts.ribbon_slots_for(key_count) * columns // 8)
    draw = random.Random(f"ribbon sizes/{key_count}/{columns}")
    filters = min(_MOST_FILTERS, _SAMPLED_KEYS // key_count)
    total = sum(
        len(ribbon.build([draw.getrandbits(63) for _ in range(key_count)], columns))
        for _ in range(filters)
    )
    return total / filters


def rate_within(filters: Mapping[int, int], budget_bytes: float) -> float:
    """The lowest rate whose ribbon filters are expected to take ``budget_bytes`` or less.

    ``filters`` has the number of filters by their number of keys.  1.0 where no filter fits;
    ValueError without filters.

    >>> rate_within({32: 100}, 100 * mean_bytes(32, 7))
    0.0078125
    """

    if not any(filters.values()):
        raise ValueError("no filters: a rate needs some; give the number of filters by their keys")

    def total(columns: int) -> float:
        return sum(count * mean_bytes(keys, columns) for keys, count in filters.items())

    columns = 0
    while columns < layouts.MAX_RIBBON_COLUMNS and total(columns + 1) <= budget_bytes:
        columns += 1
    if columns == layouts.MAX_RIBBON_COLUMNS or max(filters, default=0) > MIXED_KEYS:
        return layouts.ribbon_rate(columns)
    # A part of the filters can have one column more.
    part = (budget_bytes - total(columns)) / (total(columns + 1) - total(columns))
    return (1.0 - part) * layouts.ribbon_rate(columns) + part * layouts.ribbon_rate(columns + 1)


def fit(filters: Mapping[int, int], budget_bytes: int, write: Callable[[float], int]) -> float:
    """The lowest rate found whose filters ``write`` puts into ``budget_bytes``; its last call had it."""
    target = float(budget_bytes)
    while (rate := rate_within(filters, target)) < 1.0:
        excess = write(rate) - budget_bytes
        if excess <= 0:
            return rate
        target -= max(excess, budget_bytes * _LEAST_STEP)
    raise ValueError(f"{budget_bytes} bytes: no ribbon filter of these keys fits; give more")
