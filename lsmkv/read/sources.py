"""The sorted sources that a scan merges: memtables and runs of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.entries import Absent
from lsmkv.encoding.expiry import Held, Moment
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.encoding.words import COMPILED, compare
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.bounds import Bounds, blocks_with_prefix, bounds_within, filter_denies
from lsmkv.read.visible import visible_entries
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import CACHED_BLOCKS, read_ahead
from lsmkv.sstable.reader import TableReader

Item = tuple[bytes, bytes]

_FIRST_KEYS: Final = 16  # of a memtable, read at first; then twice as many each time
_MOST_KEYS: Final = 256
_PREFETCHED: Final = 16  # entries; the processor prefetches longer copies by itself

_MOST_QUESTIONS: Final = 8  # of a scan to one block's filter: long scans must not pay for more

# States of a source.
UNREAD: Final = i64(0)
AT: Final = i64(1)
ENDED: Final = i64(2)


class Source:
    """A scan's place in one sorted source."""

    def __init__(self, reverse: bool, moment: Moment) -> None:
        self.reverse = reverse
        self.moment = moment
        self.state: i64 = UNREAD  # so before entries that are not loaded; or AT an entry, or ENDED
        # The present entry's; while UNREAD a bound, which no entry to come is before.  The last source
        # left need not keep it: nothing is compared with it.
        self.key = b""
        self.questions: i64 = 0  # while UNREAD, how often :meth:`put_off` may still be asked

    def key_ahead(self, count: i64) -> bytes | None:
        """From ``AT``: a key up to ``count`` entries ahead, in reverse a later one; None: unknown."""
        raise NotImplementedError

    def put_off(self, key: bytes) -> bool:
        """Whether a filter tells that all entries come after ``key``.

        Then the bound lies behind ``key``, or in reverse there.  It takes one of the ``questions``.
        """
        raise NotImplementedError

    def load(self, is_last: bool) -> None:
        """Load the next entries, from ``UNREAD``.  Then the source is in any of its states."""
        raise NotImplementedError

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        """Append the next live entries before ``bound`` to ``found``.

        It moves over 1 to ``size`` entries; ``key`` must lie before ``bound``, which is None for the
        last source.
        """
        raise NotImplementedError

    def skip(self) -> None:
        """Move over one entry, since a newer source has its key."""
        raise NotImplementedError


