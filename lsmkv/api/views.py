"""Views of the keys, items and values of a range, as they were when the view was made.

They are interpreted: mypyc cannot derive a compiled class from ``collections.abc``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from typing import TypeVar

from lsmkv.api.ranges import EntryRangeView, KeyIterator, RangeView, ValueIterator

_T = TypeVar("_T")


class RangeKeys(RangeView, Set[bytes]):
    """Keys of a range, in order, as they were when the view was made.  ``len`` scans."""

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, found: Iterable[_T]) -> set[_T]:
        return set(found)

    def __iter__(self) -> Iterator[bytes]:
        found: Iterator[bytes] = self.iterate(KeyIterator, False)
        return found

    def __reversed__(self) -> Iterator[bytes]:
        found: Iterator[bytes] = self.iterate(KeyIterator, True)
        return found

    def __contains__(self, key: object) -> bool:
        return self.value(key) is not None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.engine.directory}>"


class RangeItems(EntryRangeView, Set[tuple[bytes, bytes]]):
    """Keys and values of a range, in order, as they were when the view was made.  ``len`` scans."""

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, found: Iterable[_T]) -> set[_T]:
        return set(found)

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        value = self.value(item[0])
        return value is not None and value == item[1]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.engine.directory}>"


class RangeValues(RangeView, Collection[bytes]):
    """Values of a range, in key order, as they were when the view was made.  ``len`` scans."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        found: Iterator[bytes] = self.iterate(ValueIterator, False)
        return found

    def __reversed__(self) -> Iterator[bytes]:
        found: Iterator[bytes] = self.iterate(ValueIterator, True)
        return found

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.engine.directory}>"
