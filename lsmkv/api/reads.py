"""What a transaction has read: single keys, and ranges as far as they were seen."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from lsmkv.engine.recent_writes import Place
from lsmkv.errors import ConflictError
from lsmkv.read.bounds import Bounds


class ReadRange:
    """A range that is being read.

    Attributes:
        last: the key that was seen last, so that nothing beyond it counts; None at the beginning.
        is_whole: whether the end was seen.
    """

    __slots__ = ("_wanted", "is_whole", "last")

    def __init__(self, wanted: Bounds) -> None:
        self._wanted = wanted
        self.last: bytes | None = None
        self.is_whole = False

    def seen(self) -> tuple[bytes, bytes | None] | None:
        """The part that was seen, start <= key < stop; None if there is none."""
        start, stop = self._wanted.start or b"", self._wanted.stop
        if not self.is_whole:
            if self.last is None:
                return None
            if self._wanted.reverse:
                start = self.last
            else:
                stop = self.last + b"\0"
        return (start, stop) if stop is None or start < stop else None


class Reads:
    """Everything that one transaction has read."""

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self._ranges: list[ReadRange] = []

    def add_range(self, wanted: Bounds) -> ReadRange:
        """Note that a range is being read."""
        found = ReadRange(wanted)
        self._ranges.append(found)
        return found

    def check(self, place: Place) -> None:
        """Raise ConflictError if what was read was written after ``place``, which advances.

        O(writes since * log ranges).
        """
        if not self.keys and not self._ranges:
            return
        keys, ranges = self.keys, _Ranges(self._ranges)
        for written in place.written_since():
            if isinstance(written, tuple):
                touched = self._between(ranges, *written)
                if touched is not None:
                    raise ConflictError(touched)
            elif written in keys or ranges.have(written):
                raise ConflictError(written)

    def _between(self, ranges: _Ranges, start: bytes, stop: bytes | None) -> bytes | None:
        """A key that was read from ``start`` to below ``stop``; None without one."""
        for key in self.keys:
            if start <= key and (stop is None or key < stop):
                return key
        return ranges.first_between(start, stop)


class _Ranges:
    """Disjoint ranges, start <= key < stop, ascending."""

    def __init__(self, ranges: list[ReadRange]) -> None:
        self._starts: list[bytes] = []
        self._stops: list[bytes | None] = []
        for start, stop in sorted(
            filter(None, [each.seen() for each in ranges]), key=itemgetter(0)
        ):
            if self._stops and (self._stops[-1] is None or start <= self._stops[-1]):
                if self._stops[-1] is not None and (stop is None or stop > self._stops[-1]):
                    self._stops[-1] = stop
            else:
                self._starts.append(start)
                self._stops.append(stop)

    def have(self, key: bytes) -> bool:
        """Whether ``key`` is in one of them."""
        at = bisect_right(self._starts, key) - 1
        if at < 0:
            return False
        stop = self._stops[at]
        return stop is None or key < stop

    def first_between(self, start: bytes, stop: bytes | None) -> bytes | None:
        """Their first key from ``start`` to below ``stop``."""
        if self.have(start):
            return start
        at = bisect_right(self._starts, start)
        if at == len(self._starts) or (stop is not None and self._starts[at] >= stop):
            return None
        return self._starts[at]
