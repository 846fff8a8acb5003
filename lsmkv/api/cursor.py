"""A cursor moves over keys in either direction."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, Self, SupportsIndex

from lsmkv.api.ranges import key_text
from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.engine.engine import Engine
from lsmkv.errors import ClosedError, Error, uncopyable
from lsmkv.read.scan import Bounds, Scan
from lsmkv.read.view import ReadView

_KEY: Final = itemgetter(0)
_Entries = list[tuple[bytes, bytes]]


class CursorError(Error):
    """The cursor is at no key: it was never moved, or moved past an end."""


class Cursor:
    """Moves over a store's keys as they were when it was made.

    Each move returns whether the cursor is at a key afterwards.  Past either end it is at none, and
    ``next`` and ``prev`` leave it there.  A cursor is for one thread at a time (ValueError).

    >>> import lsmkv, tempfile
    >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
    ...     db.update({b"a": b"1", b"c": b"3"})
    ...     with db.cursor() as cursor:
    ...         cursor.seek(b"b"), cursor.item, cursor.prev(), cursor.key, cursor.prev()
    (True, (b'c', b'3'), True, b'a', False)
    """

    def __init__(self, engine: Engine, read_view: ReadView, owner: object) -> None:
        self._owner = owner  # keeps the store open while the cursor lives
        self._engine = engine
        self._read_view: ReadView | None = read_view  # None once the cursor is closed
        self._entries: _Entries = []  # some entries in order, with that of the cursor
        self._at = 0  # its position among them
        self._is_moving = False
        # The scans of the entries above and below these, once the cursor needs them.
        self._above: Iterator[_Entries] | None = None
        self._below: Iterator[_Entries] | None = None

    # Moving

    def seek(self, key: Buffer) -> bool:
        """Go to the first key at or above ``key``."""
        wanted = key_bytes(key)
        entries = self._entries
        if entries and entries[0][0] <= wanted <= entries[-1][0]:
            self._check_open()
            self._at = bisect_left(entries, wanted, key=_KEY)
            return True
        return self._start_up(Bounds(start=wanted))

    def seek_for_prev(self, key: Buffer) -> bool:
        """Go to the last key at or below ``key``."""
        wanted = key_bytes(key)
        entries = self._entries
        if entries and entries[0][0] <= wanted <= entries[-1][0]:
            self._check_open()
            self._at = bisect_right(entries, wanted, key=_KEY) - 1
            return True
        return self._start_down(Bounds(stop=wanted + b"\0", reverse=True))

    def first(self) -> bool:
        """Go to the first key."""
        return self._start_up(Bounds())

    def last(self) -> bool:
        """Go to the last key."""
        return self._start_down(Bounds(reverse=True))

    def next(self) -> bool:
        """Go to the next key above."""
        self._check_open()
        if not self.valid:
            return False
        self._at += 1
        if self._at < len(self._entries):
            return True
        if self._above is None:
            self._above = self._scan(Bounds(start=self._entries[-1][0] + b"\0"))
        self._below = None
        return self._take(self._fetched(self._above), 0)

    def prev(self) -> bool:
        """Go to the next key below."""
        self._check_open()
        if not self.valid:
            return False
        self._at -= 1
        if self._at >= 0:
            return True
        if self._below is None:
            self._below = self._scan(Bounds(stop=self._entries[0][0], reverse=True))
        self._above = None
        return self._take_below(self._below)

    def _start_up(self, wanted: Bounds) -> bool:
        self._check_open()
        self._above, self._below = self._scan(wanted), None
        return self._take(self._fetched(self._above), 0)

    def _start_down(self, wanted: Bounds) -> bool:
        self._check_open()
        self._above, self._below = None, self._scan(wanted)
        return self._take_below(self._below)

    def _take_below(self, below: Iterator[_Entries]) -> bool:
        entries = self._fetched(below)
        entries.reverse()  # the scan goes downwards
        return self._take(entries, len(entries) - 1)

    def _fetched(self, scan: Iterator[_Entries]) -> _Entries:
        """The next entries of a scan; other threads may run meanwhile."""
        try:
            self._is_moving = True
            return next(scan, [])
        finally:
            self._is_moving = False

    def _take(self, entries: _Entries, at: int) -> bool:
        self._entries, self._at = entries, at
        return bool(entries)

    def _scan(self, wanted: Bounds) -> Iterator[_Entries]:
        read_view = self._read_view
        if read_view is None:  # closed just now, by another thread
            raise ClosedError("the cursor is closed")
        return Scan(read_view, wanted)

    # Looking

    @property
    def valid(self) -> bool:
        """Whether the cursor is at a key."""
        return 0 <= self._at < len(self._entries)

    @property
    def item(self) -> tuple[bytes, bytes]:
        """The key and the value at the cursor.  CursorError: it is at no key."""
        self._check_open()
        if not self.valid:
            raise CursorError("the cursor is at no key; move it with seek, first or last")
        return self._entries[self._at]

    @property
    def key(self) -> bytes:
        """The key at the cursor; raises as :attr:`item`."""
        return self.item[0]

    @property
    def value(self) -> bytes:
        """The value at the cursor; raises as :attr:`item`."""
        return self.item[1]

    # The end

    def _check_open(self) -> None:
        if self._read_view is None:
            raise ClosedError("the cursor is closed")
        if self._is_moving:
            raise ValueError(
                "the cursor is being moved already, by another thread or from inside itself: "
                "let each thread make a cursor of its own"
            )
        self._engine.require_open()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._read_view is None

    def close(self) -> None:
        """End the cursor, so that the store may drop old entries.  A second call does nothing."""
        self._read_view = self._above = self._below = None
        self._entries = []

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Cursor", "make another with cursor(), and seek the key of this one")

    def _state(self) -> str:
        entries, at = self._entries, self._at
        state = "at no key"
        if self._read_view is None:
            state = "closed"
        elif 0 <= at < len(entries):
            state = f"at {key_text(entries[at][0])}"
        return state

    def __repr__(self) -> str:
        return f"<lsmkv.Cursor of {self._engine.directory!r}, {self._state()}>"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import table

        return table(
            "lsmkv.Cursor", [("store", repr(self._engine.directory)), ("state", self._state())]
        )
