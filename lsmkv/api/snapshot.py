"""Snapshots, and what they share with ``DB``: reading, and views of ranges.

This module is not compiled: operators of ``Set`` such as ``&`` do not work on compiled classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from lsmkv.api.cursor import Cursor
from lsmkv.api.ranges import EntryRangeView, KeyIterator, RangeView, ValueIterator
from lsmkv.background.state import StoreState
from lsmkv.encoding.entries import Buffer, key_bytes, keys_bytes
from lsmkv.engine.readers import Readers, StoreView
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.html import state_table
from lsmkv.layers.mapping import OrderedReader
from lsmkv.layers.views import OrderedItems, OrderedKeys, OrderedValues
from lsmkv.read.scan import Scan
from lsmkv.read.snapshots import Pin
from lsmkv.read.view import SuperVersion, held_at, value_at

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.layers.prefixed import PrefixedSnapshot


class RangeKeys(RangeView, OrderedKeys[bytes]):
    """The keys of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self.iterate(KeyIterator, False)

    def __reversed__(self) -> Iterator[bytes]:
        return self.iterate(KeyIterator, True)


class RangeItems(EntryRangeView, OrderedItems[bytes, bytes]):
    """The items of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()


class RangeValues(RangeView, OrderedValues[bytes]):
    """The values of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self.iterate(ValueIterator, False)

    def __reversed__(self) -> Iterator[bytes]:
        return self.iterate(ValueIterator, True)


class StoreReader(OrderedReader[bytes, bytes, Buffer, Buffer]):
    """The reading part of a store or snapshot."""

    _state: StoreState
    _read_view: Callable[[], StoreView]
    """The state that a reader sees which starts now."""

    _keys, _values, _items = RangeKeys, RangeValues, RangeItems

    def cursor(self) -> Cursor:
        """A cursor over the store as it is now, at no key."""
        state = self._state
        scan = partial(Scan, self._read_view())
        return Cursor(state.directory, scan, state.require_open, self)


class Snapshot(StoreReader):
    """The store as it was at ``DB.snapshot``; end it with ``close`` or ``with``."""

    def __init__(self, readers: Readers, current: SuperVersion, pin: Pin, owner: object) -> None:
        self._owner = owner  # keeps the store open while the snapshot lives
        self._readers = readers
        self._state = readers.state
        self._pin: Pin | None = pin
        # Another process writes to a read-only store, so only the super version itself keeps entries.
        self._kept = current if readers.state.read_only else None

    def _live_pin(self) -> Pin:
        if self._pin is None:
            raise ClosedError("the snapshot is closed")
        return self._pin

    def _super_version(self) -> SuperVersion:
        current = self._state.require_open()
        return self._kept or current

    def _lookup(self, key: Buffer) -> bytes | None:
        current, pin = self._super_version(), self._live_pin()
        entries = current.memtables, current.version, current.range_deletes
        value = value_at(*entries, key_bytes(key), pin.seq, pin.moment, self._state.stats)
        self._live_pin()  # if it was closed meanwhile, entries may be gone that it should have seen
        return value

    def expires_at(self, key: Buffer) -> int | None:
        """When ``key`` is due, in seconds since 1970; None: it never is, or is not there."""
        current, pin = self._super_version(), self._live_pin()
        entries = current.memtables, current.version, current.range_deletes
        held = held_at(*entries, key_bytes(key), pin.seq, self._state.stats)
        self._live_pin()  # as in _lookup
        return pin.moment.expiry_of(held)

    def _lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        kept = self._kept
        if kept is None:
            return list(map(self._lookup, keys_bytes(keys)))
        # A read-only store's super version has nothing that is newer than the snapshot.
        checked = keys_bytes(keys)
        self._super_version()
        found = kept.get_many(checked, self._live_pin().moment, None, self._state.stats)
        self._live_pin()
        return found

    def _read_view(self) -> StoreView:
        read_view = self._readers.read_view_at(self._super_version(), self._live_pin())
        self._live_pin()  # as in _lookup
        return read_view

    def prefixed(self, prefix: Buffer) -> PrefixedSnapshot:
        """The keys with ``prefix``, as a mapping that leaves it out."""
        from lsmkv.layers.prefixed import PrefixedSnapshot

        self._super_version()
        self._live_pin()
        return PrefixedSnapshot(self, prefix)

    @property
    def sequence_number(self) -> int:
        """The number of the last write that the snapshot sees."""
        return self._live_pin().seq

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._pin is None

    def close(self) -> None:
        """End the snapshot, so that the store may drop old entries.  A second call does nothing."""
        pin, self._pin, self._kept = self._pin, None, None
        if pin is not None:
            pin.release()

    def __enter__(self) -> Self:
        self._live_pin()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Snapshot", "share it between threads, or take another of the store")

    def __repr__(self) -> str:
        return f"<lsmkv.Snapshot of {self._state.directory!r}, {self._shown_state()}>"

    def _repr_html_(self) -> str:
        return state_table(self, self._state.directory, self._shown_state())

    def _shown_state(self) -> str:
        pin = self._pin
        return "closed" if pin is None else f"as of write {pin.seq}"
