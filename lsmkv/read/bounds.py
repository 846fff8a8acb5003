"""The bounds of a scan, and a table's blocks between them."""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import i64

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


def filter_denies(
    table: TableReader, start: bytes | None, stop: bytes | None, first: i64, end: i64
) -> bool:
    """Whether filters tell that no key lies between two bounds.

    The table ``answers_ranges``.  ``first`` and ``end`` are their ``block_range``.  More than two
    blocks are not asked: no block is without a key.
    """
    if start is None or stop is None or end - first > 2:
        return False
    middle = stop if end - first < 2 else table.index.separator(first + 1)
    return not table.may_hold_between(first, start, middle) and (
        middle == stop or not table.may_hold_between(first + 1, middle, stop)
    )


def blocks_with_prefix(table: TableReader, first: i64, end: i64, prefix: bytes) -> Sequence[int]:
    """The blocks from ``first`` to ``end`` whose filters allow ``prefix``."""
    numbers = range(first, end)
    if not table.filters.exist:
        return numbers
    part = table.filters.filter_key.part_of_prefix(prefix)
    if part is None:
        return numbers
    part_hash = table.filter_policy.hash_key(part)
    kept = [number for number in numbers if table.filters.may_hold(number, part_hash)]
    table.count_prefix_skips(len(numbers) - len(kept))
    return kept
