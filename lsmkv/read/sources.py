"""The sorted sources that a scan merges: memtables and runs of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.entries import Absent, Value
from lsmkv.encoding.words import COMPILED, compare
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import read_ahead
from lsmkv.sstable.reader import TableReader

Item = tuple[bytes, bytes]

CACHED_BLOCKS: Final = 4  # of each table, a scan's first blocks go through the cache
_FIRST_KEYS: Final = 16  # of a memtable, read at first; then twice as many each time
_MOST_KEYS: Final = 256
_PREFETCHED: Final = 16  # entries; the processor prefetches longer copies by itself


class Source:
    """A scan's place in one sorted source.

    Attributes:
        live: whether there may be more entries.
        pending: whether ``advance`` must come before ``key`` is used.  It reads, so it waits until
            needed.
        key: the key of the present entry.
        key_is_lower_bound: whether, while pending, ``key`` is a lower bound (for a reverse scan, an
            upper one) of the next key.
        alone: whether it is the only source left, so that ``key`` need not be kept.
    """

    def __init__(self, reverse: bool) -> None:
        self.reverse = reverse
        self.live = True
        self.pending = True
        self.key = b""
        self.alone = False
        self.key_is_lower_bound = False

    def advance(self) -> None:
        """Have entries at hand; or else know a new lower bound, or end."""
        raise NotImplementedError

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        """Append the next entries before ``bound`` to ``found``, without deletions.

        It moves over 1 to ``size`` entries; ``key`` must lie before ``bound``.
        """
        raise NotImplementedError

    def skip(self) -> None:
        """Move over one entry, since a newer source has its key."""
        raise NotImplementedError


class RunSource(Source):
    """The tables of one run, each opened when the scan gets there."""

    def __init__(self, tables: Iterator[Source], reverse: bool) -> None:
        super().__init__(reverse)
        self._tables = tables
        self._table: Source | None = None

    def advance(self) -> None:
        table = self._table
        while True:
            if table is None:
                table = next(self._tables, None)
                if table is None:
                    self.live = False
                    return
                self._table = table
                table.alone = self.alone
                if table.key_is_lower_bound and not self.alone:
                    self.key, self.key_is_lower_bound = table.key, True
                    return
            if table.pending:
                table.advance()
            if table.live:
                self.key = table.key
                self.pending = self.key_is_lower_bound = False
                return
            table = None

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        table = self._table
        assert table is not None
        table.alone = self.alone
        table.take(bound, size, found)
        self._follow(table)

    def skip(self) -> None:
        table = self._table
        assert table is not None
        table.skip()
        self._follow(table)

    def _follow(self, table: Source) -> None:
        self.key = table.key
        self.pending = table.pending
        self.key_is_lower_bound = table.key_is_lower_bound


class BlockSource(Source):
    """Blocks of a table in which every key has one visible entry.

    Args:
        first, last: the first and the last block; with ``kept``, their positions in it.
        kept: the block numbers, ascending; None for all from ``first`` to ``last``.
        start, stop: the scan's bounds, where the first or the last block may reach past them.
    """

    def __init__(
        self,
        table: TableReader,
        first: i64,
        last: i64,
        kept: Sequence[int] | None,
        start: bytes | None,
        stop: bytes | None,
        reverse: bool,
    ) -> None:
        super().__init__(reverse)
        self._table = table
        self._kept = kept
        self._start = start
        self._stop = stop
        self._step: i64 = -1 if reverse else 1
        # The blocks to come, up to ``beyond`` (not included).
        self._first: i64 = last if reverse else first
        self._next: i64 = self._first
        self._beyond: i64 = first - 1 if reverse else last + 1
        self._read_count: i64 = 0
        self._block: Block | None = None
        self._prefix = b""
        self._following: Iterator[Block] | None = None
        # Positions of entries in the block.
        self._at: i64 = 0
        self._end: i64 = 0
        if kept is None:
            table.prefetch(self._next)

    def peek(self) -> None:
        """Take the lower bound of the next block from the index."""
        at, kept = self._next, self._kept
        if at == self._beyond:
            self.live = False
            return
        number: i64 = at if kept is None else kept[at]
        index = self._table.index
        self.key = index.last_key(number) if self.reverse else index.first_key(number)
        self.key_is_lower_bound = True

    def advance(self) -> None:
        while True:
            block = self._next_block()
            if block is None:
                self.live = False
                return
            low: i64 = 0
            high: i64 = block.count
            # Only the blocks at the ends reach past the bounds; to check the others costs little.
            if self._start is not None:
                low = block.lower_bound(self._start)
                if not self.reverse:
                    self._start = None
            if self._stop is not None:
                high = block.lower_bound(self._stop)
                if self.reverse:
                    self._stop = None
            if low < high:
                break
        self._block = block
        if self.reverse:
            self._at, self._end = high - 1, low - 1
        else:
            self._at, self._end = low, high
        self._prefix = block.prefix()
        if not self.alone:
            self.key = block.key_after(self._prefix, self._at)
        self.pending = self.key_is_lower_bound = False

    def _next_block(self) -> Block | None:
        """The next block; read ahead unless it is cached or among the first few."""
        at = self._next
        if at == self._beyond:
            return None
        self._next = at + self._step
        if self._following is not None:
            return next(self._following, None)
        kept, table = self._kept, self._table
        number: i64 = at if kept is None else kept[at]
        if self._read_count < CACHED_BLOCKS:
            self._read_count += 1
            return table.block(number, True)
        if table.is_cached(number):
            return table.block(number, False)
        self._following = self._read_ahead(at)
        return next(self._following, None)

    def _read_ahead(self, at: i64) -> Iterator[Block]:
        kept, table = self._kept, self._table
        step: int = self._step
        places: Sequence[int] = range(self._first, self._beyond, step)
        if kept is not None:
            places = [kept[place] for place in places]
        passed = sum(map(table.block_length, places[:CACHED_BLOCKS]))
        rest = places[(at - self._first) * step :]
        return read_ahead(table, rest, passed)

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        block, at = self._block, self._at
        assert block is not None
        end = max(self._end, at - size) if self.reverse else min(self._end, at + size)
        if bound is not None:
            end = block.end_before(at, end, bound, self.reverse)
        if size <= _PREFETCHED:
            # Too little is copied before the next call for the processor to prefetch by itself.
            if self.reverse:
                block.prefetch_values(max(end - size, self._end) + 1, at + 1)
            else:
                block.prefetch_values(at, min(end + size, self._end))
        elif COMPILED:
            if end == self._end:
                self._prefetch_next()
            if self.reverse:
                block.prefetch_values(end + 1, at + 1)  # the processor prefetches less downwards
        key = block.key_after(self._prefix, at) if self.alone else self.key
        block.append_entries(found, self._prefix, key, at, end, self._step)
        self._move(end)

    def _prefetch_next(self) -> None:
        """Have the processor fetch the next block, if it is cached."""
        if self._kept is None and self._next != self._beyond:
            after = self._next + self._step
            if after != self._beyond:  # the cache's entry comes one block before the keys
                self._table.is_cached(after)
            self._table.prefetch(self._next)

    def skip(self) -> None:
        self._move(self._at + self._step)

    def _move(self, at: i64) -> None:
        block = self._block
        assert block is not None
        self._at = at
        if at == self._end:
            self.pending = True
            if not self.alone:
                self.peek()
        elif not self.alone:
            self.key = block.key_after(self._prefix, at)


class KeysSource(Source):
    """A source with a list of keys, in scan order."""

    def __init__(self, reverse: bool) -> None:
        super().__init__(reverse)
        self._keys: list[bytes] = []
        self._at: i64 = 0

    def _value(self, position: i64) -> Value | Absent:
        raise NotImplementedError

    def _begin(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._at = 0
        self.key = keys[0]
        self.pending = False

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        keys, at = self._keys, self._at
        end = end_before(keys, at, min(i64(len(keys)), at + size), bound, self.reverse)
        while at < end:
            value = self._value(at)
            if value is not None and not isinstance(value, Absent):
                found.append((keys[at], value))
            at += 1
        self._move(end)

    def skip(self) -> None:
        self._move(self._at + 1)

    def _move(self, at: i64) -> None:
        self._at = at
        if at < len(self._keys):
            self.key = self._keys[at]
        else:
            self.pending = True


class ListSource(KeysSource):
    """Lists of ascending items; the lists come in the order of the scan."""

    def __init__(self, lists: Iterator[list[tuple[bytes, Value]]], reverse: bool) -> None:
        super().__init__(reverse)
        self._lists = lists
        self._values: list[Value] = []

    def advance(self) -> None:
        for entries in self._lists:
            if entries:
                if self.reverse:
                    entries = entries[::-1]
                self._values = [value for _, value in entries]
                self._begin([key for key, _ in entries])
                return
        self.live = False

    def _value(self, position: i64) -> Value | Absent:
        return self._values[position]


class MemtableSource(KeysSource):
    """A range of a memtable, as of a sequence number."""

    def __init__(
        self, memtable: Memtable, seq: int, start: bytes | None, stop: bytes | None, reverse: bool
    ) -> None:
        super().__init__(reverse)
        self._memtable = memtable
        self._seq = seq
        self._start = start
        self._stop = stop
        self._size: i64 = _FIRST_KEYS
        self._border = stop if reverse else start  # the next keys lie beyond it,
        self._included = True  # or at first, upwards, from it on

    def advance(self) -> None:
        memtable, seq = self._memtable, self._seq
        while True:
            keys = memtable.keys_beyond(self._border, self._included, self._size, self.reverse)
            if keys:
                self._border, self._included = keys[-1], False
                self._size = min(2 * self._size, _MOST_KEYS)
                keys = self._in_range(keys)
            if not keys:
                self.live = False
                return
            if memtable.has_history:  # some keys may be newer than the scan's view
                keys = [key for key in keys if not isinstance(memtable.get_at(key, seq), Absent)]
            if keys:
                break
        self._begin(keys)

    def _in_range(self, keys: list[bytes]) -> list[bytes]:
        end = self._start if self.reverse else self._stop
        if end is None or _is_before(keys[-1], end, self.reverse):
            return keys
        if self.reverse:
            return [key for key in keys if key >= end]
        return [key for key in keys if key < end]

    def _value(self, position: i64) -> Value | Absent:
        return self._memtable.get_at(self._keys[position], self._seq)


def end_before(keys: list[bytes], at: i64, end: i64, bound: bytes | None, reverse: bool) -> i64:
    """The first position after ``at`` whose key is not before ``bound``.

    ``end`` if there is none.  Galloping search: O(log(result - at)) comparisons.  Blocks have one of
    their own, since a call for each key would be too slow.
    """
    if bound is None:
        return end
    low = at + 1
    step: i64 = 1
    while at + step < end and _is_before(keys[at + step], bound, reverse):
        low = at + step + 1
        step *= 2
    high = min(at + step, end)
    while low < high:
        middle = (low + high) >> 1
        if _is_before(keys[middle], bound, reverse):
            low = middle + 1
        else:
            high = middle
    return low


def _is_before(key: bytes, bound: bytes, reverse: bool) -> bool:
    order = compare(key, 0, len(key), bound, 0, len(bound))
    return order > 0 if reverse else order < 0
