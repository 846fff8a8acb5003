"""Mappings over a store, snapshot or transaction, translated by a coding.

``DB.prefixed`` and ``lsmkv.typed`` differ only in their coding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Generic, Self, TypeVar, overload

from lsmkv.layers.coding import Coding, K, KeyIn, Readable, ReadWritable, V, ValueIn
from lsmkv.layers.cursors import MappedCursor
from lsmkv.layers.views import MappedItems, MappedKeys, MappedValues

_T = TypeVar("_T")


class MappedReader(Mapping[K, V], Generic[K, V, KeyIn, ValueIn]):
    """The reading part."""

    def __init__(self, below: Readable, coding: Coding[K, V, KeyIn, ValueIn]) -> None:
        self._below: Any = below
        self._coding = coding

    @overload  # type: ignore[override]  # KeyIn holds every K
    def get(self, key: KeyIn, default: None = None) -> V | None: ...
    @overload
    def get(self, key: KeyIn, default: _T) -> V | _T: ...
    def get(self, key: KeyIn, default: object = None) -> object:
        """The value of ``key``, or ``default`` when it is not there.

        TypeError or ValueError: not a key.  Other errors as those of the store.
        """
        data = self._coding.encode_key(key)
        value = self._below.get(data)
        return default if value is None else self._coding.decode_value(data, value)

    def __getitem__(self, key: KeyIn) -> V:  # type: ignore[override]  # KeyIn holds every K
        data = self._coding.encode_key(key)
        value = self._below.get(data)
        if value is None:
            raise KeyError(key)
        return self._coding.decode_value(data, value)

    def __contains__(self, key: object) -> bool:
        data = self._coding.encode_key(key)  # type: ignore[arg-type]  # raises TypeError itself
        return self._below.get(data) is not None

    def multi_get(self, keys: Iterable[KeyIn]) -> list[V | None]:
        """The value of each key, in order, or None.  Raises as :meth:`get`."""
        if isinstance(keys, (bytes, bytearray, memoryview, str)):
            raise TypeError(
                f"keys is an iterable of keys, not one key: put the {type(keys).__name__} into a list"
            )
        coding = self._coding
        wanted = [coding.encode_key(key) for key in keys]
        look_up = getattr(self._below, "multi_get", None)  # a transaction may have none
        found = map(self._below.get, wanted) if look_up is None else look_up(wanted)
        return [
            None if value is None else coding.decode_value(data, value)
            for data, value in zip(wanted, found, strict=True)
        ]

    def _range(self, start: Any, stop: Any, prefix: Any, reverse: bool) -> Any:
        """The items of a range below."""
        low, high, head = self._coding.encode_range(start, stop, prefix)
        return self._below.items(start=low, stop=high, prefix=head, reverse=reverse)

    def keys(
        self,
        *,
        start: KeyIn | tuple[Any, ...] | None = None,
        stop: KeyIn | tuple[Any, ...] | None = None,
        prefix: KeyIn | tuple[Any, ...] | None = None,
        reverse: bool = False,
    ) -> MappedKeys[K]:
        """The keys between ``start`` and ``stop`` with ``prefix``, in order.

        Args:
            start, stop, prefix: start <= key < stop; None sets no bound.
            reverse: in descending order instead.

        Returns:
            A view, as that of ``DB.keys``: later writes to a store do not change it.
        """
        return MappedKeys(self._range(start, stop, prefix, reverse), self._coding)

    def values(
        self,
        *,
        start: KeyIn | tuple[Any, ...] | None = None,
        stop: KeyIn | tuple[Any, ...] | None = None,
        prefix: KeyIn | tuple[Any, ...] | None = None,
        reverse: bool = False,
    ) -> MappedValues[V]:
        """The values of the keys that :meth:`keys` returns, in their order."""
        return MappedValues(self._range(start, stop, prefix, reverse), self._coding)

    def items(
        self,
        *,
        start: KeyIn | tuple[Any, ...] | None = None,
        stop: KeyIn | tuple[Any, ...] | None = None,
        prefix: KeyIn | tuple[Any, ...] | None = None,
        reverse: bool = False,
    ) -> MappedItems[K, V]:
        """The keys that :meth:`keys` returns, each with its value."""
        return MappedItems(self._range(start, stop, prefix, reverse), self._coding)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[K]:
        return iter(self.keys(reverse=True))

    def __len__(self) -> int:
        """The number of keys.  O(n): scans all."""
        return len(self.keys())

    def __bool__(self) -> bool:
        """Whether there is any key.  Looks for the first only, and decodes nothing."""
        return next(iter(self._range(None, None, None, False)), None) is not None


class MappedSnapshot(MappedReader[K, V, KeyIn, ValueIn]):
    """The reading part, of a snapshot; end it with ``close`` or ``with``."""

    def cursor(self) -> MappedCursor[K, V, KeyIn]:
        """A cursor over the keys of the snapshot, at no key."""
        return MappedCursor(self._below.cursor(), self._coding)

    @property
    def sequence_number(self) -> int:
        """The number of the last write that the snapshot sees."""
        number: int = self._below.sequence_number
        return number

    @property
    def closed(self) -> bool:
        """Whether the snapshot is closed."""
        closed: bool = self._below.closed
        return closed

    def close(self) -> None:
        """End the snapshot itself, also for others that read it."""
        self._below.close()

    def __enter__(self) -> Self:
        self._below.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class MappedStore(MappedReader[K, V, KeyIn, ValueIn], MutableMapping[K, V]):
    """Reading and writing, of anything that has ``get``, ``items``, ``put`` and ``delete``."""

    def __init__(self, below: ReadWritable, coding: Coding[K, V, KeyIn, ValueIn]) -> None:
        super().__init__(below, coding)

    def cursor(self) -> MappedCursor[K, V, KeyIn]:
        """A cursor over the keys as they are now, at no key."""
        return MappedCursor(self._below.cursor(), self._coding)

    def put(self, key: KeyIn, value: ValueIn) -> None:
        """Set ``key`` to ``value``.  TypeError or ValueError: not a key or value."""
        data = self._coding.encode_key(key)
        self._below.put(data, self._coding.encode_value(key, value))

    def delete(self, key: KeyIn) -> None:
        """Remove ``key`` if it is there.  Raises as :meth:`put`."""
        self._below.delete(self._coding.encode_key(key))

    def __setitem__(self, key: KeyIn, value: ValueIn) -> None:  # type: ignore[override]
        data = self._coding.encode_key(key)
        self._below.put(data, self._coding.encode_value(key, value))

    def __delitem__(self, key: KeyIn) -> None:  # type: ignore[override]
        """Remove ``key``; KeyError when it is not there.  (``delete`` does not look it up.)"""
        data = self._coding.encode_key(key)
        if self._below.get(data) is None:
            raise KeyError(key)
        self._below.delete(data)

    def popitem(self) -> tuple[K, V]:
        """Remove the first key, and return it with its value; KeyError without one."""
        for key, value in self._range(None, None, None, False):
            item = self._coding.decode_key(key), self._coding.decode_value(key, value)
            self._below.delete(key)
            return item
        raise KeyError("popitem(): there is no key")

    def clear(self) -> None:
        """Remove every key that is there now."""
        for key in [key for key, _ in self._range(None, None, None, False)]:
            self._below.delete(key)
