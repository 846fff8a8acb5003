"""What a filter can do: one small protocol for each ability, for annotations.

A filter has the methods of its abilities and no others, so a type checker refuses to delete from a
Bloom filter or to add to a static one.
"""

from __future__ import annotations

from typing import Protocol, Self


class Membership(Protocol):
    """Can be asked for a key: False is certain, True means "maybe"."""

    def may_contain(self, key: bytes, /) -> bool: ...


class HashMembership(Membership, Protocol):
    """Can be asked with the 63-bit hash of a key, too."""

    def may_contain_hash(self, h: int, /) -> bool: ...


class Insert(Protocol):
    """Takes keys one by one."""

    def add(self, key: bytes, /) -> None: ...


class HashInsert(Insert, Protocol):
    """Takes 63-bit hashes of keys, too."""

    def add_hash(self, h: int, /) -> None: ...


class Delete(Protocol):
    """Takes one ``add`` of a key back; False, with nothing changed, when it is not there.

    Only keys that were added may be removed: removing a false positive takes away what other keys
    need, and they may then be denied.
    """

    def remove(self, key: bytes, /) -> bool: ...


class CountEstimate(Protocol):
    """Knows about how often a key was added and not removed; 0 is certain."""

    def count_of(self, key: bytes, /) -> int: ...


class KeyCount(Protocol):
    """Knows how many keys it holds, exactly or about; each filter says which."""

    def key_count(self) -> float: ...


class Union(Protocol):
    """Makes a filter of the keys of both; ValueError if their shapes differ."""

    def union(self, other: Self, /) -> Self: ...


class Fold(Protocol):
    """Makes a filter of half the size with the same keys; ValueError if that cannot be."""

    def fold(self) -> Self: ...


class Save(Protocol):
    """Turns into bytes that name their kind, and back.

    The bytes are the same on every platform and in every process.  Errors call them ``path``:
    CorruptionError for damaged bytes, UnsupportedFormatError for another format version or another
    kind of filter.
    """

    def to_bytes(self) -> bytes: ...

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "filter") -> Self: ...
