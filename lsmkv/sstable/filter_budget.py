"""A budget of filter memory for the tables of one job.

The job knows about how many keys each *stretch* of its key range has, and how often lookups ask for
absent keys there.  The best rates follow (:mod:`lsmkv.filters.maths.allocation`).  Keys may be more or
fewer, and filters of blocks take more than the formula.  So the job counts what filters take, and shares
out what is left of its budget again where a stretch begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import msgspec

from lsmkv.filters.maths.allocation import budget_error_rates, memory_bits

_FEW_BITS: Final = 512.0  # what the first filters took tells little of the others

_MOST_CHANGE: Final = 1.25


@dataclass(frozen=True, slots=True)
class Stretch:
    """The keys from ``first`` to the next stretch.

    Attributes:
        keys: about how many the job writes, above 0.
        asks: how often a lookup asks for an absent key there, above 0; only ratios count.
    """

    first: bytes
    keys: float
    asks: float


@dataclass(frozen=True, slots=True)
class FilterBudget:
    """The size of a job's filters, and its stretches, ascending; the first begins at ``b""``."""

    size_bytes: float
    stretches: list[Stretch]

    def packed(self) -> bytes:
        """The budget as JSON, which goes to helper processes as it is."""
        return msgspec.json.encode(self)

    @staticmethod
    def unpacked(data: bytes) -> FilterBudget:
        return msgspec.json.decode(data, type=FilterBudget)


class FilterSpender:
    """Gives the rate of each filter of a job, in key order."""

    def __init__(self, budget: FilterBudget) -> None:
        self._stretches = budget.stretches
        self._firsts = [stretch.first for stretch in budget.stretches]
        self._left_bits = 8 * budget.size_bytes
        rates = _rates(budget.stretches, self._left_bits)
        planned = [memory_bits([s.keys], [p]) for s, p in zip(budget.stretches, rates, strict=True)]
        self._planned_bits = list(accumulate(reversed(planned)))[::-1]  # from each stretch on
        self._at = -1
        self._rate = 1.0
        self._keys_here = 0  # written in this stretch
        self._table_asks, self._table_from = 0.0, 0  # of the table being written; where it begins
        self._formula_bits = self._filter_bits = _FEW_BITS

    def block_rate(self, first: bytes) -> float:
        """The rate for the block that begins at ``first``."""
        at = bisect_right(self._firsts, first) - 1
        if at > self._at:
            self._at, self._keys_here = at, 0
            self._rate = self._shared_out([], at)[0]
        return self._rate

    def note_block(self, keys: int) -> None:
        """Count the keys of the block for which ``block_rate`` was asked last."""
        stretch = self._stretches[self._at]
        self._keys_here += keys
        self._table_asks += keys * stretch.asks / stretch.keys

    def table_rate(self, keys: int) -> float:
        """The rate for the filter of a table whose blocks were noted."""
        table = Stretch(b"", keys, self._table_asks)
        rate = self._shared_out([table], self._table_from)[0]
        self._table_asks, self._table_from = 0.0, self._at
        return rate

    def note_filter(self, keys: int, rate: float, size_bytes: int) -> None:
        """Count a filter of ``keys`` keys that was built for ``rate``."""
        self._formula_bits += memory_bits([keys], [rate])
        self._filter_bits += 8 * size_bytes
        self._left_bits -= 8 * size_bytes

    def _shared_out(self, now: list[Stretch], since: int) -> list[float]:
        """The rates of ``now`` and of the plan ``since`` a stretch.

        They take what is left, but about what was planned: the last of a few blocks must not pay for
        all that was not foreseen.
        """
        here, *ahead = self._stretches[self._at :]
        left = 1 - self._keys_here / here.keys
        if left > 0:
            ahead.insert(0, Stretch(here.first, here.keys * left, here.asks * left))
        planned = self._planned_bits[since]
        bits = min(max(self._left_bits, planned / _MOST_CHANGE), planned * _MOST_CHANGE)
        return _rates([*now, *ahead], bits * self._formula_bits / self._filter_bits)


def _rates(stretches: Sequence[Stretch], bits: float) -> list[float]:
    return budget_error_rates([s.keys for s in stretches], [s.asks for s in stretches], bits)
