"""Scans: the items of a read view between two keys, in order."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.range_deletes import KeyRange, RangeDeletes, united
from lsmkv.encoding.words import compare
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.bounds import Bounds
from lsmkv.read.sources import (
    AT,
    ENDED,
    UNREAD,
    BlockSource,
    Item,
    MemtableSource,
    MixedSource,
    Source,
)
from lsmkv.read.start import Range
from lsmkv.read.view import ReadView

_FIRST_ITEMS: Final = 4  # a scan's first list has so many; each further one a quarter more
_MOST_ITEMS: Final = 256  # so many fit into the processor's nearer caches
_WASTED_PROBES: Final = 8  # about what each further run costs a scan


class Scan:
    """The items of a range of a read view, in lists.

    It reads nothing before the first list is asked for, and little for that: most scans end soon.
    """

    def __init__(self, read_view: ReadView, wanted: Bounds) -> None:
        self._ahead: list[list[Item]] | None = None  # what a length has read before
        self._read_view = read_view
        self._wanted = wanted
        self._reverse: bool = wanted.reverse
        self._size: i64 = _FIRST_ITEMS
        self._begun = False
        self._is_running = False
        self._sources: list[Source] = []  # newest first
        ranges = read_view.range_deletes
        self._erased: RangeDeletes | None = None if ranges is None else ranges.as_of(read_view.seq)

    def lay_over(self, memtable: Memtable, seq: int, ranges: list[KeyRange]) -> None:
        """Show a memtable, as of ``seq``, over the entries outside ``ranges``; to be called first."""
        wanted = self._wanted
        if not wanted.is_empty:
            whole: list[tuple[bytes | None, bytes | None]] = [(wanted.start, wanted.stop)]
            moment = self._read_view.moment
            self._sources.append(MemtableSource(memtable, seq, whole, wanted.reverse, moment))
        newer = tuple([(start, stop, MAX_SEQUENCE + 1) for start, stop in ranges])
        self._erased = united(self._erased, newer)

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
        wanted = self._wanted
        if isinstance(wanted, Range):
            self._ahead = wanted.begin()
            if self._ahead is not None:
                self._sources = []
                return
        read_view, sources = self._read_view, self._sources
        if wanted.is_empty:
            return
        start, stop, seq = wanted.start, wanted.stop, read_view.seq
        moment, erased = read_view.moment, self._erased
        if erased is not None and not erased.touches(start, stop, 0):
            erased = None
        for memtable in read_view.memtables:
            if not memtable.is_empty:
                ranges: list[tuple[bytes | None, bytes | None]] = [(start, stop)]
                if erased is not None:
                    ranges = [*erased.gaps(start, stop, memtable.entry_seq)]
                if ranges:
                    sources.append(MemtableSource(memtable, seq, ranges, wanted.reverse, moment))
        runs = read_view.version.runs
        is_last = not sources and len(runs) == 1
        asked = 0
        for run in runs:
            tables = run.tables_between(start, stop)
            if tables:
                asked += 1
                if run.is_all_visible(seq) and not (
                    erased is not None
                    and erased.touches(tables[0].smallest, tables[-1].largest + b"\0", 0)
                ):
                    sources.append(BlockSource(tables, wanted, is_last, moment))
                else:
                    sources.append(MixedSource(tables, seq, wanted, moment, erased))
        if asked > 1:
            read_view.version.charge_wasted_probes(_WASTED_PROBES * (asked - 1))
        for source in sources:
            if source.state == ENDED:
                self._drop_ended()
                break

    def _fill(self, found: list[Item]) -> None:
        ahead = self._ahead
        if ahead is not None:
            if ahead:
                found += ahead.pop()
            return
        size = self._size
        self._size = min(size + (size >> 2) + 1, _MOST_ITEMS)
        missing = size
        passed: i64 = 0  # takes of deletions alone
        while missing > 0 and self._take(missing, found):
            left = size - len(found)
            if left == missing:
                passed += 1
            missing = left
        if passed > 0:
            self._read_view.version.charge_wasted_probes(passed)

    def _take(self, size: i64, found: list[Item]) -> bool:
        """Take items from the first source, up to the next source's key.

        Of a key in several sources the newest source's entry counts; the others skip it.  A block is
        not read while index or filter show that its keys come later, nor while there are items to
        return: then, and at the end, it returns False.
        """
        while self._sources:
            first, bound = self._first_and_bound()
            if first.state == AT:
                first.take(bound, size, found)
                if first.state == ENDED:
                    self._drop_ended()
                return True
            if found:
                return False
            if first.questions > 0 and self._is_put_off(first, size):
                continue
            first.load(bound is None)
            if first.state == ENDED:
                self._drop_ended()
        return False

    def _is_put_off(self, source: Source, size: i64) -> bool:
        """Whether the others' next items come before those of an unread source."""
        nearest: bytes | None = None
        for other in self._sources:
            if other.state == AT:
                key = other.key_ahead(size)
                if key is not None and (nearest is None or self._order(key, nearest) < 0):
                    nearest = key
        return nearest is not None and source.put_off(nearest)

    def _first_and_bound(self) -> tuple[Source, bytes | None]:
        """The source with the first key, of equal ones an unread one; and the next source's key."""
        first: Source | None = None
        bound: bytes | None = None
        has_ended = False
        for source in self._sources:
            if first is None:
                first = source
                continue
            order = self._order(source.key, first.key)
            if order < 0 or (order == 0 and source.state == UNREAD):
                first, bound = source, first.key
                continue
            if order == 0 and first.state == AT:
                source.skip()
                if source.state == ENDED:
                    has_ended = True
                    continue
            if bound is None or self._order(source.key, bound) < 0:
                bound = source.key
        if has_ended:
            self._drop_ended()
        assert first is not None
        return first, bound

    def _drop_ended(self) -> None:
        self._sources = [source for source in self._sources if source.state != ENDED]

    def _order(self, a: bytes, b: bytes) -> i64:
        order = compare(a, 0, len(a), b, 0, len(b))
        return -order if self._reverse else order
