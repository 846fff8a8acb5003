"""A cursor moves over keys in either direction."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NoReturn, Self, SupportsIndex

from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.errors import ClosedError, CursorError, uncopyable
from lsmkv.html import key_text, state_table
from lsmkv.layers.peers import KnowsPeers, not_iterable, own_names, tells_names_of_cursors
from lsmkv.read.bounds import Bounds

_KEY: Final = itemgetter(0)
_Entries = Sequence[tuple[bytes, bytes]]
_Scan = Iterator[_Entries]


@tells_names_of_cursors
class Cursor(metaclass=KnowsPeers):
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

    def __init__(
        self,
        path: str,
        scan: Callable[[Bounds], _Scan],
        check_owner: Callable[[], object],
        owner: object,
    ) -> None:
        self._owner = owner  # keeps the store open while the cursor lives
        self._check_owner = check_owner  # raises unless the owner is open
        self._path = path
        self._scan: Callable[[Bounds], _Scan] | None = scan  # None once the cursor is closed
        self._entries: _Entries = ()  # some entries in order, with that of the cursor
        self._at = 0  # its position among them
        self._is_moving = False
        # The scans of the entries above and below these, once the cursor needs them.
        self._above: _Scan | None = None
        self._below: _Scan | None = None

    # Moving

    def seek(self, key: Buffer) -> bool:
        """Go to the first key at or above ``key``."""
        wanted = key_bytes(key)
        if self._spans(wanted):
            self._at = bisect_left(self._entries, wanted, key=_KEY)
            return True
        return self._start(Bounds(start=wanted))

    def seek_for_prev(self, key: Buffer) -> bool:
        """Go to the last key at or below ``key``."""
        wanted = key_bytes(key)
        if self._spans(wanted):
            self._at = bisect_right(self._entries, wanted, key=_KEY) - 1
            return True
        return self._start(Bounds(stop=wanted + b"\0", reverse=True))

    def _spans(self, key: bytes) -> bool:
        """Whether the entries at hand reach from below ``key`` to above it."""
        self._check_open()
        entries = self._entries
        return len(entries) > 0 and entries[0][0] <= key <= entries[-1][0]

    def first(self) -> bool:
        """Go to the first key."""
        return self._start(Bounds())

    def last(self) -> bool:
        """Go to the last key."""
        return self._start(Bounds(reverse=True))

    def next(self) -> bool:
        """Go to the next key above."""
        return self._move(1)

    def prev(self) -> bool:
        """Go to the next key below."""
        return self._move(-1)

    def _move(self, step: int) -> bool:
        self._check_open()
        entries, at = self._entries, self._at
        if not 0 <= at < len(entries):
            return False
        self._at = at + step
        if 0 <= self._at < len(entries):
            return True
        if step > 0:
            scan = self._above or self._begin(Bounds(start=entries[-1][0] + b"\0"))
        else:
            scan = self._below or self._begin(Bounds(stop=entries[0][0], reverse=True))
        return self._follow(scan, step < 0)

    def _start(self, wanted: Bounds) -> bool:
        self._check_open()
        return self._follow(self._begin(wanted), wanted.reverse)

    def _follow(self, scan: _Scan, reverse: bool) -> bool:
        """Go to the next entries of a scan; other threads may run meanwhile."""
        self._above, self._below = (None, scan) if reverse else (scan, None)
        try:
            self._is_moving = True
            entries = next(scan, ())
        finally:
            self._is_moving = False
        if reverse:
            self._entries, self._at = entries[::-1], len(entries) - 1
        else:
            self._entries, self._at = entries, 0
        return len(entries) > 0

    def _begin(self, wanted: Bounds) -> _Scan:
        scan = self._scan
        if scan is None:  # closed just now, by another thread
            raise ClosedError("the cursor is closed")
        return scan(wanted)

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

    def __iter__(self) -> NoReturn:
        raise not_iterable(self)

    def __dir__(self) -> list[str]:
        return own_names(type(self), super().__dir__())

    # The end

    def _check_open(self) -> None:
        if self._scan is None:
            raise ClosedError("the cursor is closed")
        if self._is_moving:
            raise ValueError(
                "the cursor is being moved already, by another thread or from inside itself: "
                "let each thread make a cursor of its own"
            )
        self._check_owner()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._scan is None

    def close(self) -> None:
        """End the cursor, so that the store may drop old entries.  A second call does nothing."""
        self._scan = self._above = self._below = None
        self._entries = ()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Cursor", "make another with cursor(), and seek the key of this one")

    def _state(self) -> str:
        entries, at = self._entries, self._at
        if self._scan is None:
            return "closed"
        return f"at {key_text(entries[at][0])}" if 0 <= at < len(entries) else "at no key"

    def __repr__(self) -> str:
        return f"<lsmkv.{type(self).__name__} of {self._path!r}, {self._state()}>"

    def _repr_html_(self) -> str:
        return state_table(self, self._path, self._state())
