"""Views of ranges, as a layer shows them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Sized, ValuesView
from typing import Any, Generic

from lsmkv.layers.coding import Coding, K, V


class MappedView(Generic[K, V]):
    """A range of entries below, and how to decode them.

    ``below`` is a view as ``DB.items`` returns, or any other iterable of pairs.
    """

    def __init__(
        self, below: Iterable[tuple[bytes, bytes]], coding: Coding[K, V, Any, Any]
    ) -> None:
        self._below = below
        self._coding = coding

    def __len__(self) -> int:
        """The number of entries.  O(n): scans them."""
        if isinstance(self._below, Sized):
            return len(self._below)
        return sum(1 for _ in self._below)

    def value(self, key: object) -> V | None:
        """The value of ``key``; None if the range does not have it."""
        found = self._find(key)
        return None if found is None else self._coding.decode_value(*found)

    def _find(self, key: object) -> tuple[bytes, bytes] | None:
        """The entry of ``key`` below; None if the range does not have it."""
        try:
            data = self._coding.encode_key(key)
        except (TypeError, ValueError):
            return None
        look_up = getattr(self._below, "value", None)
        if look_up is None:  # some other iterable than a view
            return next((entry for entry in self._below if entry[0] == data), None)
        found: bytes | None = look_up(data)
        return None if found is None else (data, found)

    def _entries(self) -> Iterator[tuple[K, V]]:
        key_of, value_of = self._coding.decode_key, self._coding.decode_value
        for key, value in self._below:
            yield key_of(key), value_of(key, value)

    def _entries_reversed(self) -> Iterator[tuple[bytes, bytes]]:
        below: Any = self._below
        entries: Iterator[tuple[bytes, bytes]] = reversed(below)
        return entries

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._below!r}>"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import of_mapped

        return of_mapped(f"lsmkv {type(self).__name__}", self._below)


class MappedKeys(MappedView[K, Any], KeysView[K]):
    """The keys of a range, in order.  ``len`` scans."""

    def __iter__(self) -> Iterator[K]:
        key_of = self._coding.decode_key
        return (key_of(key) for key, _ in self._below)

    def __reversed__(self) -> Iterator[K]:
        key_of = self._coding.decode_key
        return (key_of(key) for key, _ in self._entries_reversed())

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None


class MappedValues(MappedView[Any, V], ValuesView[V]):
    """The values of a range, in order.  ``len`` scans."""

    def __iter__(self) -> Iterator[V]:
        value_of = self._coding.decode_value
        return (value_of(key, value) for key, value in self._below)

    def __reversed__(self) -> Iterator[V]:
        value_of = self._coding.decode_value
        return (value_of(key, value) for key, value in self._entries_reversed())

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)


class MappedItems(MappedView[K, V], ItemsView[K, V]):
    """The items of a range, in order.  ``len`` scans."""

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._entries()

    def __reversed__(self) -> Iterator[tuple[K, V]]:
        key_of, value_of = self._coding.decode_key, self._coding.decode_value
        return ((key_of(key), value_of(key, value)) for key, value in self._entries_reversed())

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        found = self._find(item[0])
        return found is not None and bool(self._coding.decode_value(*found) == item[1])
