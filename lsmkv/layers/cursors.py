"""A cursor over the keys that a layer shows."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, Self

from lsmkv.encoding.entries import prefix_successor
from lsmkv.errors import ClosedError, CursorError
from lsmkv.layers.coding import Coding, K, KeyIn, V
from lsmkv.layers.peers import KnowsPeers, not_iterable, own_names, tells_names_of_cursors


@tells_names_of_cursors
class MappedCursor(Generic[K, V, KeyIn], metaclass=KnowsPeers):
    """Moves over a layer's keys as they were: as ``lsmkv.Cursor``."""

    def __init__(self, below: Any, coding: Coding[K, V, KeyIn, Any]) -> None:
        self._below = below
        self._coding = coding
        self._prefix = coding.encode_range(None, None, None)[2] or b""
        self._inside = False  # whether the cursor below is at a key of the layer

    # Moving

    def seek(self, key: KeyIn | tuple[Any, ...]) -> bool:
        """Go to the first key at or above ``key``."""
        return self._at(self._below.seek(self._coding.encode_bound(key)))

    def seek_for_prev(self, key: KeyIn | tuple[Any, ...]) -> bool:
        """Go to the last key at or below ``key``."""
        return self._at(self._below.seek_for_prev(self._coding.encode_bound(key)))

    def first(self) -> bool:
        """Go to the first key."""
        return self._at(self._below.seek(self._prefix))

    def last(self) -> bool:
        """Go to the last key."""
        end = prefix_successor(self._prefix)
        if end is None:
            return self._at(self._below.last())
        found = self._below.seek_for_prev(end)
        if found and self._below.key == end:
            found = self._below.prev()
        return self._at(found)

    def next(self) -> bool:
        """Go to the next key above."""
        return self._at(self._below.next()) if self.valid else self._nowhere()

    def prev(self) -> bool:
        """Go to the next key below."""
        return self._at(self._below.prev()) if self.valid else self._nowhere()

    def _at(self, found: bool) -> bool:
        self._inside = found and self._below.key.startswith(self._prefix)
        return self._inside

    def _nowhere(self) -> bool:
        if self._below.closed:
            raise ClosedError("the cursor is closed")
        return False

    # Looking

    @property
    def valid(self) -> bool:
        """Whether the cursor is at a key."""
        return self._inside and bool(self._below.valid)

    def _entry(self) -> tuple[bytes, bytes]:
        if not self.valid and not self._nowhere():
            raise CursorError("the cursor is at no key; move it with seek, first or last")
        entry: tuple[bytes, bytes] = self._below.item
        return entry

    @property
    def item(self) -> tuple[K, V]:
        """The key and the value at the cursor.  CursorError: it is at no key."""
        key, value = self._entry()
        return self._coding.decode_key(key), self._coding.decode_value(key, value)

    @property
    def key(self) -> K:
        """The key at the cursor; raises as :attr:`item`."""
        return self._coding.decode_key(self._entry()[0])

    @property
    def value(self) -> V:
        """The value at the cursor; raises as :attr:`item`."""
        return self._coding.decode_value(*self._entry())

    def __iter__(self) -> NoReturn:
        raise not_iterable(self)

    def __dir__(self) -> list[str]:
        return own_names(type(self), super().__dir__())

    # The end

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return bool(self._below.closed)

    def close(self) -> None:
        """End the cursor, so that the store may drop old entries.  A second call does nothing."""
        self._below.close()

    def __enter__(self) -> Self:
        self._below.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._below!r}>"
