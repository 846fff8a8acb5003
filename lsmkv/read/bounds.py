"""The bounds of a scan, and a table's blocks between them."""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import i64

from lsmkv.filters.hashing import hash_key
from lsmkv.sstable.reader import TableReader


class Bounds:
    """A scan's bounds, start <= key < stop, and its direction.

    ``prefix``: the prefix that was asked for, if any; blocks are skipped whose filters exclude it.
    """

    __slots__ = ("prefix", "reverse", "start", "stop")

    def __init__(
        self,
        start: bytes | None = None,
        stop: bytes | None = None,
        prefix: bytes | None = None,
        reverse: bool = False,
    ) -> None:
        self.start = start
        self.stop = stop
        self.prefix = prefix
        self.reverse = reverse

    @property
    def is_empty(self) -> bool:
        return self.stop is not None and self.stop <= (self.start or b"")


def bounds_within(table: TableReader, wanted: Bounds) -> tuple[bytes | None, bytes | None]:
    """``start`` and ``stop``; each None where it cuts no keys of the table."""
    start, stop = wanted.start, wanted.stop
    if start is not None and start <= table.smallest:
        start = None
    if stop is not None and stop > table.largest:
        stop = None
    return start, stop


def block_range(table: TableReader, start: bytes | None, stop: bytes | None) -> tuple[i64, i64]:
    """The first block with keys between two bounds, and the end.

    They are from :func:`bounds_within`.  O(log blocks).
    """
    index = table.index
    first: i64 = 0  # (in compiled code a conditional expression would make an object of it)
    if start is not None:
        first = index.seek(start)
    end = index.block_count
    if stop is not None:
        end = index.seek(stop)
        if index.first_key(end) < stop:
            end += 1
    return first, end


def filter_denies(
    table: TableReader, start: bytes | None, stop: bytes | None, first: i64, end: i64
) -> bool:
    """Whether a filter tells that no key lies between two bounds.

    The table ``answers_ranges``.  ``first`` and ``end`` are their :func:`block_range`.  If that has more
    blocks than one, or one that does not reach past both bounds, the first or last key of a block lies
    between them.
    """
    return (
        start is not None
        and stop is not None
        and end - first == 1
        and not table.may_hold_between(first, start, stop)
    )


def blocks_with_prefix(table: TableReader, first: i64, end: i64, prefix: bytes) -> Sequence[int]:
    """The blocks from ``first`` to ``end`` whose filters allow ``prefix``."""
    numbers = range(first, end)
    if not table.filters.exist:
        return numbers
    part = table.filters.filter_key.part_of_prefix(prefix)
    if part is None:
        return numbers
    part_hash = hash_key(part)
    kept = [number for number in numbers if table.filters.may_hold(number, part_hash)]
    table.count_prefix_skips(len(numbers) - len(kept))
    return kept
