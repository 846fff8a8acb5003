"""Views of the keys, values and items of a range.

This module is not compiled: operators of ``Set`` such as ``&`` do not work on compiled classes.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterable, Iterator, KeysView, Set, ValuesView
from typing import TypeVar

from lsmkv.api.ranges import EntryRangeView, KeyIterator, RangeView, ValueIterator

_T = TypeVar("_T")


class RangeKeys(RangeView, Set[bytes]):
    """The keys of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, found: Iterable[_T]) -> set[_T]:
        return set(found)

    def __iter__(self) -> Iterator[bytes]:
        return self.iterate(KeyIterator, False)

    def __reversed__(self) -> Iterator[bytes]:
        return self.iterate(KeyIterator, True)

    def __contains__(self, key: object) -> bool:
        return self.value(key) is not None


class RangeItems(EntryRangeView, Set[tuple[bytes, bytes]]):
    """The items of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, found: Iterable[_T]) -> set[_T]:
        return set(found)

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        value = self.value(item[0])
        return value is not None and value == item[1]


class RangeValues(RangeView, Collection[bytes]):
    """The values of a range, in order, unchanged by later writes.  ``len`` scans."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self.iterate(ValueIterator, False)

    def __reversed__(self) -> Iterator[bytes]:
        return self.iterate(ValueIterator, True)

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)


# Registered: the slot of the views in collections.abc does not fit onto a compiled class.
KeysView.register(RangeKeys)
ItemsView.register(RangeItems)
ValuesView.register(RangeValues)
