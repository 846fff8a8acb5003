"""Visible entries of tables that hold others, too: older or newer versions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Final

from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.expiry import Held
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.read.bounds import Bounds, blocks_with_prefix, bounds_within, filter_denies
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import blocks_ahead
from lsmkv.sstable.reader import TableReader

Entry = tuple[bytes, Held]
_KEY: Final = itemgetter(0)


def visible_entries(
    tables: Sequence[TableReader], seq: int, wanted: Bounds, erased: RangeDeletes | None
) -> Iterator[list[Entry]]:
    """The newest visible entry of each key, in ascending lists.

    The lists come in the order of the scan.  Those that ``erased`` hides count as deletions, or are not
    there.
    """
    for table in tables:
        if table.one_seq and seq < table.largest_seq:
            continue  # all of it is newer
        if erased is None:
            yield from _of_table(table, seq, wanted, None)
            continue
        start, stop = wanted.start, wanted.stop
        if start is None or start < table.smallest:
            start = table.smallest
        if stop is None or stop > table.largest:
            stop = table.meta.above
        # What is older than a range delete as a whole is not read; of the rest each entry is compared.
        gaps = erased.gaps(start, stop, table.newest_seq)
        least = table.meta.least_seq
        is_mixed = least < table.newest_seq and erased.touches(start, stop, least)
        compared = erased if is_mixed else None
        for low, high in reversed(gaps) if wanted.reverse else gaps:
            part = Bounds(low, high, wanted.prefix, wanted.reverse)
            yield from _of_table(table, seq, part, compared)


def _of_table(
    table: TableReader, seq: int, wanted: Bounds, erased: RangeDeletes | None
) -> Iterator[list[Entry]]:
    start, stop = bounds_within(table, wanted)
    first, end = table.block_range(start, stop)
    if table.answers_ranges and filter_denies(table, start, stop, first, end):
        end = first
    numbers: Sequence[int] = range(first, end)
    if wanted.prefix is not None:
        numbers = blocks_with_prefix(table, first, end, wanted.prefix)
    if wanted.reverse:
        numbers = numbers[::-1]
    max_seq = None if seq >= table.largest_seq else seq
    blocks = blocks_ahead(table, numbers)
    # mypyc would make a list of a generator.
    decoded = map(_entries, blocks, repeat(max_seq), repeat(erased), repeat(table.meta.erased_seq))
    for entries in _whole_keys(table, numbers, decoded, wanted.reverse):
        # Only the first and the last block can reach past the bounds; to look at their ends is cheap.
        low, high = 0, len(entries)
        if start is not None and entries[0][0] < start:
            low = bisect_left(entries, start, key=_KEY)
        if stop is not None and entries[-1][0] >= stop:
            high = bisect_left(entries, stop, key=_KEY)
        if low < high:
            yield _first_of_each_key(entries[low:high])


def _first_of_each_key(entries: list[Entry]) -> list[Entry]:
    found: list[Entry] = []
    last: bytes | None = None
    for entry in entries:
        if entry[0] != last:
            last = entry[0]
            found.append(entry)
    return found


def _entries(
    block: Block, max_seq: int | None, erased: RangeDeletes | None, erased_seq: int
) -> list[Entry]:
    """The visible entries of a block; what ``erased`` hides has become a deletion."""
    if max_seq is None and erased is None:
        return list(zip(block.keys(), block.values(), strict=True))
    most = MAX_SEQUENCE if max_seq is None else max_seq
    rows = zip(block.keys(), block.values(), block.seqs(), strict=True)
    if erased is None:
        return [(key, value) for key, value, seq in rows if seq <= most]
    newest = erased.newest_seq
    return [
        (key, None if max(seq, erased_seq) < erased.newest_over(key, newest) else value)
        for key, value, seq in rows
        if seq <= most
    ]


def _whole_keys(
    table: TableReader, numbers: Sequence[int], lists: Iterator[list[Entry]], reverse: bool
) -> Iterator[list[Entry]]:
    """Regroup entries: each key's in one list, and no empty lists."""
    if not table.has_versions:
        yield from filter(None, lists)
        return
    index = table.index
    parts: list[list[Entry]] = []  # joined once: a key may have versions in many blocks
    for number, entries in zip(numbers, lists, strict=True):
        if entries:
            parts.append(entries)
        if not parts:
            continue
        if index.begins_at(number if reverse else number + 1, parts[-1][0 if reverse else -1][0]):
            continue  # the next list may have more entries of a key in this one
        yield _joined(parts, reverse)
        parts = []
    if parts:
        yield _joined(parts, reverse)


def _joined(parts: list[list[Entry]], reverse: bool) -> list[Entry]:
    return list(chain.from_iterable(reversed(parts) if reverse else parts))
