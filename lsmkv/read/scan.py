"""Scans: the items of a read view between two keys, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.entries import Value
from lsmkv.encoding.words import compare
from lsmkv.filters.hashing import hash_key
from lsmkv.read.sources import (
    CACHED_BLOCKS,
    BlockSource,
    Item,
    ListSource,
    MemtableSource,
    RunSource,
    Source,
)
from lsmkv.read.view import ReadView
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.read_ahead import blocks_ahead
from lsmkv.sstable.reader import TableReader

_Entry = tuple[bytes, Value]
_KEY: Final = itemgetter(0)
_FIRST_ITEMS: Final = 4  # a scan's first list has so many; each further one a quarter more
_MOST_ITEMS: Final = 256  # so many fit into the processor's nearer caches
_WASTED_PROBES: Final = 8  # about what each further run costs a scan


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


class Scan:
    """The items of a range of a read view, in lists.

    It reads nothing before the first list is asked for, and little for that: most scans end soon.
    """

    def __init__(self, read_view: ReadView, wanted: Bounds) -> None:
        self._read_view = read_view
        self._wanted = wanted
        self._reverse: bool = wanted.reverse
        self._size: i64 = _FIRST_ITEMS
        self._begun = False
        self._is_running = False
        self._sources: list[Source] = []  # newest first

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> list[Item]:
        if self._is_running:
            raise ValueError(
                "the iterator is being advanced already, by another thread or from inside itself: "
                "let each thread make an iterator of its own"
            )
        held = self.itself()
        found: list[Item] = []
        try:
            held._is_running = True
            if not held._begun:
                held._begin()
            held._fill(found)
        except BaseException:
            held._begun = True
            held._sources = []  # an item that could not be read must not be skipped: the scan ends
            raise
        finally:
            held._is_running = False
        if not found:
            raise StopIteration
        return found

    def itself(self) -> Scan:
        """This scan, referred to once more: compiled code only borrows ``self``."""
        return self

    def _begin(self) -> None:
        self._begun = True
        wanted, read_view, sources = self._wanted, self._read_view, self._sources
        if wanted.is_empty:
            return
        start, stop, reverse = wanted.start, wanted.stop, wanted.reverse
        for memtable in read_view.memtables:
            if not memtable.is_empty:
                sources.append(MemtableSource(memtable, read_view.seq, start, stop, reverse))
        tables_of_runs: list[list[TableReader]] = []
        for run in read_view.version.runs:
            tables = run.tables_between(start, stop)
            if tables:
                tables_of_runs.append(tables)
        several = len(sources) + len(tables_of_runs) > 1
        for tables in tables_of_runs:
            if len(tables) == 1:
                sources.append(_table_source(tables[0], read_view.seq, wanted, several))
            else:
                each = _table_sources(tables, read_view.seq, wanted, several)
                sources.append(RunSource(each, reverse))
        if len(tables_of_runs) > 1:
            probes = _WASTED_PROBES * (len(tables_of_runs) - 1)
            read_view.version.charge_wasted_probes(probes)

    def _fill(self, found: list[Item]) -> None:
        size = self._size
        self._size = min(size + (size >> 2) + 1, _MOST_ITEMS)
        missing = size
        while self._sources and missing > 0:
            if len(self._sources) == 1:
                used_up = self._take_alone(missing, found)
            else:
                used_up = self._take(missing, found)
            missing = size - len(found)
            if used_up and missing < size:  # read no further before it is wanted
                break

    def _take_alone(self, size: i64, found: list[Item]) -> bool:
        """As :meth:`_take`, from the only source."""
        source = self._sources[0]
        source.alone = True
        if source.pending:
            if found:  # read no further before it is wanted
                return True
            source.advance()
            if not source.live:
                self._sources = []
                return False
        source.take(None, size, found)
        return source.pending

    def _take(self, size: i64, found: list[Item]) -> bool:
        """Take items from the first source, up to the next source's key.

        Of a key in several sources the newest source's entry counts; the others skip it.  A block is
        not read while the index shows that its keys come later.  Returns whether only reading brings
        more.
        """
        while True:
            first: Source | None = None
            bound: bytes | None = None
            unread: Source | None = None
            ended = False
            for source in self._sources:
                if source.pending and source.live and not source.key_is_lower_bound:
                    source.advance()
                if not source.live:
                    ended = True
                    continue
                if first is None:
                    first = source
                    continue
                order = self._order(source.key, first.key)
                if order == 0:
                    if first.pending or source.pending:
                        unread = first if first.pending else source
                        break
                    source.skip()
                    if source.pending and source.live and not source.key_is_lower_bound:
                        source.advance()
                    if not source.live:
                        ended = True
                        continue
                    order = 1  # its next key is later
                if order < 0:
                    bound, first = first.key, source
                elif bound is None or self._order(source.key, bound) < 0:
                    bound = source.key
            if ended:
                self._sources = [source for source in self._sources if source.live]
            if first is None:
                return False
            if unread is None and first.pending:
                unread = first
            if unread is not None:
                if found:  # read no further before it is wanted
                    return True
                unread.advance()
                continue
            first.take(bound, size, found)
            return first.pending and not first.key_is_lower_bound

    def _order(self, a: bytes, b: bytes) -> i64:
        order = compare(a, 0, len(a), b, 0, len(b))
        return -order if self._reverse else order


def _table_sources(
    tables: list[TableReader], seq: int, wanted: Bounds, several: bool
) -> Iterator[Source]:
    for table in reversed(tables) if wanted.reverse else tables:
        yield _table_source(table, seq, wanted, several)


def _table_source(table: TableReader, seq: int, wanted: Bounds, several: bool) -> Source:
    """The source of one table; ``several`` makes it begin with a lower bound."""
    if table.one_seq and seq < table.largest_seq:  # the whole table is newer
        return ListSource(iter(()), wanted.reverse)
    index = table.index
    start, stop = wanted.start, wanted.stop
    first: i64 = 0
    if start is not None and start > table.smallest:
        first = index.seek(start)
    else:
        start = None
    last = index.block_count - 1
    ends_between_blocks = False
    if stop is not None and stop <= table.largest:
        last = index.seek(stop)
        if index.first_key(last) >= stop:
            last -= 1
            ends_between_blocks = True
    else:
        stop = None
    all_visible = seq >= table.largest_seq and not table.has_versions
    if wanted.prefix is None and all_visible:
        found = BlockSource(table, first, last, None, start, stop, wanted.reverse)
        if several:
            if wanted.reverse:
                if ends_between_blocks or stop is None:
                    found.peek()
            elif start is None or index.begins_above(first, start):
                found.peek()
        return found
    numbers: Sequence[int] = range(first, last + 1)
    if wanted.prefix is not None:
        numbers = _blocks_with_prefix(table, numbers, wanted.prefix)
    if all_visible:
        return BlockSource(table, 0, len(numbers) - 1, numbers, start, stop, wanted.reverse)
    if wanted.reverse:
        numbers = numbers[::-1]
    max_seq = None if seq >= table.largest_seq else seq
    lists = _visible_entries(table, numbers, max_seq, start, stop, wanted.reverse)
    return ListSource(lists, wanted.reverse)


def _visible_entries(
    table: TableReader,
    numbers: Sequence[int],
    max_seq: int | None,
    start: bytes | None,
    stop: bytes | None,
    reverse: bool,
) -> Iterator[list[_Entry]]:
    """The newest visible entry of each key, in lists."""
    blocks = blocks_ahead(table, numbers, cached_first=CACHED_BLOCKS)
    decoded = map(_entries, blocks, repeat(max_seq))  # mypyc would make a list of a generator
    for entries in _whole_keys(table, numbers, decoded, reverse):
        # Only the first and the last block can reach past the bounds; to look at their ends is cheap.
        low, high = 0, len(entries)
        if start is not None and entries[0][0] < start:
            low = bisect_left(entries, start, key=_KEY)
        if stop is not None and entries[-1][0] >= stop:
            high = bisect_left(entries, stop, key=_KEY)
        if low < high:
            yield _first_of_each_key(entries[low:high])


def _first_of_each_key(entries: list[_Entry]) -> list[_Entry]:
    found: list[_Entry] = []
    last: bytes | None = None
    for entry in entries:
        if entry[0] != last:
            last = entry[0]
            found.append(entry)
    return found


def _entries(block: Block, max_seq: int | None) -> list[_Entry]:
    if max_seq is not None:
        return [
            (key, value)
            for key, value, seq in zip(block.keys(), block.values(), block.seqs(), strict=True)
            if seq <= max_seq
        ]
    return list(zip(block.keys(), block.values(), strict=True))


def _blocks_with_prefix(table: TableReader, numbers: Sequence[int], prefix: bytes) -> Sequence[int]:
    if not table.filters.exist:
        return numbers
    part = table.filters.filter_key.part_of_prefix(prefix)
    if part is None:
        return numbers
    part_hash = hash_key(part)
    kept = [number for number in numbers if table.filters.may_hold(number, part_hash)]
    table.count_prefix_skips(len(numbers) - len(kept))
    return kept


def _whole_keys(
    table: TableReader, numbers: Sequence[int], lists: Iterator[list[_Entry]], reverse: bool
) -> Iterator[list[_Entry]]:
    """Regroup entries: each key's in one list, and no empty lists."""
    if not table.has_versions:
        yield from filter(None, lists)
        return
    index = table.index
    held: list[_Entry] = []
    for number, entries in zip(numbers, lists, strict=True):
        held = entries + held if reverse else held + entries
        if _shares_key(index, number if reverse else number + 1):
            continue  # the next list has more entries of a key in this one
        if held:
            yield held
        held = []
    if held:
        yield held


def _shares_key(index: TableIndex, upper: int) -> bool:
    """Whether block ``upper`` starts with the last key of its predecessor."""
    return 0 < upper < index.block_count and index.first_key(upper) == index.last_key(upper - 1)
