"""Iterators over entries, keys and values: those of the standard library, which cannot be copied.

A copy of a ``chain`` or ``map`` takes its elements from the same source, and each of the two would
miss what the other has taken.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from lsmkv.errors import uncopyable

if TYPE_CHECKING:
    _Map = map[bytes]
else:
    _Map = map  # it is generic to type checkers alone

_REMEDY: Final = "make another with iter(), of the view that it came from"


class EntryIterator(chain[tuple[bytes, bytes]]):
    """Entries in order."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an iterator", _REMEDY)


class PartIterator(_Map):
    """The keys, or the values, of entries in order."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an iterator", _REMEDY)