class BlockSource(Source):
    """A run's blocks, in which every key has one visible entry."""

    def __init__(
        self, tables: list[TableReader], wanted: Bounds, is_last: bool, moment: Moment
    ) -> None:
        super().__init__(wanted.reverse, moment)
        self._tables = tables  # ascending; all lie between the bounds in part
        self._wanted = wanted
        self._step: i64 = -1 if wanted.reverse else 1
        self._turn = len(tables) - 1 if wanted.reverse else 0
        self._table = tables[self._turn]
        # The blocks to come, up to ``beyond`` (not included); with ``kept``, their places in it.
        self._kept: Sequence[int] | None = None
        self._first: i64 = 0
        self._next: i64 = 0
        self._beyond: i64 = 0
        self._start_block: i64 = -1  # the block that may reach past the start; -1: none
        self._stop_block: i64 = -1
        self._read_count: i64 = 0
        self._following: Iterator[Block] | None = None
        # Positions of entries in the block.
        self._block: Block | None = None
        self._prefix = b""
        self._at: i64 = 0
        self._end: i64 = 0
        self._enter()
        if not self._begins_inside():
            self._pass_block(is_last)
        elif is_last or not self._table.answers_ranges or not self._puts_off():
            self.load(is_last)

    def _enter(self) -> None:
        """Begin with the blocks of ``_table``."""
        table, wanted = self._table, self._wanted
        start, stop = bounds_within(table, wanted)
        first, end = table.block_range(start, stop)
        if table.answers_ranges and filter_denies(table, start, stop, first, end):
            end = first
        self._start_block = self._stop_block = -1
        if start is not None:
            self._start_block = first
        if stop is not None:
            self._stop_block = end - 1
        self._kept = None
        if wanted.prefix is not None:
            self._kept = blocks_with_prefix(table, first, end, wanted.prefix)
            first, end = 0, len(self._kept)
        self._first = end - 1 if self.reverse else first
        self._beyond = first - 1 if self.reverse else end
        self._next = self._first
        self._read_count = 0
        self._following = None
        if self._kept is None and first < end:
            table.prefetch(self._next)

    def _begins_inside(self) -> bool:
        """Whether the first block may reach past the scan's first bound."""
        first = self._next
        if first == self._beyond or self._kept is not None:
            return first != self._beyond
        return first == (self._stop_block if self.reverse else self._start_block)

    def _puts_off(self) -> bool:
        """Whether the first block waits for the keys of other sources."""
        bound = self._wanted.stop if self.reverse else self._wanted.start
        if bound is None or self._kept is not None:
            return False
        self.key = bound
        self.questions = _MOST_QUESTIONS
        return True

    def put_off(self, key: bytes) -> bool:
        self.questions -= 1
        low, high = self.key, key + b"\0"
        if self.reverse:
            low, high = key, self.key
        if self._reaches_past_block(key) or self._table.may_hold_between(self._next, low, high):
            return False
        self.key = key if self.reverse else high
        return True

    def _reaches_past_block(self, key: bytes) -> bool:
        """Whether the next block but one may have entries up to ``key``."""
        index = self._table.index
        border = self._next
        if not self.reverse:
            border += 1
        if border == 0 or border == index.block_count:
            return False  # the table's outermost key is in the block, and within the bounds
        return key < index.separator(border) if self.reverse else key >= index.separator(border)

    def _pass_block(self, is_last: bool) -> None:
        """Go to the border before the next block, or end."""
        if self._next == self._beyond and not 0 <= self._turn + self._step < len(self._tables):
            self.state = ENDED
            return
        self.state = UNREAD
        if not is_last:
            self.key = self._bound()

    def _bound(self) -> bytes:
        """The bound that index and tables give the next block's keys."""
        if self._next == self._beyond:
            following = self._tables[self._turn + self._step]
            return following.largest if self.reverse else following.smallest
        kept, number = self._kept, self._next
        if kept is not None:
            number = kept[number]
        table = self._table
        if not self.reverse:
            return table.smallest if number == 0 else table.index.separator(number)
        number += 1
        return table.largest if number == table.index.block_count else table.index.separator(number)

    def load(self, is_last: bool) -> None:
        self.questions = 0
        if self._next == self._beyond:
            self._turn += self._step
            self._table = self._tables[self._turn]
            self._enter()
            if self._next == self._beyond:
                self._pass_block(is_last)
                return
        kept, number = self._kept, self._next
        if kept is not None:
            number = kept[number]
        block = self._next_block(number)
        low: i64 = 0
        high: i64 = block.count
        wanted = self._wanted
        if number == self._start_block and wanted.start is not None:
            low = block.lower_bound(wanted.start)
        if number == self._stop_block and wanted.stop is not None:
            high = block.lower_bound(wanted.stop)
        if low >= high:
            self._pass_block(is_last)
            return
        self._block = block
        if self.reverse:
            self._at, self._end = high - 1, low - 1
        else:
            self._at, self._end = low, high
        self._prefix = block.prefix()
        self.state = AT
        if not is_last:
            self.key = block.key_after(self._prefix, self._at)

    def _next_block(self, number: i64) -> Block:
        """The next block; read ahead unless it is cached or among the first few."""
        place = self._next
        self._next = place + self._step
        following = self._following
        if following is None:
            table = self._table
            if self._read_count < CACHED_BLOCKS:
                self._read_count += 1
                return table.block(number, True)
            if table.is_cached(number):
                return table.block(number, False)
            following = self._following = self._read_ahead(place)
        return next(following)

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
        key = block.key_after(self._prefix, at) if bound is None else self.key
        now_s = self.moment.now_s() if block.has_expiring else 0
        block.append_entries(found, self._prefix, key, at, end, self._step, now_s)
        self._move(end, bound is None)

    def key_ahead(self, count: i64) -> bytes | None:
        block, at = self._block, self._at
        assert block is not None
        if not self.reverse:
            return block.key_after(self._prefix, min(at + count, self._end) - 1)
        ahead = max(at - count, self._end + 1)
        return block.key_after(self._prefix, ahead) if ahead < at else None

    def _prefetch_next(self) -> None:
        """Have the processor fetch the next block, if it is cached."""
        if self._kept is None and self._next != self._beyond:
            after = self._next + self._step
            if after != self._beyond:  # the cache's entry comes one block before the keys
                self._table.is_cached(after)
            self._table.prefetch(self._next)

    def skip(self) -> None:
        self._move(self._at + self._step, False)

    def _move(self, at: i64, is_last: bool) -> None:
        block = self._block
        assert block is not None
        self._at = at
        if at == self._end:
            self._pass_block(is_last)
        elif not is_last:
            self.key = block.key_after(self._prefix, at)


