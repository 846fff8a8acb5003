"""The sorted sources that a scan merges: runs of tables and memtables, upwards or downwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.absent import Absent
from lsmkv.encoding.words import COMPILED, compare
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import read_ahead
from lsmkv.sstable.reader import TableReader

Value = bytes | None  # None is a deletion
Entry = tuple[bytes, bytes]

CACHED_BLOCKS: Final = 4  # a scan's first blocks of each table go through the cache
_FIRST_KEYS: Final = 16  # taken from a memtable at first; then twice as many each time
_MOST_KEYS: Final = 256
_FETCHED_AHEAD: Final = 16  # entries; for more at a time the processor fetches on its own


class Source:
    """Where a scan is in one sorted source.

    Attributes:
        live: whether there may be more entries.
        pending: whether ``advance`` is to be called before ``key`` is looked at: what is at hand is
            used up, and what follows is not read before somebody wants it.
        key: the key of the entry where it is.
        alone: whether it is the only source left.  Then nobody looks at ``key``, and it is not kept.
        foretold: whether, though pending, ``key`` tells where it will be when it has advanced: there, or
            beyond.  (It may prove to be at its end.)
    """

    def __init__(self, reverse: bool) -> None:
        self.reverse = reverse
        self.live = True
        self.pending = True
        self.key = b""
        self.alone = False
        self.key_is_lower_bound = False

    def advance(self) -> None:
        """Have entries at hand, and be no longer pending; or be foretold anew, or no longer live."""
        raise NotImplementedError

    def take(self, bound: bytes | None, size: i64, found: list[Entry]) -> None:
        """Move over entries before ``bound``, at least one and at most ``size``.

        Their keys and values go to ``found``, deletions nowhere.  ``key`` must lie before ``bound``.
        """
        raise NotImplementedError

    def skip(self) -> None:
        """Move over one entry: a newer source has its key."""
        raise NotImplementedError


class RunSource(Source):
    """Tables of one run, one after the other, each as the scan reads it.

    Args:
        parts: makes the source of each table in turn, when it is needed.
    """

    def __init__(self, parts: Iterator[Source], reverse: bool) -> None:
        super().__init__(reverse)
        self._parts = parts
        self._part: Source | None = None

    def advance(self) -> None:
        part = self._part
        while True:
            if part is None:
                part = next(self._parts, None)
                if part is None:
                    self.live = False
                    return
                self._part = part
                part.alone = self.alone
                if part.key_is_lower_bound and not self.alone:
                    self.key, self.key_is_lower_bound = part.key, True
                    return
            if part.pending:
                part.advance()
            if part.live:
                self.key = part.key
                self.pending = self.key_is_lower_bound = False
                return
            part = None

    def take(self, bound: bytes | None, size: i64, found: list[Entry]) -> None:
        part = self._part
        assert part is not None
        part.alone = self.alone
        part.take(bound, size, found)
        self.key = part.key
        self.pending = part.pending
        self.key_is_lower_bound = part.key_is_lower_bound

    def skip(self) -> None:
        part = self._part
        assert part is not None
        part.skip()
        self.key = part.key
        self.pending = part.pending
        self.key_is_lower_bound = part.key_is_lower_bound


class BlockSource(Source):
    """The blocks of a table that has each key once, all of them visible.

    Entries are taken out of a block only as they are asked for: most scans end before a block does.

    Args:
        first, last: the blocks from one to the other; with ``kept``, its positions.
        kept: the numbers of the blocks, ascending, if not all between two.
        start, stop: bounds that the first or last of the blocks may reach across.
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
        # What comes next, and where it ends (not included).
        self._first: i64 = last if reverse else first
        self._next: i64 = self._first
        self._beyond: i64 = first - 1 if reverse else last + 1
        self._passed_count: i64 = 0
        self._block: Block | None = None
        self._prefix = b""
        self._following: Iterator[Block] | None = None
        # Positions in the block.
        self._at: i64 = 0
        self._end: i64 = 0
        if kept is None:
            table.prefetch(self._next)

    def foretell(self) -> None:
        """Stand before the next block, whose first key (downwards: last) the index knows."""
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
            # Only blocks at the ends reach past the range; in the others it costs little to see that.
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
        """The next block; as long as they are in the cache, or few, without looking further ahead."""
        at = self._next
        if at == self._beyond:
            return None
        self._next = at + self._step
        if self._following is not None:
            return next(self._following, None)
        kept, table = self._kept, self._table
        number: i64 = at if kept is None else kept[at]
        if self._passed_count < CACHED_BLOCKS:
            self._passed_count += 1
            return table.block(number, True)
        if table.is_cached(number):
            return table.block(number, False)
        self._following = self._further(at)
        return next(self._following, None)

    def _further(self, at: i64) -> Iterator[Block]:
        """The blocks from ``at`` on, to be read ahead."""
        kept, table = self._kept, self._table
        step: int = self._step
        places: Sequence[int] = range(self._first, self._beyond, step)
        if kept is not None:
            places = [kept[place] for place in places]
        passed = sum(map(table.block_length, places[:CACHED_BLOCKS]))
        rest = places[(at - self._first) * step :]
        return read_ahead(table, rest, passed)

    def take(self, bound: bytes | None, size: i64, found: list[Entry]) -> None:
        block, at = self._block, self._at
        assert block is not None
        end = max(self._end, at - size) if self.reverse else min(self._end, at + size)
        if bound is not None:
            end = block.end_before(at, end, bound, self.reverse)
        if size <= _FETCHED_AHEAD:
            # So little is copied before the next is wanted that the processor does not see it coming.
            if self.reverse:
                block.prefetch_values(max(end - size, self._end) + 1, at + 1)
            else:
                block.prefetch_values(at, min(end + size, self._end))
        elif COMPILED:
            if end == self._end:
                self._touch_next()
            if self.reverse:
                block.prefetch_values(end + 1, at + 1)  # it foresees less what goes downwards
        key = block.key_after(self._prefix, at) if self.alone else self.key
        block.append_entries(found, self._prefix, key, at, end, self._step)
        self._move(end)

    def _touch_next(self) -> None:
        """Have the processor fetch the next block while this one is copied, if it is in the cache.

        What tells where a block's keys are is fetched one block before they are.
        """
        if self._kept is None and self._next != self._beyond:
            after = self._next + self._step
            if after != self._beyond:
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
                self.foretell()
        elif not self.alone:
            self.key = block.key_after(self._prefix, at)


