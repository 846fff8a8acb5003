"""Sorted keys that grow: what a scan of a memtable goes by."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final

from mypy_extensions import i64

_FEWEST_FRESH: Final = 256  # keys that come before the rest are worth sorting again
_FRESH_SHARE: Final = 64  # or one such part of them all, if that is more


class SortedKeys:
    """Distinct keys in order.  Not thread-safe.

    Keys that come go into a short sorted list, which is joined to the long one when it has grown to a
    64th of it: so an insertion moves little, and sorting again (linear, as both are sorted) is rare.
    """

    def __init__(self) -> None:
        self._settled: list[bytes] = []
        self._fresh: list[bytes] = []

    def __len__(self) -> int:
        return len(self._settled) + len(self._fresh)

    def update(self, keys: list[bytes]) -> None:
        """Take in keys that are not here yet; an interrupt leaves out the first of them.

        O(n / 64 + log n) for one among n, amortised; many at once are sorted with the rest.
        """
        most = max(_FEWEST_FRESH, len(self._settled) // _FRESH_SHARE)
        if len(self._fresh) + len(keys) <= most:
            for key in reversed(keys):
                insort(self._fresh, key)
        else:
            settled = [*self._settled, *self._fresh, *keys]
            settled.sort()
            fresh: list[bytes] = []
            self._settled, self._fresh = settled, fresh

    def above(self, low: bytes | None, included: bool, count: i64) -> list[bytes]:
        """The first ``count`` keys above ``low`` (or from it on, if ``included``), ascending."""
        settled = _above(self._settled, low, included, count)
        fresh = _above(self._fresh, low, included, count)
        return sorted(settled + fresh)[:count] if fresh else settled

    def below(self, high: bytes | None, count: i64) -> list[bytes]:
        """The last ``count`` keys below ``high``, descending."""
        settled = _below(self._settled, high, count)
        fresh = _below(self._fresh, high, count)
        return sorted(settled + fresh, reverse=True)[:count] if fresh else settled


def _above(keys: list[bytes], low: bytes | None, included: bool, count: i64) -> list[bytes]:
    start: i64 = 0
    if low is not None:
        start = bisect_left(keys, low) if included else bisect_right(keys, low)
    return keys[start : start + count]


def _below(keys: list[bytes], high: bytes | None, count: i64) -> list[bytes]:
    end: i64 = len(keys) if high is None else bisect_left(keys, high)
    start = max(0, end - count)
    found = keys[start:end]
    found.reverse()
    return found
