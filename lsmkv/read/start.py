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


class Start:
    """The start of an iteration.

    Attributes:
        left: what a length has read for it, the last list first; None if there is nothing.
        is_past: whether the iteration has begun to read.
    """

    def __init__(self, whose: object, moment: int, wanted: Bounds) -> None:
        """It iterates over entries as of ``moment``.

        ``whose`` is one object for each store or transaction.  The newest start outlives its iteration:
        it refers to nothing that holds tables or memtables.
        """
        self._whose = whose
        self._moment = moment
        self._wanted = wanted
        self.left: list[list[Item]] | None = None
        self.is_past = False

    def is_same(self, other: Start) -> bool:
        """Whether both iterate over the same entries."""
        wanted, others = self._wanted, other._wanted
        return (
            self._whose is other._whose
            and self._moment == other._moment
            and wanted.start == others.start
            and wanted.stop == others.stop
            and wanted.reverse == others.reverse
        )

    def begin(self) -> list[list[Item]] | None:
        """What is left, as the iteration begins to read."""
        self.is_past = True
        left, self.left = self.left, None
        return left


_NEWEST: Final[list[Start | None]] = [None]


def started(whose: object, moment: int, wanted: Bounds) -> Start:
    """The start of an iteration that begins now."""
    start = Start(whose, moment, wanted)
    _NEWEST[0] = start
    return start


def count(
    lists: Iterable[list[Item]], asked: Start, with_values: bool, most: i64 = _MOST_LEFT_BYTES
) -> int:
    """The number of items in all lists.

    The newest iteration gets them if it has yet to read the same: with their values if it needs these,
    and if they take no more than ``most`` bytes.
    """
    waiting = _NEWEST[0]
    if waiting is None or waiting.is_past or not waiting.is_same(asked):
        return sum(map(len, lists))
    _NEWEST[0] = None
    total: i64 = 0
    size: i64 = 0
    left: list[list[Item]] = []
    for items in lists:
        total += len(items)
        if size > most:
            continue
        if not with_values:
            items = [(key, b"") for key, _ in items]
        for key, value in items:
            size += _ITEM_BYTES + len(key) + len(value)
        left.append(items)
        if size > most:
            left = []
    if size <= most and not waiting.is_past:
        left.reverse()
        waiting.left = left
    return total
