"""The filters of one job's tables: one error rate for each table, and a size for all of them.

The job does not know exactly how many keys it writes, nor what their filters and indexes take.  So it
counts, and a table gets more or fewer bits where the tables before it did not take what was planned.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec

from lsmkv.filters.maths.allocation import FLOOR_RATE

_MOST_CHANGE: Final = 1.25  # the last table must not pay for all that was not foreseen


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """About ``keys`` keys from ``first`` on, whose filters take ``size_bytes`` at ``error_rate``.

    Their indexes may take ``index_bytes`` before filters must do with less.
    """

    first: bytes
    keys: float
    error_rate: float
    size_bytes: float
    index_bytes: float = 0.0


class FilterPlan:
    """Gives the rate of each table of a job, in key order; ``parts`` ascend."""

    def __init__(self, parts: list[PlannedPart]) -> None:
        self._parts = parts
        self._keys = self._tables = 0  # written so far
        self._left_bytes = sum([part.size_bytes for part in parts])  # for filters
        keys = sum([part.keys for part in parts])
        self._index_bytes = sum([part.index_bytes for part in parts]) / keys  # for each key
        self._more_index_bytes = 0.0  # than planned, in the tables written so far

    def packed(self) -> bytes:
        """The plan as JSON, which goes to helper processes as it is."""
        return msgspec.json.encode(self._parts)

    @staticmethod
    def unpacked(data: bytes) -> FilterPlan:
        return FilterPlan(msgspec.json.decode(data, type=list[PlannedPart]))

    def error_rate(self, first: bytes) -> float:
        """The rate of the next table, which begins with the key ``first``."""
        at = max(1, bisect_right(self._parts, first, key=attrgetter("first"))) - 1
        part = self._parts[at]
        keys = self._keys - sum([before.keys for before in self._parts[:at]])
        passed = min(max(keys / part.keys, 0.0), 1.0)
        planned = sum([after.size_bytes for after in self._parts[at:]]) - passed * part.size_bytes
        keys_left = sum([after.keys for after in self._parts[at:]]) - passed * part.keys
        # What the indexes of the tables to come take beyond the plan, their filters do without.
        beyond = keys_left * self._more_index_bytes / max(1, self._keys)
        wanted = max(1.0, planned - beyond)
        more = min(max((self._left_bytes - beyond) / wanted, 1 / _MOST_CHANGE), _MOST_CHANGE)
        rate: float = self._mean_rate(at, part.keys * passed) ** (more * wanted / max(1.0, planned))
        return max(rate, FLOOR_RATE)

    def _mean_rate(self, at: int, passed: float) -> float:
        """The mean rate of the keys of one more table, by bits."""
        most = self._keys / max(1, self._tables)
        keys = logs = 0.0
        for part in self._parts[at:]:
            taken = min(most - keys, part.keys - passed)
            keys += taken
            logs += taken * math.log(part.error_rate)
            passed = 0.0
        return math.exp(logs / keys) if keys else self._parts[at].error_rate

    def note_table(self, keys: int, filter_bytes: int, index_bytes: int) -> None:
        beyond = index_bytes - keys * self._index_bytes
        self._keys += keys
        self._tables += 1
        self._left_bytes -= filter_bytes + beyond
        self._more_index_bytes += beyond