class KeysSource(Source):
    """A source with a list of keys, in scan order."""

    def __init__(self, reverse: bool, moment: Moment) -> None:
        super().__init__(reverse, moment)
        self._keys: list[bytes] = []
        self._at: i64 = 0

    def _held(self, position: i64) -> Held | Absent:
        raise NotImplementedError

    def _begin(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._at = 0
        self.key = keys[0]
        self.state = AT

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        keys, at = self._keys, self._at
        end = end_before(keys, at, min(i64(len(keys)), at + size), bound, self.reverse)
        while at < end:
            held = self._held(at)
            value = None if isinstance(held, Absent) else self.moment.value_of(held)
            if value is not None:
                found.append((keys[at], value))
            at += 1
        self._move(end)

    def key_ahead(self, count: i64) -> bytes | None:
        keys, at = self._keys, self._at
        last: i64 = len(keys) - 1
        if not self.reverse:
            return keys[min(at + count - 1, last)]
        return keys[min(at + count, last)] if at < last else None

    def skip(self) -> None:
        self._move(self._at + 1)

    def _move(self, at: i64) -> None:
        self._at = at
        if at < len(self._keys):
            self.key = self._keys[at]
        else:
            self.state = UNREAD  # ``key``, the last one, is before all others


class EntrySource(KeysSource):
    """A run's tables of which not every entry is visible."""

    def __init__(
        self,
        tables: list[TableReader],
        seq: int,
        wanted: Bounds,
        moment: Moment,
        erased: RangeDeletes | None,
    ) -> None:
        super().__init__(wanted.reverse, moment)
        if wanted.reverse:
            tables = tables[::-1]
        self._lists = visible_entries(tables, seq, wanted, erased)
        self._values: list[Held] = []
        if wanted.reverse:
            largest = tables[0].largest
            self.key = largest if wanted.stop is None else min(largest, wanted.stop)
        else:
            self.key = max(tables[0].smallest, wanted.start or b"")

    def load(self, is_last: bool) -> None:
        entries = next(self._lists, None)
        if entries is None:
            self.state = ENDED
            return
        if self.reverse:
            entries = entries[::-1]
        self._values = [value for _, value in entries]
        self._begin([key for key, _ in entries])

    def _held(self, position: i64) -> Held | Absent:
        return self._values[position]


class MixedSource(Source):
    """A run of which some tables are wholly visible, and others not.

    Neighbours of one kind are one source.  They are read one after the other, so that a scan does not
    compare the keys of all.
    """

    def __init__(
        self,
        tables: list[TableReader],
        seq: int,
        wanted: Bounds,
        moment: Moment,
        erased: RangeDeletes | None,
    ) -> None:
        super().__init__(wanted.reverse, moment)
        self._seq = seq
        self._wanted = wanted
        self._erased = erased

        def is_all_visible(table: TableReader) -> bool:
            return table.is_all_visible(seq) and (
                erased is None
                or not erased.touches(table.smallest, table.meta.above, table.meta.least_seq)
            )

        stretches = [
            (is_visible, list(stretch)) for is_visible, stretch in groupby(tables, is_all_visible)
        ]
        self._to_come = stretches if wanted.reverse else stretches[::-1]  # the last one is next
        self._present = self._next()
        self._follow()

    def _next(self) -> Source:
        is_visible, tables = self._to_come.pop()
        if is_visible:
            return BlockSource(tables, self._wanted, False, self.moment)
        return EntrySource(tables, self._seq, self._wanted, self.moment, self._erased)

    def _follow(self) -> None:
        """Stand where the present source stands; where it has ended, at the next one."""
        while self._present.state == ENDED and self._to_come:
            self._present = self._next()
        self.state = self._present.state
        self.key = self._present.key
        self.questions = self._present.questions

    def key_ahead(self, count: i64) -> bytes | None:
        return self._present.key_ahead(count)

    def put_off(self, key: bytes) -> bool:
        is_later = self._present.put_off(key)
        self._follow()
        return is_later

    def load(self, is_last: bool) -> None:
        self._present.load(is_last)
        self._follow()

    def take(self, bound: bytes | None, size: i64, found: list[Item]) -> None:
        self._present.take(bound, size, found)
        self._follow()

    def skip(self) -> None:
        self._present.skip()
        self._follow()


class MemtableSource(KeysSource):
    """Ranges of a memtable, ascending, as of a sequence number.  Its first keys are loaded at once."""

    def __init__(
        self,
        memtable: Memtable,
        seq: int,
        ranges: list[tuple[bytes | None, bytes | None]],
        reverse: bool,
        moment: Moment,
    ) -> None:
        super().__init__(reverse, moment)
        self._memtable = memtable
        self._seq = seq
        self._ranges = ranges if reverse else ranges[::-1]  # the last one is next
        self._size: i64 = _FIRST_KEYS
        self._next_range()
        self.load(False)

    def _next_range(self) -> None:
        self._start, self._stop = self._ranges.pop()
        self._border = self._stop if self.reverse else self._start  # the next keys lie beyond it,
        self._included = True  # or at first, upwards, from it on

    def load(self, is_last: bool) -> None:
        memtable, seq = self._memtable, self._seq
        while True:
            keys = memtable.keys_beyond(self._border, self._included, self._size, self.reverse)
            if keys:
                self._border, self._included = keys[-1], False
                self._size = min(2 * self._size, _MOST_KEYS)
                keys = self._in_range(keys)
            if not keys:
                if not self._ranges:
                    self.state = ENDED
                    return
                self._next_range()
                continue
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

    def _held(self, position: i64) -> Held | Absent:
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
