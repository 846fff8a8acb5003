"""Lengths of ranges, and what a length leaves to an iterator: then each block is read once for both.

``list(view)`` calls ``iter(view)``, then ``len(view)``, and only then reads; so do ``tuple``, ``sorted``,
``[*view]`` and ``extend``.  Counting takes a scan.  What it reads is what the iterator comes to next, and
what the caller will keep anyway: so it is left to the iterator.

A program may also ask for a length while it holds an iterator that has not moved.  Both are right, and
what is left has a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from lsmkv.read.bounds import Bounds
from lsmkv.read.sources import Item

_MOST_LEFT_BYTES: Final = 256 * 1024 * 1024
_ITEM_BYTES: Final = 150  # of Python's objects for one item, without its key and value


class Range(Bounds):
    """A view's bounds, and what its length has read for an iterator."""

    _whose: object = None
    _moment = 0
    # What a length has read for the next iteration, the last list first; None: nothing.
    left: list[list[Item]] | None = None
    is_waiting = False  # whether the newest iteration has yet to begin to read
    needs_values = True  # whether it shows more than keys

    def belong_to(self, whose: object, moment: int) -> None:
        """These are bounds of entries as of ``moment``.

        ``whose`` is one object for each store or transaction.  The range may outlive its view: ``whose``
        refers to nothing that holds tables or memtables.
        """
        self._whose = whose
        self._moment = moment

    def note_iteration(self) -> None:
        """An iteration is made, and may begin later."""
        self.is_waiting = True
        _waiting.newest = self

    def begin(self) -> list[list[Item]] | None:
        """Give the entries that are left to an iteration that begins."""
        self.is_waiting = False
        left, self.left = self.left, None
        return None if left is None else left.copy()  # two iterations may begin at once

    def bounds(self) -> Bounds:
        """The bounds alone, for a scan that reads all by itself."""
        return Bounds(self.start, self.stop, self.prefix, self.reverse)

    def has_entries_of(self, other: Range) -> bool:
        """Whether both have the same entries, in the same order."""
        return (
            self._whose is other._whose
            and self._moment == other._moment
            and self.start == other.start
            and self.stop == other.stop
            and self.reverse == other.reverse
        )


class _Waiting:
    """The range of the newest iteration; None once a length has read for it."""

    def __init__(self) -> None:
        self.newest: Range | None = None


_waiting: Final = _Waiting()


def count(lists: Iterable[list[Item]], wanted: Range, most: i64 = _MOST_LEFT_BYTES) -> int:
    """The number of items in all lists, which are those of ``wanted``.

    The newest iteration gets them if it has yet to read the same, and if what it needs of them takes no
    more than ``most`` bytes.
    """
    waiting = _waiting.newest
    if waiting is None or not waiting.is_waiting or not waiting.has_entries_of(wanted):
        return sum(map(len, lists))
    _waiting.newest = None
    total: i64 = 0
    size: i64 = 0
    left: list[list[Item]] = []
    for items in lists:
        total += len(items)
        if size > most:
            continue
        if not waiting.needs_values:
            items = [(key, b"") for key, _ in items]
        for key, value in items:
            size += _ITEM_BYTES + len(key) + len(value)
        left.append(items)
        if size > most:
            left = []
    if size <= most and waiting.is_waiting:
        left.reverse()
        waiting.left = left
    return total
