"""A range of keys in one read view: its iterators, and the base class of the views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Self, SupportsIndex, cast

from mypy_extensions import i64, mypyc_attr

from lsmkv.encoding.entries import key_bytes, prefix_successor
from lsmkv.engine.engine import Engine
from lsmkv.errors import uncopyable
from lsmkv.read.scan import Bounds, Scan
from lsmkv.read.view import ReadView

_NOTHING: Final[list[tuple[bytes, ...]]] = []


class EntryIterator:
    """Gives the entries of a range, one by one.

    For one thread at a time, and not from inside itself: ValueError.  What is at hand is given out
    at once; the rest comes from the scan, which may let other threads run.

    (``itertools.chain`` would not do: it drops its source at the end, even while another thread is
    still inside it.)
    """

    def __init__(self, read_view: ReadView, wanted: Bounds, engine: Engine, owner: object) -> None:
        self._scan: Scan | None = Scan(read_view, wanted)  # None after the end
        self._engine = engine
        self._owner: object = owner
        self._entries = _NOTHING  # at hand, up to ``_end``
        self._at: i64 = 0
        self._end: i64 = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        at = self._at
        if at == self._end or self._engine.super_version is None:
            return self._fetched()
        self._at = at + 1
        return self._entries[at]

    def _fetched(self) -> tuple[bytes, ...]:
        """The first of the next entries; the others are at hand from now on."""
        held = self.itself()
        held._engine.require_open()  # says why there is none
        held._entries = _NOTHING  # freed now, and not once the next are there: see gc.set_threshold
        scan = held._scan
        if scan is None:
            raise StopIteration
        try:
            entries = cast("list[tuple[bytes, ...]]", scan.__next__())
        except StopIteration:
            held._scan = held._owner = None  # what they keep is needed no more
            raise
        held._entries = entries
        held._at = 1
        held._end = len(entries)
        return entries[0]

    def itself(self) -> Self:
        """This iterator, held by whoever asks.

        Compiled code borrows ``self`` from its caller, and C code may drop the iterator that it
        advances as soon as another thread has met the end.
        """
        return self

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an iterator", "make another with iter(), of the view that it came from")


class KeyIterator(EntryIterator):
    """Gives the keys of a range, one by one."""

    def __next__(self) -> Any:
        at = self._at
        if at == self._end or self._engine.super_version is None:
            return self._fetched()[0]
        self._at = at + 1
        return self._entries[at][0]


class ValueIterator(EntryIterator):
    """Gives the values of a range, one by one."""

    def __next__(self) -> Any:
        at = self._at
        if at == self._end or self._engine.super_version is None:
            return self._fetched()[1]
        self._at = at + 1
        return self._entries[at][1]


def scan_range(start: object, stop: object, prefix: object, reverse: bool) -> Bounds:
    """The keys from ``start`` up to, not including, ``stop`` that start with ``prefix``.

    Raises:
        TypeError: a bound is neither None nor bytes-like.
    """
    low = None if start is None else key_bytes(start)
    high = None if stop is None else key_bytes(stop)
    head = None if prefix is None else key_bytes(prefix)
    if not head:
        return Bounds(low, high, None, reverse)
    end = prefix_successor(head)
    if end is not None:
        high = end if high is None else min(high, end)
    return Bounds(head if low is None else max(low, head), high, head, reverse)


@mypyc_attr(allow_interpreted_subclasses=True)
class RangeView:
    """Keys between two bounds as of one moment.

    Args:
        owner: is kept: a store that nobody else holds stays open for its readers.
        moment: gives the moment.
        start, stop, prefix, reverse: as of :func:`scan_range`, and raises as that.
    """

    def __init__(
        self,
        owner: object,
        engine: Engine,
        read_view: Callable[[], ReadView],
        start: object,
        stop: object,
        prefix: object,
        reverse: bool,
    ) -> None:
        self._owner = owner
        self.engine = engine
        self._wanted = scan_range(start, stop, prefix, reverse)
        self._read_view: ReadView = read_view()

    def iterate(self, kind: type[EntryIterator], reverse: bool) -> Any:
        """An iterator over the range, in its order or in the opposite one."""
        wanted = self._wanted
        if reverse:
            wanted = Bounds(wanted.start, wanted.stop, wanted.prefix, not wanted.reverse)
        return kind(self._read_view, wanted, self.engine, self._owner)

    def value(self, key: object) -> bytes | None:
        """The value of ``key``, if it is in the range and has one."""
        try:
            data = key_bytes(key)
        except (TypeError, ValueError):
            return None
        bounds = self._wanted
        if bounds.start is not None and data < bounds.start:
            return None
        if bounds.stop is not None and data >= bounds.stop:
            return None
        self.engine.require_open()
        return self._read_view.get(data, self.engine.stats)

    def __len__(self) -> int:
        """How many entries there are.  O(n): it scans them."""
        self.engine.require_open()
        return sum(map(len, Scan(self._read_view, self._wanted)))

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable(
            f"a {type(self).__name__}",
            "share the view, or make a list, set or dict of what it shows",
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class EntryRangeView(RangeView):
    """A range whose elements are its entries."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        wanted = self._wanted
        return EntryIterator(self._read_view, wanted, self.engine, self._owner)

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        found: Iterator[tuple[bytes, bytes]] = RangeView.iterate(self, EntryIterator, True)
        return found