class KeysSource(Source):
    """A source that has keys at hand in a list, in the order of the scan, and knows their values."""

    def __init__(self, reverse: bool) -> None:
        super().__init__(reverse)
        self._keys: list[bytes] = []
        self._at: i64 = 0

    def _value(self, position: i64) -> Value | Absent:
        """The value of the key at ``position``."""
        raise NotImplementedError

    def _begin(self, keys: list[bytes]) -> None:
        """Stand at the first of ``keys``."""
        self._keys = keys
        self._at = 0
        self.key = keys[0]
        self.pending = False

    def take(self, bound: bytes | None, size: i64, found: list[Entry]) -> None:
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
    """Keys and values in lists.

    Args:
        lists: lists of entries that ascend; the lists in the order of the scan.
    """

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
    """The keys of a memtable in a range, with their values as of a sequence number."""

    def __init__(
        self, memtable: Memtable, seq: int, start: bytes | None, stop: bytes | None, reverse: bool
    ) -> None:
        super().__init__(reverse)
        self._memtable = memtable
        self._seq = seq
        self._start = start
        self._stop = stop
        self._size: i64 = _FIRST_KEYS
        self._border = stop if reverse else start  # what follows lies beyond it,
        self._included = True  # or, at first, from it on

    def advance(self) -> None:
        memtable, seq = self._memtable, self._seq
        while True:
            if self.reverse:
                keys = memtable.keys_below(self._border, self._size)
            else:
                keys = memtable.keys_above(self._border, self._included, self._size)
            if keys:
                self._border, self._included = keys[-1], False
                self._size = min(2 * self._size, _MOST_KEYS)
                keys = self._in_range(keys)
            if not keys:
                self.live = False
                return
            if memtable.has_history:  # some may have come after the moment that the scan shows
                keys = [key for key in keys if not isinstance(memtable.get_at(key, seq), Absent)]
            if keys:
                break
        self._begin(keys)

    def _in_range(self, keys: list[bytes]) -> list[bytes]:
        """Those of ``keys``, which are in the order of the scan, that lie before its end."""
        end = self._start if self.reverse else self._stop
        if end is None or _is_before(keys[-1], end, self.reverse):
            return keys
        if self.reverse:
            return [key for key in keys if key >= end]
        return [key for key in keys if key < end]

    def _value(self, position: i64) -> Value | Absent:
        return self._memtable.get_at(self._keys[position], self._seq)


def end_before(keys: list[bytes], at: i64, end: i64, bound: bytes | None, reverse: bool) -> i64:
    """The first position from ``at`` + 1 to ``end`` that is ``end`` or whose key is not before ``bound``.

    ``keys`` are in the order of the scan.  It gallops: O(log(result - at)) comparisons.
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
