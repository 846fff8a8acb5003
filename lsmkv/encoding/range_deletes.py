"""Range deletes: each hides every older entry between two keys.

They live in logs, memtables and the manifest, never in tables.  A range delete numbered ``seq`` hides an
entry of a key start <= key < stop whose *effective* number is below ``seq``: the entry's own, or the
number up to which range deletes were applied to its table, if that is higher (``TableMeta.erased_seq``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_KEY_BYTES

KeyRange = tuple[bytes, bytes | None]
"""start <= key < stop; None: there is no end."""

RangeDelete = tuple[bytes, bytes | None, int]
"""Start, stop, and sequence number."""

_MOST_OLDER: Final = 8  # earlier moments whose range deletes are kept sorted


def why_impossible(each: RangeDelete, last_seq: int) -> str | None:
    """The reason why a store cannot have this range delete, or None."""
    start, stop, seq = each
    if not 0 < seq <= last_seq:
        return f"range delete {seq} is above the last write, {last_seq}"
    if len(start) > MAX_KEY_BYTES or (stop is not None and not start < stop):
        return f"range delete {seq} from {start[:40]!r} has no key"
    return None


class RangeDeletes:
    """Range deletes of one moment.  Immutable."""

    def __init__(self, ranges: tuple[RangeDelete, ...]) -> None:
        self.ranges = ranges  # all of them
        # The highest of their numbers; 0 without any.
        self.newest_seq: int = max([seq for _, _, seq in ranges], default=0)
        self._older: dict[int, RangeDeletes | None] = {}
        # Made at first use: where fragments begin, each up to the next, and the newest number over each.
        self._borders: list[bytes] = []
        self._seqs: list[int] = []
        # What :meth:`followed_by` added last, and its result.
        self._grown: tuple[tuple[RangeDelete, ...], RangeDeletes] | None = None

    def followed_by(self, newer: tuple[RangeDelete, ...]) -> RangeDeletes:
        """These and ``newer`` ones, in ascending order of their numbers.

        O(n) without comparisons, if ``newer`` begins as it did in the last call.
        """
        last = self._grown
        if last is not None and newer[: len(last[0])] == last[0]:
            grown = last[1]._with_last(newer[len(last[0]) :])
        else:
            grown = self._with_last(newer)
        self._grown = newer, grown
        return grown

    def _with_last(self, ranges: tuple[RangeDelete, ...]) -> RangeDeletes:
        borders, seqs = self._border_list().copy(), self._seqs.copy()
        for start, stop, seq in ranges:
            first = bisect_left(borders, start)
            end = len(borders) if stop is None else bisect_left(borders, stop)
            new_borders, new_seqs = [start], [seq]
            if stop is not None and (end == len(borders) or borders[end] != stop):
                new_borders.append(stop)
                new_seqs.append(seqs[end - 1] if end else 0)
            borders[first:end], seqs[first:end] = new_borders, new_seqs
        grown = RangeDeletes(self.ranges + ranges)
        grown._borders, grown._seqs = borders, seqs
        return grown

    def as_of(self, seq: int) -> RangeDeletes | None:
        """Those numbered up to ``seq``; None without any."""
        if seq >= self.newest_seq:
            return self
        found = self._older.get(seq, self)
        if found is self:
            kept = tuple([each for each in self.ranges if each[2] <= seq])
            found = RangeDeletes(kept) if kept else None
            if len(self._older) >= _MOST_OLDER:
                self._older = {}
            self._older[seq] = found
        return found

    def newest_over(self, key: bytes, max_seq: int) -> int:
        """The newest number up to ``max_seq`` over ``key``; 0 without one.  O(log n)."""
        if max_seq < self.newest_seq:
            older = self.as_of(max_seq)
            return 0 if older is None else older.newest_over(key, max_seq)
        at = bisect_right(self._border_list(), key) - 1
        return self._seqs[at] if at >= 0 else 0

    def touches(self, start: bytes | None, stop: bytes | None, above_seq: int) -> bool:
        """Whether one above ``above_seq`` covers something from ``start`` to ``stop``."""
        borders = self._border_list()
        count: i64 = len(borders)
        at: i64 = max(0, bisect_right(borders, start or b"") - 1)
        while at < count and (stop is None or borders[at] < stop):
            if self._seqs[at] > above_seq:
                return True
            at += 1
        return False

    def gaps(self, start: bytes | None, stop: bytes | None, above_seq: int) -> list[KeyRange]:
        """What no range numbered above ``above_seq`` covers from ``start`` to below ``stop``."""
        borders = self._border_list()
        count: i64 = len(borders)
        low = start or b""
        at: i64 = bisect_right(borders, low) - 1
        found: list[KeyRange] = []
        while stop is None or low < stop:
            covered = at >= 0 and self._seqs[at] > above_seq
            at += 1
            end = borders[at] if at < count else None
            if stop is not None and (end is None or end > stop):
                end = stop
            if not covered:
                if found and found[-1][1] == low:
                    low = found.pop()[0]
                found.append((low, end))
            if end is None:
                break
            low = end
        return found

    def _border_list(self) -> list[bytes]:
        return self._borders or self._make_fragments()

    def _make_fragments(self) -> list[bytes]:
        """Cut the ranges where one begins or ends.  O(n log n)."""
        ranges = sorted(self.ranges, key=lambda each: each[0])
        cuts = {start for start, _, _ in ranges}
        cuts.update([stop for _, stop, _ in ranges if stop is not None])
        borders: list[bytes] = []
        seqs: list[int] = []
        open_ones: list[tuple[int, int]] = []  # a heap: the newest one first
        following = 0
        for cut in sorted(cuts):
            while following < len(ranges) and ranges[following][0] == cut:
                heappush(open_ones, (-ranges[following][2], following))
                following += 1
            while open_ones:
                stop = ranges[open_ones[0][1]][1]
                if stop is None or stop > cut:
                    break
                heappop(open_ones)
            seq = -open_ones[0][0] if open_ones else 0
            if not seqs or seqs[-1] != seq:
                borders.append(cut)
                seqs.append(seq)
        self._seqs = seqs  # first: whoever sees borders uses them
        self._borders = borders
        return borders


def united(older: RangeDeletes | None, newer: tuple[RangeDelete, ...]) -> RangeDeletes | None:
    """The range deletes of both, the newer in order; None without any."""
    if not newer:
        return older
    return RangeDeletes(newer) if older is None else older.followed_by(newer)
