"""What a transaction has read: single keys, and ranges as far as they were seen."""

from __future__ import annotations

from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.engine.recent_writes import Place
from lsmkv.errors import ConflictError
from lsmkv.read.bounds import Bounds


class ReadRange:
    """A range that is being read."""

    __slots__ = ("_wanted", "is_whole", "last")

    def __init__(self, wanted: Bounds) -> None:
        self._wanted = wanted
        # The key that was seen last, so that nothing beyond it counts; None at the beginning.
        self.last: bytes | None = None
        self.is_whole = False  # whether the end was seen

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
        """Raise ConflictError if what was read was written after ``place``, which advances."""
        if not self.keys and not self._ranges:
            return
        seen = filter(None, [each.seen() for each in self._ranges])
        ranges = RangeDeletes(tuple([(start, stop, 1) for start, stop in seen]))  # just to search
        for written in place.written_since():
            if isinstance(written, tuple):
                touched = self._first_read(ranges, *written)
                if touched is not None:
                    raise ConflictError(touched)
            elif written in self.keys or ranges.newest_over(written, 1):
                raise ConflictError(written)

    def _first_read(self, ranges: RangeDeletes, start: bytes, stop: bytes | None) -> bytes | None:
        """A key that was read from ``start`` to below ``stop``; None without one."""
        for key in self.keys:
            if start <= key and (stop is None or key < stop):
                return key
        gaps = ranges.gaps(start, stop, 0)
        if not gaps or gaps[0][0] != start:
            return start
        end = gaps[0][1]
        return None if end == stop else end
