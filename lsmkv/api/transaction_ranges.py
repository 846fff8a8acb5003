"""Ranges of a transaction: what it sees of the store, with its own writes over it."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from threading import Lock
from typing import Any, Final, Self, SupportsIndex, TypeVar

from lsmkv.api.own_writes import OwnWrites
from lsmkv.api.ranges import EntryIterator, key_within, scan_range
from lsmkv.api.reads import Reads
from lsmkv.api.snapshot import Snapshot
from lsmkv.encoding.entries import Absent, Value
from lsmkv.engine.recent_writes import Place
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.read.scan import Bounds

_T = TypeVar("_T")
_Entry = tuple[bytes, bytes]
_UNREAD: Final = (b"", None)  # the next entry is to be fetched


class TransactionState:
    """What a transaction, its views and its cursors share.

    Attributes:
        snapshot: the store as the transaction sees it.
        own: what it has written.
        reads: what it has read.
        place: where it began among the writes of all; None once it was committed or discarded.
        lock: held during each call.
    """

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        self.snapshot = snapshot
        self.own = OwnWrites()
        self.reads = Reads()
        self.place: Place | None = place
        self.lock = Lock()

    def end(self) -> None:
        """Let go of everything."""
        place, self.place = self.place, None
        if place is not None:
            place.release()
        self.snapshot.close()
        self.own = OwnWrites()
        self.reads = Reads()

    def check_usable(self) -> None:
        """Raise unless a call may begin now."""
        self.check_not_ended()
        self.snapshot._engine.require_open()
        self.check_not_in_use()

    def check_not_ended(self) -> None:
        if self.place is None:
            raise ClosedError("the transaction was committed or discarded already")

    def check_not_in_use(self) -> None:
        if self.lock.locked():
            raise ValueError(
                "the transaction is in use already, by another thread or from inside itself: "
                "let each thread begin one of its own"
            )

    def get(self, key: bytes) -> Value:
        self.check_usable()
        with self.lock:
            value = self.own.get(key)
            if isinstance(value, Absent):
                self.reads.keys.add(key)
                return self.snapshot._lookup(key)
            return value

    def get_at(self, key: bytes, moment: int) -> Value:
        """As :meth:`get`, without what was written after ``moment``."""
        self.check_usable()
        with self.lock:
            value = self.own.get_at(key, moment)
            if isinstance(value, Absent):
                self.reads.keys.add(key)
                return self.snapshot._lookup(key)
            return value

    def put(self, key: bytes, value: Value) -> None:
        self.check_usable()
        with self.lock:
            self.own.put(key, value)


class TransactionIterator:
    """Iterates over the entries of a range, and notes how far."""

    def __init__(self, state: TransactionState, wanted: Bounds, moment: int) -> None:
        self._state = state
        self._wanted = wanted
        self._moment = moment
        self._steps: Iterator[_Entry] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Entry:
        state = self._state
        state.check_usable()
        with state.lock:
            if self._steps is None:
                self._steps = _merged(state, self._wanted, self._moment)
            return next(self._steps)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an iterator", "make another with iter() of its view")


def _merged(state: TransactionState, wanted: Bounds, moment: int) -> Iterator[_Entry]:
    """The entries of a range.

    No method of the iterator, to which it would refer: then a forgotten one waits for the collector.
    """
    if wanted.is_empty:
        return
    snapshot = state.snapshot
    stored = EntryIterator(snapshot._read_view(), wanted, snapshot._engine, snapshot)
    written = state.own.entries(wanted, moment)
    seen = state.reads.add_range(wanted)
    theirs: tuple[bytes, Value] | None = _UNREAD
    own: tuple[bytes, Value] | None = _UNREAD
    while True:
        if theirs is _UNREAD:
            theirs = next(stored, None)
        if own is _UNREAD:
            own = next(written, None)
        entry = theirs
        if own is not None and (theirs is None or _is_due(own[0], theirs[0], wanted.reverse)):
            if theirs is not None and theirs[0] == own[0]:
                theirs = _UNREAD
            entry, own = own, _UNREAD
        else:
            theirs = _UNREAD
        if entry is None:
            break
        key, value = entry
        if value is not None:
            seen.last = key
            yield key, value
    seen.is_whole = True


def _is_due(key: bytes, other: bytes, reverse: bool) -> bool:
    return key >= other if reverse else key <= other


class _RangeView:
    """A range of a transaction, unchanged by what it writes later.

    ``len`` scans.  What is looked at counts as read.
    """

    def __init__(
        self,
        state: TransactionState,
        start: object,
        stop: object,
        prefix: object,
        reverse: bool,
    ) -> None:
        wanted = scan_range(start, stop, prefix, reverse)
        state.check_usable()
        self._state = state
        self._wanted = wanted
        self._moment = state.own.freeze()

    def _iterate(self, reverse: bool = False) -> TransactionIterator:
        self._state.check_usable()
        wanted = self._wanted
        if reverse:
            wanted = Bounds(wanted.start, wanted.stop, wanted.prefix, not wanted.reverse)
        return TransactionIterator(self._state, wanted, self._moment)

    def value(self, key: object) -> bytes | None:
        """The value of ``key``; None if the range does not have it."""
        data = key_within(self._wanted, key)
        return None if data is None else self._state.get_at(data, self._moment)

    def __len__(self) -> int:
        """The number of entries.  O(n): scans them."""
        return sum(1 for _ in self._iterate())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._state.snapshot!r}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable(f"a {type(self).__name__}", "make a list, set or dict of what it shows")


class TransactionKeys(_RangeView, KeysView[bytes]):
    """The keys of a range of a transaction, in order."""

    @classmethod
    def _from_iterable(cls, found: Iterable[_T]) -> set[_T]:
        return set(found)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self._iterate())

    def __reversed__(self) -> Iterator[bytes]:
        return (key for key, _ in self._iterate(reverse=True))

    def __contains__(self, key: object) -> bool:
        return self.value(key) is not None


class TransactionValues(_RangeView, ValuesView[bytes]):
    """The values of a range of a transaction, in key order."""

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._iterate())

    def __reversed__(self) -> Iterator[bytes]:
        return (value for _, value in self._iterate(reverse=True))

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)


class TransactionItems(_RangeView, ItemsView[bytes, bytes]):
    """The items of a range of a transaction, in order."""

    @classmethod
    def _from_iterable(cls, found: Iterable[_T]) -> set[_T]:
        return set(found)

    def __iter__(self) -> Iterator[_Entry]:
        return self._iterate()

    def __reversed__(self) -> Iterator[_Entry]:
        return self._iterate(reverse=True)

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        value = self.value(item[0])
        return value is not None and value == item[1]
