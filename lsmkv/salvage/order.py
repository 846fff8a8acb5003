"""Orders tables by their sequence numbers when the manifest is lost.

A lookup ends in the first run that has its key, so a run must be newer than those below it for every
key that they share.  Compaction mixes old and new entries in one table.  If both keys and sequence
numbers of two tables overlap, neither may be newer as a whole, and they must be merged.  All others can
be stacked as they are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter, itemgetter
from typing import Final

from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.entry_batch import Entry
from lsmkv.encoding.expiry import Held
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.reader import TableReader

_SMALLEST: Final = attrgetter("smallest")
_LARGEST: Final = attrgetter("largest")
_ORDER: Final = itemgetter(0, 1, 2)

# Key, minus sequence number, minus the table's number, value.
SortableEntry = tuple[bytes, int, int, Held]


@dataclass(frozen=True, slots=True)
class _Group:
    smallest: bytes
    largest: bytes
    low_seq: int
    high_seq: int
    tables: tuple[TableMeta, ...]

    def joined(self, other: _Group) -> _Group:
        return _Group(
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            min(self.low_seq, other.low_seq),
            max(self.high_seq, other.high_seq),
            self.tables + other.tables,
        )


def tangled_groups(tables: list[TableMeta]) -> list[list[TableMeta]]:
    """The groups of tables that must be merged; tables of two groups overlap in one way at most."""
    groups = [
        _Group(table.smallest, table.largest, table.smallest_seq, table.largest_seq, (table,))
        for table in tables
    ]
    while True:
        joined = _join_once(sorted(groups, key=_SMALLEST))
        if len(joined) == len(groups):
            return [list(group.tables) for group in joined]
        groups = joined


def _join_once(groups: list[_Group]) -> list[_Group]:
    done: list[_Group] = []
    active: list[_Group] = []
    for group in groups:
        apart: list[_Group] = []
        for other in active:
            if other.largest < group.smallest:
                done.append(other)
            elif other.low_seq <= group.high_seq and group.low_seq <= other.high_seq:
                group = group.joined(other)
            else:
                apart.append(other)
        active = [*apart, group]
    return done + active


def stack(tables: list[TableMeta]) -> list[list[TableMeta]]:
    """The tables in as few runs as possible, newest run first.  O(n log n) times the runs."""
    newest_first = sorted(tables, key=lambda table: (table.largest_seq, table.number), reverse=True)
    runs: list[list[TableMeta]] = []
    for table in newest_first:
        depth = len(runs)
        while depth and not _overlaps(runs[depth - 1], table):
            depth -= 1
        if depth == len(runs):
            runs.append([])
        insort(runs[depth], table, key=_SMALLEST)
    return runs


def _overlaps(run: list[TableMeta], table: TableMeta) -> bool:
    at = bisect_left(run, table.smallest, key=_LARGEST)
    return at < len(run) and run[at].smallest <= table.largest


def newest_versions(sources: list[Iterator[SortableEntry]]) -> Iterator[Entry]:
    """The newest version of each key, deletions included."""
    last: bytes | None = None
    for key, minus_seq, _, value in merge(*sources, key=_ORDER):
        if key != last:
            last = key
            yield key, value, -minus_seq


def table_entries(table: TableReader, erased: RangeDeletes | None) -> Iterator[SortableEntry]:
    """The entries of a table that ``erased`` does not hide."""
    applied = table.meta.erased_seq
    minus_number = -table.meta.number
    for number in range(table.index.block_count):
        block = table.block(number, False)
        seqs = [table.largest_seq] * block.count if table.one_seq else block.seqs()
        for key, value, seq in zip(block.keys(), block.values(), seqs, strict=True):
            if erased is None or erased.newest_over(key, MAX_SEQUENCE) <= max(seq, applied):
                yield key, -seq, minus_number, value
