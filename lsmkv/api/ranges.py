"""Ranges of keys as of one moment, and iterators over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Self, SupportsIndex, cast

from mypy_extensions import i64, mypyc_attr

from lsmkv.encoding.entries import key_bytes, prefix_successor
from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.engine.readers import StoreView
from lsmkv.errors import unbounded_delete, uncopyable
from lsmkv.html import key_text, table
from lsmkv.read.bounds import Bounds
from lsmkv.read.scan import Scan
from lsmkv.read.start import Range, count

_NOTHING: Final[list[tuple[bytes, ...]]] = []


class EntryIterator:
    """Iterates over the entries of a range.

    It is for one thread at a time, and not reentrant (ValueError).  (``itertools.chain`` would drop the
    scan at its end even while another thread is inside it.)
    """

    def __init__(self, read_view: StoreView, wanted: Bounds, owner: object) -> None:
        if isinstance(wanted, Range):
            wanted.note_iteration()
        self._scan: Scan | None = Scan(read_view, wanted)  # None after the end
        self._state = read_view.state
        self._owner: object = owner
        self._entries = _NOTHING  # the fetched list
        self._at: i64 = 0  # the position of the next entry in it
        self._end: i64 = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        at = self._at
        if at == self._end or self._state.super_version is None:
            return self._fetched()
        self._at = at + 1
        return self._entries[at]

    def _fetched(self) -> tuple[bytes, ...]:
        """Fetch the next list of entries, and return its first."""
        held = self.itself()
        held._state.require_open()
        held._entries = _NOTHING  # first: fewer objects for the collector
        scan = held._scan
        if scan is None:
            raise StopIteration
        try:
            entries = cast("list[tuple[bytes, ...]]", scan.__next__())
        except StopIteration:
            held._scan = held._owner = None
            raise
        held._entries = entries
        held._at = 1
        held._end = len(entries)
        return entries[0]

    def itself(self) -> Self:
        """A new reference to self, which keeps compiled code's borrowed one alive.

        Compiled code borrows ``self``, and C code may drop the iterator that it advances as soon as
        another thread has reached the end.
        """
        return self

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an iterator", "make another with iter() of its view")


class KeyIterator(EntryIterator):
    """Iterates over the keys of a range."""

    def __next__(self) -> Any:
        at = self._at
        if at == self._end or self._state.super_version is None:
            return self._fetched()[0]
        self._at = at + 1
        return self._entries[at][0]


class ValueIterator(EntryIterator):
    """Iterates over the values of a range."""

    def __next__(self) -> Any:
        at = self._at
        if at == self._end or self._state.super_version is None:
            return self._fetched()[1]
        self._at = at + 1
        return self._entries[at][1]


def scan_range(start: object, stop: object, prefix: object, reverse: bool) -> Range:
    """The bounds of a range; TypeError for one that is not bytes-like."""
    low = None if start is None else key_bytes(start)
    high = None if stop is None else key_bytes(stop)
    head = None if prefix is None else key_bytes(prefix)
    if not head:
        return Range(low, high, None, reverse)
    end = prefix_successor(head)
    if end is not None:
        high = end if high is None else min(high, end)
    return Range(head if low is None else max(low, head), high, head, reverse)


def deleted_range(start: object, stop: object, prefix: object) -> list[KeyRange]:
    """The range to delete; none if it is empty.  ValueError without any bound."""
    wanted = scan_range(start, stop, prefix, False)
    if wanted.start is None and wanted.stop is None:
        raise unbounded_delete()
    return [] if wanted.is_empty else [(wanted.start or b"", wanted.stop)]


def key_within(wanted: Bounds, key: object) -> bytes | None:
    """``key`` as bytes; None if it is no key, or outside these bounds."""
    try:
        data = key_bytes(key)
    except (TypeError, ValueError):
        return None
    if wanted.start is not None and data < wanted.start:
        return None
    if wanted.stop is not None and data >= wanted.stop:
        return None
    return data


@mypyc_attr(allow_interpreted_subclasses=True)
class RangeView:
    """A range of keys of ``owner``, which keeps the store open."""

    def __init__(
        self,
        owner: Any,
        start: object,
        stop: object,
        prefix: object,
        reverse: bool,
    ) -> None:
        self._owner: object = owner
        self._wanted = scan_range(start, stop, prefix, reverse)
        read_view: StoreView = owner._read_view()
        self._read_view = read_view
        self._wanted.belong_to(read_view.state.contents, read_view.seq)

    def iterate(self, kind: type[EntryIterator], reverse: bool) -> EntryIterator:
        """An iterator over the range; ``reverse`` turns its order around."""
        if kind is KeyIterator:
            self.show_keys_only()
        wanted: Bounds = self._wanted
        if reverse:
            wanted = Bounds(wanted.start, wanted.stop, wanted.prefix, not wanted.reverse)
        return kind(self._read_view, wanted, self._owner)

    def value(self, key: object) -> bytes | None:
        """The value of ``key``; None if the range does not have it."""
        data = key_within(self._wanted, key)
        if data is None:
            return None
        self._read_view.state.require_open()
        return self._read_view.get(data, self._read_view.state.stats)

    def __len__(self) -> int:
        """The number of entries.  O(n): scans them."""
        read_view, wanted = self._read_view, self._wanted
        read_view.state.require_open()
        return count(Scan(read_view, wanted.bounds()), wanted)

    def show_keys_only(self) -> None:
        """Whoever iterates needs no values."""
        self._wanted.needs_values = False

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name} {text}" for name, text in self._bounds())
        return f"<{type(self).__name__} of {self._read_view.state.directory!r}, {bounds or 'all keys'}>"

    def _repr_html_(self) -> str:
        rows = [("store", repr(self._read_view.state.directory)), *self._bounds()]
        return table(f"lsmkv {type(self).__name__}", rows)

    def _bounds(self) -> list[tuple[str, str]]:
        wanted = self._wanted
        if wanted.prefix is None:
            bounds = [("start", wanted.start), ("stop", wanted.stop)]
        else:
            bounds = [("prefix", wanted.prefix)]
        found = [(name, key_text(key)) for name, key in bounds if key is not None]
        return [*found, ("order", "descending")] if wanted.reverse else found

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable(
            f"a {type(self).__name__}",
            "share the view, or make a list, set or dict of what it shows",
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class EntryRangeView(RangeView):
    """The compiled part of :class:`RangeItems`, for scans that end soon."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        wanted = self._wanted
        return EntryIterator(self._read_view, wanted, self._owner)

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return RangeView.iterate(self, EntryIterator, True)
