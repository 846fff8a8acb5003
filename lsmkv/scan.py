"""Scans: the entries of a view between two keys, in order, as of one sequence number."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final

from mypy_extensions import i64

from lsmkv.filters.hashing import hash_key
from lsmkv.merge import Entry, PlainEntries, merge_stretches, newest_values
from lsmkv.sstable.block import Block
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.reader import TableReader
from lsmkv.storage import ReadKind
from lsmkv.version import Run, View

_KEY: Final = itemgetter(0)
_FIRST_ENTRIES: Final = (
    16  # of a table's first list; each list is up to twice as long as the one before
)
_MOST_ENTRIES: Final = 1 << 16  # of one list
_CACHED_BLOCKS: Final = 4  # a scan's first blocks of each table go through the cache


class ScanRange:
    """What a scan asks for: start <= key < stop, forwards or backwards.

    ``prefix`` is what all those keys start with, if that was asked for: blocks whose filters know
    the prefix and deny it are passed over.
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
        """Whether no key can lie in it."""
        return self.stop is not None and self.stop <= (self.start or b"")


def scan_view(view: View, seq: int, wanted: ScanRange) -> Iterator[list[tuple[bytes, bytes]]]:
    """Keys and values that ``view`` holds as of ``seq``, in lists.

    Each list ascends; the lists come upwards, or downwards for a reverse range.
    """
    if wanted.is_empty:
        return iter(())
    sources: list[Iterator[list[Entry]]] = [
        memtable.scan(seq, wanted.start, wanted.stop, wanted.reverse)
        for memtable in view.memtables
        if memtable.live
    ]
    sources += [_scan_run(run, seq, wanted) for run in view.version.runs]
    if len(sources) == 1:
        return newest_values(sources[0])
    return newest_values(merge_stretches(sources, wanted.reverse))


def _scan_run(run: Run, seq: int, wanted: ScanRange) -> Iterator[list[Entry]]:
    tables = run.tables_between(wanted.start, wanted.stop)
    for table in reversed(tables) if wanted.reverse else tables:
        yield from _scan_table(table, seq, wanted)


def _scan_table(table: TableReader, seq: int, wanted: ScanRange) -> Iterator[list[Entry]]:
    index, meta = table.index, table.meta
    start, stop = wanted.start, wanted.stop
    first = 0
    if start is not None and start > meta.smallest:
        first = int(index.seek(start))
    else:
        start = None
    last = int(index.block_count) - 1
    if stop is not None and stop <= meta.largest:
        last = int(index.seek(stop))
        if index.first_key(last) >= stop:
            last -= 1
    else:
        stop = None
    numbers: Sequence[int] = _blocks_with_prefix(table, range(first, last + 1), wanted.prefix)
    if wanted.reverse:
        numbers = numbers[::-1]
    if seq < meta.largest_seq or table.properties.has_versions:
        max_seq = None if seq >= meta.largest_seq else seq
        return _scan_versions(table, numbers, max_seq, start, stop, wanted.reverse)
    return _scan_newest(table, numbers, start, stop, wanted.reverse)


def _scan_newest(
    table: TableReader,
    numbers: Sequence[int],
    start: bytes | None,
    stop: bytes | None,
    reverse: bool,
) -> Iterator[list[Entry]]:
    """The entries of a table that has each key once, all of them visible.

    The first lists are short: most scans end before a whole block of small entries does.
    """
    size: i64 = _FIRST_ENTRIES
    blocks = table.blocks_ahead(numbers, ReadKind.DATA, cached_first=_CACHED_BLOCKS)
    for block in blocks:
        low: i64 = 0
        high: i64 = block.count
        # Only the blocks at the ends reach past the range, but in the others it costs little to see.
        if start is not None:
            low = block.lower_bound(start)
            if not reverse:
                start = None
        if stop is not None:
            high = block.lower_bound(stop)
            if reverse:
                stop = None
        while low < high:
            if reverse:
                begin, end = max(low, high - size), high
                high = begin
            else:
                begin, end = low, min(low + size, high)
                low = end
            entries = block.entries(begin, end)
            yield PlainEntries(entries) if block.is_plain else entries
            size = min(2 * size, _MOST_ENTRIES)  # bounded: machine integers wrap silently


def _scan_versions(
    table: TableReader,
    numbers: Sequence[int],
    max_seq: int | None,
    start: bytes | None,
    stop: bytes | None,
    reverse: bool,
) -> Iterator[list[Entry]]:
    """The entries of a table of which a key may have several, or that may be too new."""
    blocks = table.blocks_ahead(numbers, ReadKind.DATA, cached_first=_CACHED_BLOCKS)
    decoded = map(_entries, blocks, repeat(max_seq))  # mypyc would make a list of a generator
    for entries in _whole_keys(table, numbers, decoded, reverse):
        # Only a first and a last block can reach past the range; a look at their ends is cheap.
        low = (
            0 if start is None or entries[0][0] >= start else bisect_left(entries, start, key=_KEY)
        )
        high = len(entries)
        if stop is not None and entries[-1][0] >= stop:
            high = bisect_left(entries, stop, key=_KEY)
        if low < high:
            yield entries if high - low == len(entries) else entries[low:high]


def _entries(block: Block, max_seq: int | None) -> list[Entry]:
    if max_seq is not None:
        return [
            (key, value)
            for key, value, seq in zip(block.keys(), block.values(), block.seqs(), strict=True)
            if seq <= max_seq
        ]
    return list(zip(block.keys(), block.values(), strict=True))


def _blocks_with_prefix(table: TableReader, numbers: range, prefix: bytes | None) -> Sequence[int]:
    """Those of ``numbers`` that may hold a key starting with ``prefix``."""
    if prefix is None or not table.filters.exist:
        return numbers
    part = table.filters.filter_key.part_of_prefix(prefix)
    if part is None:
        return numbers
    part_hash = hash_key(part)
    kept = [number for number in numbers if table.filters.may_hold(number, part_hash)]
    table.count_prefix_skips(len(numbers) - len(kept))
    return kept


def _whole_keys(
    table: TableReader, numbers: Sequence[int], lists: Iterator[list[Entry]], reverse: bool
) -> Iterator[list[Entry]]:
    """The same entries, with all versions of a key in one list, and no empty lists."""
    if not table.properties.has_versions:
        yield from filter(None, lists)
        return
    index = table.index
    held: list[Entry] = []
    for number, entries in zip(numbers, lists, strict=True):
        held = entries + held if reverse else held + entries
        if _shares_key(index, number if reverse else number + 1):
            continue  # the next list has more versions of a key that is in this one
        if held:
            yield held
        held = []
    if held:
        yield held


def _shares_key(index: TableIndex, upper: int) -> bool:
    """Whether block ``upper`` starts with the key that the block before it ends with."""
    return 0 < upper < index.block_count and index.first_key(upper) == index.last_key(upper - 1)
