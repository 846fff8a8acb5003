"""Transactions: reads and writes that take effect together, as if nothing came in between.

A transaction reads the store as it was when it began, and keeps its writes to itself.  Committing takes
the store's mutex, asks whether anything that was read has been written since, and writes all or nothing.
No reader or writer ever waits for a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, overload

from lsmkv.api.snapshot import Snapshot
from lsmkv.api.transaction_cursor import TransactionCursor
from lsmkv.api.transaction_ranges import (
    TransactionItems,
    TransactionKeys,
    TransactionState,
    TransactionValues,
)
from lsmkv.encoding.entries import Buffer, key_bytes, keys_bytes, value_bytes
from lsmkv.engine.engine import Engine
from lsmkv.errors import uncopyable

if TYPE_CHECKING:
    from lsmkv.layers.prefixed import PrefixedMapping

_T = TypeVar("_T")


class Transaction(MutableMapping[bytes, bytes]):
    """What ``DB.transaction`` begins: the store as it was then, with this transaction's own writes.

    Leaving the ``with`` block commits, through an exception discards.  Without ``with``, call ``commit``
    or ``close``.  It is for one thread at a time (ValueError).  Others may be open at the same time, also
    in the same thread; none sees what another has not committed.

    It remembers each key and range that it reads, and the writes in memory, in order.  While it is open,
    the store keeps the entries that it sees, and a record of the keys that others write, of up to 64 MiB.
    """

    def __init__(self, engine: Engine, sync: bool, owner: object) -> None:
        current, pin, place = engine.begin()
        self._engine = engine
        self._sync = sync
        self._state = TransactionState(Snapshot(engine, current, pin, owner), place)
        self._is_entered = False

    # Reading

    @overload
    def get(self, key: Buffer, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Buffer, default: _T) -> bytes | _T: ...
    def get(self, key: Buffer, default: object = None) -> object:
        """The value of ``key``, or ``default`` when it is not there.

        Raises:
            TypeError, ValueError: not a key; or another thread is using the transaction.
            ClosedError: the transaction has ended, or the store is closed.
            CorruptionError: a block that the lookup read is damaged.
        """
        value = self._state.get(key_bytes(key))
        return default if value is None else value

    def __getitem__(self, key: Buffer) -> bytes:
        value = self._state.get(key_bytes(key))
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._state.get(key_bytes(key)) is not None

    def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The value of each key, in order, or None.  Raises as :meth:`get`."""
        return list(map(self._state.get, keys_bytes(keys)))

    def keys(
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> TransactionKeys:
        """The keys between ``start`` and ``stop`` with ``prefix``, in order.

        Args:
            start, stop, prefix: start <= key < stop; None sets no bound.
            reverse: in descending order instead.

        Returns:
            A view of what the transaction sees now, unchanged by what it writes later.  An iterator
            counts as reading the range as far as it comes: also keys that are not there.
        """
        return TransactionKeys(self._state, start, stop, prefix, reverse)

    def values(
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> TransactionValues:
        """The values of the keys that :meth:`keys` returns, in their order."""
        return TransactionValues(self._state, start, stop, prefix, reverse)

    def items(
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> TransactionItems:
        """The keys that :meth:`keys` returns, each with its value."""
        return TransactionItems(self._state, start, stop, prefix, reverse)

    def cursor(self) -> TransactionCursor:
        """A cursor over what the transaction sees now, at no key."""
        return TransactionCursor(self._state)

    def prefixed(self, prefix: Buffer) -> PrefixedMapping:
        """The keys with ``prefix``, as a mapping that leaves it out."""
        from lsmkv.layers.prefixed import PrefixedMapping

        self._state.check_usable()
        return PrefixedMapping(self, prefix)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self.keys())

    def __len__(self) -> int:
        """The number of keys.  O(n): scans, and so reads, all."""
        return len(self.keys())

    def __bool__(self) -> bool:
        """Whether there is any key.  Looks for the first only."""
        return next(iter(self), None) is not None

    # Writing

    def put(self, key: Buffer, value: Buffer) -> None:
        """Set ``key`` to ``value`` when the transaction commits.

        Raises:
            TypeError, ValueError: not a key or value, the writes would exceed 1 GiB, or another thread is
                using the transaction.
            ReadOnlyError: the store was opened with ``read_only=True``.
            ClosedError: the transaction has ended, or the store is closed.
        """
        data, content = key_bytes(key), value_bytes(value)
        self._engine.check_for_writing()
        self._state.put(data, content)

    def delete(self, key: Buffer) -> None:
        """Remove ``key`` when the transaction commits.  Raises as :meth:`put`."""
        data = key_bytes(key)
        self._engine.check_for_writing()
        self._state.put(data, None)

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
        """Remove every key that is there."""
        for key in self.keys():
            self.delete(key)

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
        operations = state.own.operations()
        if not operations or place is None:
            return
        reads.check(place)  # most of it, before writers have to wait

        def check() -> None:
            reads.check(place)
            state.snapshot.close()  # so that the write need not keep what it replaces

        self._engine.write_batch(operations, self._sync, check)

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
        return f"<lsmkv.Transaction of {self._engine.directory!r}, {self._shown_state()}>"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import table

        return table(
            "lsmkv.Transaction",
            [("store", repr(self._engine.directory)), ("state", self._shown_state())],
        )

    def _shown_state(self) -> str:
        if self.closed:
            return "committed or discarded"
        count = len(self._state.own)
        return f"{count} write{'' if count == 1 else 's'}"
