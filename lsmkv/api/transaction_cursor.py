"""A cursor over what a transaction sees."""

from __future__ import annotations

from typing import Any, Self, SupportsIndex

from lsmkv.api.cursor import CursorError
from lsmkv.api.transaction_ranges import TransactionIterator, TransactionState
from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.read.scan import Bounds


class TransactionCursor:
    """Moves over a transaction's keys as they were when it was made: ``lsmkv.Cursor``.

    Each move returns whether the cursor is at a key afterwards.  Past either end it is at none, and
    ``next`` and ``prev`` leave it there.  The keys that it comes by count as read, and those between.
    """

    def __init__(self, state: TransactionState) -> None:
        state.check_usable()
        self._state: TransactionState | None = state  # None once the cursor is closed
        self._moment = state.own.freeze()
        self._item: tuple[bytes, bytes] | None = None
        # The iterators above and below the cursor, once it needs them.
        self._above: TransactionIterator | None = None
        self._below: TransactionIterator | None = None

    # Moving

    def seek(self, key: Buffer) -> bool:
        """Go to the first key at or above ``key``."""
        return self._start(Bounds(start=key_bytes(key)))

    def seek_for_prev(self, key: Buffer) -> bool:
        """Go to the last key at or below ``key``."""
        return self._start(Bounds(stop=key_bytes(key) + b"\0", reverse=True))

    def first(self) -> bool:
        """Go to the first key."""
        return self._start(Bounds())

    def last(self) -> bool:
        """Go to the last key."""
        return self._start(Bounds(reverse=True))

    def next(self) -> bool:
        """Go to the next key above."""
        self._open()
        if self._item is None:
            return False
        if self._above is None:
            self._above = self._iterate(Bounds(start=self._item[0] + b"\0"))
        self._below = None
        return self._go(self._above)

    def prev(self) -> bool:
        """Go to the next key below."""
        self._open()
        if self._item is None:
            return False
        if self._below is None:
            self._below = self._iterate(Bounds(stop=self._item[0], reverse=True))
        self._above = None
        return self._go(self._below)

    def _start(self, wanted: Bounds) -> bool:
        entries = self._iterate(wanted)
        self._above, self._below = (None, entries) if wanted.reverse else (entries, None)
        return self._go(entries)

    def _iterate(self, wanted: Bounds) -> TransactionIterator:
        return TransactionIterator(self._open(), wanted, self._moment)

    def _go(self, entries: TransactionIterator) -> bool:
        self._item = next(entries, None)
        return self._item is not None

    def _open(self) -> TransactionState:
        state = self._state
        if state is None:
            raise ClosedError("the cursor is closed")
        state.check_usable()
        return state

    # Looking

    @property
    def valid(self) -> bool:
        """Whether the cursor is at a key."""
        return self._item is not None

    @property
    def item(self) -> tuple[bytes, bytes]:
        """The key and the value at the cursor.  CursorError: it is at no key."""
        self._open()
        if self._item is None:
            raise CursorError("the cursor is at no key; move it with seek, first or last")
        return self._item

    @property
    def key(self) -> bytes:
        """The key at the cursor; raises as :attr:`item`."""
        return self.item[0]

    @property
    def value(self) -> bytes:
        """The value at the cursor; raises as :attr:`item`."""
        return self.item[1]

    # The end

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._state is None

    def close(self) -> None:
        """End the cursor.  A second call does nothing."""
        self._state = self._item = self._above = self._below = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a cursor", "make another with cursor(), and seek the key of this one")

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"at {self._item[0]!r}" if self._item else "at no key"
        return f"<lsmkv.TransactionCursor {where}>"
