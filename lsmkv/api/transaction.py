"""Transactions: reads and writes that take effect together, as if nothing came in between.

A transaction reads the store as it was when it began, and keeps its writes to itself.  Committing takes
the store's mutex, asks whether anything that was read has been written since, and writes all or nothing.
No reader or writer ever waits for a transaction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, MutableMapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

from lsmkv.api.cursor import Cursor
from lsmkv.api.ranges import deleted_range, key_within, scan_range
from lsmkv.api.reads import Reads
from lsmkv.api.snapshot import Snapshot
from lsmkv.encoding.entries import (
    MAX_BATCH_BYTES,
    MAX_SEQUENCE,
    Absent,
    Buffer,
    Value,
    key_bytes,
    keys_bytes,
    value_bytes,
)
from lsmkv.encoding.expiry import Held, expiring, held_bytes
from lsmkv.encoding.range_deletes import KeyRange, RangeDeletes, united
from lsmkv.engine.erase import delete_ranges
from lsmkv.engine.readers import Readers
from lsmkv.engine.recent_writes import Place
from lsmkv.engine.writer import Writer
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.html import state_table
from lsmkv.layers.mapping import OrderedReader
from lsmkv.layers.views import OrderedItems, OrderedKeys, OrderedValues
from lsmkv.log.batch import HEADER_BYTES, OPERATION_OVERHEAD_BYTES, Operation
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.bounds import Bounds
from lsmkv.read.scan import Scan
from lsmkv.read.start import Range, count

if TYPE_CHECKING:
    from lsmkv.layers.prefixed import PrefixedMapping

_Entry = tuple[bytes, bytes]
_MANY: Final = 256  # keys that are looked at together


class TransactionState:
    """What a transaction, its views and its cursors share."""

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        self.snapshot = snapshot  # the store as the transaction sees it
        # What it has written.  Its sequence numbers are moments: no view sees later writes.
        self.own = Memtable(0, 0)
        # Its range deletes; one of moment m is numbered m + 1.
        self.erased: RangeDeletes | None = None
        self._moment = 0
        self._is_frozen = False  # whether a view shows this moment: then the next write is later
        self._size_bytes = HEADER_BYTES
        self.reads = Reads()  # what it has read
        # Where it began among the writes of all; None once it was committed or discarded.
        self.place: Place | None = place
        self.lock = Lock()  # held during each call

    def end(self) -> None:
        """Let go of everything."""
        place, self.place = self.place, None
        if place is not None:
            place.release()
        self.snapshot.close()
        self.own = Memtable(0, 0)
        self.erased = None
        self.reads = Reads()

    def check_usable(self) -> None:
        """Raise unless a call may begin now."""
        if self.place is None:  # each read asks this: no calls but to raise
            self.check_not_ended()
        self.snapshot._state.require_open()
        if self.lock.locked():
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

    def get(self, key: Buffer) -> Value:
        return self.get_at(key_bytes(key), self._moment)

    def get_at(self, key: bytes, moment: int) -> Value:
        """As :meth:`get`, without what was written after ``moment``."""
        self.check_usable()
        with self.lock:
            held = self._own_at(key, moment)
            if isinstance(held, Absent):
                return self.snapshot._lookup(key)
            return self.snapshot._live_pin().moment.value_of(held)

    def _own_at(self, key: bytes, moment: int) -> Held | Absent:
        """What the transaction has written; ABSENT makes the key count as read."""
        held = self.own.get_at(key, moment)
        if isinstance(held, Absent):
            if self.erased is not None and self.erased.newest_over(key, moment + 1):
                return None
            self.reads.keys.add(key)
        return held

    def expires_at(self, key: Buffer) -> int | None:
        """When ``key`` is due; None: it never is, or is not there.  It counts as read."""
        data = key_bytes(key)
        self.check_usable()
        with self.lock:
            held = self._own_at(data, self._moment)
            if isinstance(held, Absent):
                return self.snapshot.expires_at(data)
            return self.snapshot._live_pin().moment.expiry_of(held)

    def put(self, key: bytes, value: Held) -> None:
        """Set ``key``; None deletes it.  ValueError if all would be too much for one write."""
        self.check_usable()
        with self.lock:
            size = self._size_bytes + held_bytes(value)
            old = self.own.get(key)
            if isinstance(old, Absent):
                size += OPERATION_OVERHEAD_BYTES + len(key)
            else:
                size -= held_bytes(old)
            self._begin_write(size)
            self.own.put(key, value, self._moment, keep_old=self._moment > 0)

    def _begin_write(self, size: int) -> None:
        """Begin a write, with which all take ``size`` bytes."""
        if size > MAX_BATCH_BYTES:
            raise ValueError(
                f"writes of {size} bytes are over a transaction's limit of {MAX_BATCH_BYTES} "
                "bytes; commit them in parts"
            )
        if self._is_frozen:
            self._moment += 1
            self._is_frozen = False
        self._size_bytes = size

    def delete_range(self, start: bytes, stop: bytes | None) -> None:
        """Delete a range.  Raises as :meth:`put`."""
        self.check_usable()
        with self.lock:
            self._begin_write(
                self._size_bytes + OPERATION_OVERHEAD_BYTES + len(start) + len(stop or b"")
            )
            # Own entries become deletions, so that earlier views still show them.
            moment, own = self._moment, self.own
            keys = own.keys_beyond(start, True, _MANY, False)
            while keys and (stop is None or keys[0] < stop):
                for key in keys:
                    if stop is None or key < stop:
                        own.put(key, None, moment, keep_old=moment > 0)
                keys = own.keys_beyond(keys[-1], False, _MANY, False)
            self.erased = united(self.erased, ((start, stop, moment + 1),))

    def writes(self) -> tuple[list[KeyRange], list[Operation]]:
        """The ranges to delete first, and then what to write."""
        erased = self.erased
        if erased is None:
            return [], self.own.newest()
        operations = [
            (key, value)
            for key, value in self.own.newest()
            if value is not None or not erased.newest_over(key, MAX_SEQUENCE)
        ]
        return [(start, stop) for start, stop, _ in erased.ranges], operations

    def freeze(self) -> int:
        """The present moment, for views to see nothing later."""
        self.check_usable()
        self._is_frozen = True
        return self._moment


class TransactionIterator:
    """Iterates over the entries of a range, and notes how far."""

    def __init__(self, state: TransactionState, wanted: Bounds, moment: int) -> None:
        state.check_usable()
        self._state = state
        if isinstance(wanted, Range):
            wanted.note_iteration()
        self._entries = _entries(state, wanted, moment)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Entry:
        state = self._state
        state.check_usable()
        with state.lock:
            return next(self._entries)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an iterator", "make another with iter() of its view")


def _scan(state: TransactionState, wanted: Bounds, moment: int) -> Scan:
    scan = Scan(state.snapshot._read_view(), wanted)
    ranges = () if state.erased is None else state.erased.ranges
    seen = [(start, stop) for start, stop, number in ranges if number <= moment + 1]
    scan.lay_over(state.own, moment, seen)
    return scan


def _entries(state: TransactionState, wanted: Bounds, moment: int) -> Iterator[_Entry]:
    """The entries of a range; no method, or a forgotten iterator would wait for the collector."""
    scan = _scan(state, wanted, moment)
    seen = state.reads.add_range(wanted)
    for entries in scan:
        for entry in entries:
            seen.last = entry[0]
            yield entry
    seen.is_whole = True


class _RangeView:
    """A range of a transaction, unchanged by later writes; what is looked at counts as read."""

    def __init__(
        self, transaction: Any, start: object, stop: object, prefix: object, reverse: bool
    ) -> None:
        self._wanted = scan_range(start, stop, prefix, reverse)
        self._state: TransactionState = transaction._state
        self._moment = self._state.freeze()
        self._wanted.belong_to(self._state.lock, self._moment)

    @abstractmethod
    def _shown(self, entries: TransactionIterator) -> Iterator[Any]:
        """What the view shows of entries."""

    def __iter__(self) -> Iterator[Any]:
        return self._shown(TransactionIterator(self._state, self._wanted, self._moment))

    def __reversed__(self) -> Iterator[Any]:
        wanted = self._wanted
        turned = Bounds(wanted.start, wanted.stop, wanted.prefix, not wanted.reverse)
        return self._shown(TransactionIterator(self._state, turned, self._moment))

    def value(self, key: object) -> bytes | None:
        """The value of ``key``; None if the range does not have it."""
        data = key_within(self._wanted, key)
        return None if data is None else self._state.get_at(data, self._moment)

    def __len__(self) -> int:
        """The number of entries.  O(n): scans them."""
        state, wanted = self._state, self._wanted
        state.check_usable()
        with state.lock:
            found = count(_scan(state, wanted.bounds(), self._moment), wanted)
            state.reads.add_range(wanted).is_whole = True
            return found

    def show_keys_only(self) -> None:
        """Whoever iterates needs no values."""
        self._wanted.needs_values = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._state.snapshot!r}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable(f"a {type(self).__name__}", "make a list, set or dict of what it shows")


class TransactionKeys(_RangeView, OrderedKeys[bytes]):
    """The keys of a range of a transaction, in order."""

    def __iter__(self) -> Iterator[bytes]:
        self.show_keys_only()
        return super().__iter__()

    def _shown(self, entries: TransactionIterator) -> Iterator[bytes]:
        return (key for key, _ in entries)


class TransactionValues(_RangeView, OrderedValues[bytes]):
    """The values of a range of a transaction, in key order."""

    def _shown(self, entries: TransactionIterator) -> Iterator[bytes]:
        return (value for _, value in entries)


class TransactionItems(_RangeView, OrderedItems[bytes, bytes]):
    """The items of a range of a transaction, in order."""

    def _shown(self, entries: TransactionIterator) -> Iterator[_Entry]:
        return entries


class TransactionCursor(Cursor):
    """Moves over a transaction's keys as they were: as ``lsmkv.Cursor``.

    The keys that it comes by count as read, and those between.
    """

    def __init__(self, state: TransactionState) -> None:
        moment = state.freeze()

        def scan(wanted: Bounds) -> Iterator[tuple[tuple[bytes, bytes]]]:
            """The entries of a range, one by one: what is fetched counts as read."""
            return zip(TransactionIterator(state, wanted, moment))

        super().__init__(state.snapshot._state.directory, scan, state.check_usable, state)


class Transaction(OrderedReader[bytes, bytes, Buffer, Buffer], MutableMapping[bytes, bytes]):
    """What ``DB.transaction`` begins: the store as it was then, with this transaction's own writes.

    Leaving the ``with`` block commits, through an exception discards.  Without ``with``, call ``commit``
    or ``close``.  It is for one thread at a time (ValueError).  Others may be open at the same time, also
    in the same thread; none sees what another has not committed.

    It remembers each key and range that it reads, and the writes in memory, in order.  While it is open,
    the store keeps the entries that it sees, and a record of the keys that others write, of up to 64 MiB.
    To iterate, or to ask for a length, reads a range as far as it comes: also keys that are not there.
    """

    _keys, _values, _items = TransactionKeys, TransactionValues, TransactionItems

    def __init__(self, readers: Readers, writer: Writer, sync: bool, owner: object) -> None:
        current, pin, place = writer.begin()
        self._readers = readers
        self._writer = writer
        self._sync = sync
        self._state = TransactionState(Snapshot(readers, current, pin, owner), place)
        self._lookup = self._state.get
        self._is_entered = False

    # Reading

    def _lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        return list(map(self._lookup, keys_bytes(keys)))

    def expires_at(self, key: Buffer) -> int | None:
        """When ``key`` goes, as for ``DB.expires_at``; it counts as read."""
        return self._state.expires_at(key)

    def cursor(self) -> TransactionCursor:
        """A cursor over what the transaction sees now, at no key."""
        return TransactionCursor(self._state)

    def prefixed(self, prefix: Buffer) -> PrefixedMapping:
        """The keys with ``prefix``, as a mapping that leaves it out."""
        from lsmkv.layers.prefixed import PrefixedMapping

        self._state.check_usable()
        return PrefixedMapping(self, prefix)

    # Writing

    def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
    ) -> None:
        """Set ``key`` to ``value`` when the transaction commits.

        ``ttl_s`` and ``expires_at`` are as for ``DB.put``, from now on.

        Raises:
            TypeError, ValueError: not a key or value, the writes would exceed 1 GiB, or another thread is
                using the transaction.
            ReadOnlyError: the store was opened with ``read_only=True``.
            ClosedError: the transaction has ended, or the store is closed.
        """
        data = key_bytes(key)
        held = self._writer.state.clock.held(value_bytes(value), ttl_s, expires_at)
        self._writer.state.check_for_writing()
        self._state.put(data, held)

    def touch(
        self, key: Buffer, *, ttl_s: float | None = None, expires_at: float | None = None
    ) -> bool:
        """Set anew when ``key`` goes; returns whether the transaction sees it.

        It counts as read, and its value is written again.  Arguments and errors as :meth:`put`.
        """
        due_s = self._writer.state.clock.expiry_s(ttl_s, expires_at)
        data = key_bytes(key)
        self._writer.state.check_for_writing()
        value = self._state.get(data)
        if value is None:
            return False
        self._state.put(data, expiring(value, due_s))
        return True

    def delete(self, key: Buffer) -> None:
        """Remove ``key`` when the transaction commits.  Raises as :meth:`put`."""
        data = key_bytes(key)
        self._writer.state.check_for_writing()
        self._state.put(data, None)

    def delete_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
    ) -> None:
        """Remove the keys of a range when the transaction commits.  Raises as :meth:`put`.

        Those that others put meanwhile go, too.  Arguments as for ``DB.delete_range``.
        """
        ranges = deleted_range(start, stop, prefix)
        self._writer.state.check_for_writing()
        for low, high in ranges:
            self._state.delete_range(low, high)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        """Remove ``key``; KeyError when it is not there.  (``delete`` does not look it up.)"""
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def popitem(self, *, prefix: Buffer = b"") -> tuple[bytes, bytes]:
        """Remove the first key with ``prefix``, and return it with its value; KeyError without one.

        Of two transactions that pop the same entry, one gets a ConflictError.
        """
        for key, value in self.items(prefix=prefix):
            self.delete(key)
            return key, value
        raise KeyError("popitem(): there is no such key")

    def clear(self) -> None:
        """Remove every key when the transaction commits."""
        self.delete_range(b"")

    # The end

    def commit(self) -> None:
        """Write everything in one step, if what was read is unchanged.

        A transaction that wrote nothing commits always: what it read was true when it began.

        Raises:
            ConflictError: a key that was read was written since, or one came into, or went from, a range
                that was read.  Nothing was written.
            OSError, BackgroundError, ReadOnlyError, ClosedError: as ``DB.put``.
        """
        state = self._state
        state.check_usable()
        with state.lock:
            state.check_not_ended()  # just now, by another thread
            try:
                self._commit(state)
            finally:
                state.end()

    def _commit(self, state: TransactionState) -> None:
        place, reads = state.place, state.reads
        ranges, operations = state.writes()
        if not (operations or ranges) or place is None:
            return
        reads.check(place)  # most of it, before writers have to wait

        def check() -> None:
            reads.check(place)
            state.snapshot.close()  # so that the write need not keep what it replaces

        if ranges:
            delete_ranges(self._readers, self._writer, ranges, operations, self._sync, check)
        else:
            self._writer.write_batch(operations, self._sync, check)

    def close(self) -> None:
        """Discard the writes unless they are committed.  A second call does nothing.

        ValueError: another thread is using the transaction.
        """
        self._state.check_not_in_use()
        with self._state.lock:
            self._state.end()

    @property
    def closed(self) -> bool:
        """Whether the transaction was committed or discarded."""
        return self._state.place is None

    def __enter__(self) -> Self:
        """ClosedError once it has ended; RuntimeError: it was entered before."""
        self._state.check_usable()
        if self._is_entered:
            raise RuntimeError(
                "the transaction was entered already, and the end of that 'with' block commits it: "
                "pass the transaction on, or begin another with DB.transaction()"
            )
        self._is_entered = True
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None and not self.closed:
                self.commit()
        finally:
            self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Transaction", "begin another with DB.transaction()")

    def __repr__(self) -> str:
        return f"<lsmkv.Transaction of {self._writer.state.directory!r}, {self._shown_state()}>"

    def _repr_html_(self) -> str:
        return state_table(self, self._writer.state.directory, self._shown_state())

    def _shown_state(self) -> str:
        if self.closed:
            return "committed or discarded"
        ranges, operations = self._state.writes()
        count = len(ranges) + len(operations)
        return f"{count} write{'' if count == 1 else 's'}"
