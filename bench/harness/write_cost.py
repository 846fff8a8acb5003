"""Theory of a tree: wasted reads of an absent lookup, and write amplification."""

from __future__ import annotations

from typing import Final

import numpy
from numpy.typing import NDArray

from lsmkv.inspection.store_info import StoreInfo

from ..workloads.keys import key_number

# The share of levels, of those below level 0, that are kept one run.
_LEVELED: Final = {"leveled": "all", "tiered": "none", "lazy-leveled": "last"}


def expected_absent_reads(store: StoreInfo, live_numbers: NDArray[numpy.int64]) -> float:
    """Expected reads of an absent key: the sum of exact rates of the tables that span it."""
    if not len(live_numbers):
        return 0.0
    spanned = 0.0
    for table in store.tables():
        ends = numpy.searchsorted(
            live_numbers, [key_number(table.smallest), key_number(table.largest)]
        )
        assert table.expected_rate is not None, "the index tells every filter's keys"
        spanned += float(ends[1] - ends[0]) * table.expected_rate
    return spanned / len(live_numbers)


def write_amplification(style: str, size_ratio: int, level_count: int) -> float:
    """Expected writes of an entry, its flush included.

    The tree has L full levels below level 0.  A level of one run rewrites an entry with half of the T
    arrivals that fill it: T/2 times.  A level of several runs writes it once.  So leveled 1 + L T/2,
    tiered 1 + L and lazy-leveled 1 + (L - 1) + T/2, the orders of Dayan and Idreos (SIGMOD 2018): O(T
    L), O(L), O(T + L).  Entries that merging drops, and all of a table besides entries, are left out.

    >>> [write_amplification(style, 10, 3) for style in ("leveled", "tiered", "lazy-leveled")]
    [16.0, 4.0, 8.0]
    """
    if level_count == 0:
        return 1.0
    leveled = {"all": level_count, "none": 0, "last": 1}[_LEVELED[style]]
    return 1.0 + leveled * size_ratio / 2 + (level_count - leveled)
