"""The filters of one job's tables: one error rate for each table, and a size for all of them.

The job does not know exactly how many keys it writes, nor what filters of them take.  So it counts, and a
table gets more or fewer bits where the tables before it did not take what was planned.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec

_MOST_CHANGE: Final = 1.25  # the last table must not pay for all that was not foreseen


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """About ``keys`` keys from ``first`` on, whose filters take ``size_bytes`` at ``error_rate``."""

    first: bytes
    keys: float
    error_rate: float
    size_bytes: float


class FilterPlan:
    """Gives the rate of each table of a job, in key order; ``parts`` ascend."""

    def __init__(self, parts: list[PlannedPart]) -> None:
        self._parts = parts
        self._keys = 0  # in the tables written so far
        self._left_bytes = sum([part.size_bytes for part in parts])

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
        more = min(max(self._left_bytes / max(1.0, planned), 1 / _MOST_CHANGE), _MOST_CHANGE)
        return float(part.error_rate**more)

    def note_table(self, keys: int, filter_bytes: int) -> None:
        """Count a table that was written."""
        self._keys += keys
        self._left_bytes -= filter_bytes
