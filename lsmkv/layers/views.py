"""Views of ranges: what those of all mappings share, and those that a layer shows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import (
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Set,
    Sized,
    ValuesView,
)
from typing import TYPE_CHECKING, Any, Generic

from lsmkv.html import table
from lsmkv.layers.coding import Coding, K, V

# Views by registration: the slot of those in collections.abc does not fit onto a compiled class.
if TYPE_CHECKING:
    _Keys = KeysView
    _Values = ValuesView
    _Items = ItemsView
else:
    _Keys, _Values, _Items = Set, Collection, Set


class OrderedKeys(_Keys[K]):
    """The keys of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    @abstractmethod
    def __reversed__(self) -> Iterator[K]: ...

    @abstractmethod
    def value(self, key: object) -> Any:
        """The value of ``key``; None if the range does not have it."""

    _from_iterable = set  # what ``&`` and the like make

    def __contains__(self, key: object) -> bool:
        return self.value(key) is not None


class OrderedValues(_Values[V]):
    """The values of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    @abstractmethod
    def __reversed__(self) -> Iterator[V]: ...

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)


class OrderedItems(_Items[K, V]):
    """The items of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    @abstractmethod
    def __reversed__(self) -> Iterator[tuple[K, V]]: ...

    @abstractmethod
    def value(self, key: object) -> V | None:
        """The value of ``key``; None if the range does not have it."""

    _from_iterable = set

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        value = self.value(item[0])
        return value is not None and bool(value == item[1])


KeysView.register(OrderedKeys)  # type: ignore[type-abstract]
ValuesView.register(OrderedValues)  # type: ignore[type-abstract]
ItemsView.register(OrderedItems)  # type: ignore[type-abstract]


class MappedView(Generic[K, V]):
    """A range of entries below, and how ``reader`` decodes them."""

    def __init__(self, reader: Any, start: Any, stop: Any, prefix: Any, reverse: bool) -> None:
        self._coding: Coding[K, V, Any, Any] = reader._coding
        # A view as ``DB.items`` returns, or any other iterable of pairs.
        self._below: Any = reader._range(start, stop, prefix, reverse)

    @abstractmethod
    def _decoded(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[Any]:
        """Decode entries from below."""

    def __iter__(self) -> Iterator[Any]:
        return self._decoded(iter(self._below))

    def __reversed__(self) -> Iterator[Any]:
        return self._decoded(reversed(self._below))

    def __len__(self) -> int:
        """The number of entries.  O(n): scans them."""
        if isinstance(self._below, Sized):
            return len(self._below)
        return sum(1 for _ in self._below)

    def show_keys_only(self) -> None:
        """Whoever iterates needs no values."""
        tell = getattr(self._below, "show_keys_only", None)
        if tell is not None:  # a view, and no other iterable
            tell()

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
        found = look_up(data)
        return None if found is None else (data, found)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._below!r}>"

    def _repr_html_(self) -> str:
        return table(f"lsmkv {type(self).__name__}", [("of", repr(self._below))])


class MappedKeys(MappedView[K, Any], OrderedKeys[K]):
    """The keys of a range, in order.  ``len`` scans."""

    def __iter__(self) -> Iterator[K]:
        self.show_keys_only()
        return super().__iter__()

    def _decoded(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[K]:
        key_of = self._coding.decode_key
        return (key_of(key) for key, _ in entries)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None


class MappedValues(MappedView[Any, V], OrderedValues[V]):
    """The values of a range, in order.  ``len`` scans."""

    def _decoded(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[V]:
        value_of = self._coding.decode_value
        return (value_of(key, value) for key, value in entries)


class MappedItems(MappedView[K, V], OrderedItems[K, V]):
    """The items of a range, in order.  ``len`` scans."""

    def _decoded(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        key_of, value_of = self._coding.decode_key, self._coding.decode_value
        return ((key_of(key), value_of(key, value)) for key, value in entries)

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        found = self._find(item[0])
        return found is not None and bool(self._coding.decode_value(*found) == item[1])
