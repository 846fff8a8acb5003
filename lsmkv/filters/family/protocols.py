"""Protocols for annotations: one for each ability of a filter.

A filter has the methods of its abilities and no others, so a type checker refuses to delete from a
Bloom filter or to add to a static one.  A function that only asks takes a :class:`Membership`,
whatever filter it is.

Keys are ``bytes``.  Where a filter also takes the 63-bit hash of a key
(:func:`~lsmkv.filters.hashing.hash_key`), a caller with several filters hashes once.
"""

from __future__ import annotations

from typing import Protocol, Self


class Membership(Protocol):
    """Can be asked whether it holds a key."""

    def may_contain(self, key: bytes, /) -> bool:
        """False when the filter certainly does not hold ``key``; True when it may."""


class HashMembership(Membership, Protocol):
    """Can be asked with the hash of a key, too."""

    def may_contain_hash(self, h: int, /) -> bool:
        """As ``may_contain``, for the key with the 63-bit hash ``h``."""


class Insert(Protocol):
    """Takes keys one by one."""

    def add(self, key: bytes, /) -> None:
        """From now on the filter holds ``key``."""


class HashInsert(Insert, Protocol):
    """Takes hashes of keys, too."""

    def add_hash(self, h: int, /) -> None:
        """As ``add``, for the key with the 63-bit hash ``h``."""


class Delete(Protocol):
    """Can be made to forget a key."""

    def remove(self, key: bytes, /) -> bool:
        """Forget one ``add`` of ``key``, which was added; False when it is not there."""


class CountEstimate(Protocol):
    """Knows about how often a key was added."""

    def count_of(self, key: bytes, /) -> int:
        """About how often ``key`` was added and not removed; 0 is certain."""


class KeyCount(Protocol):
    """Knows how many keys it holds, exactly or about; each filter says which."""

    def key_count(self) -> float:
        """How many keys the filter holds."""


class Union(Protocol):
    """Can be united with another of the same shape."""

    def union(self, other: Self, /) -> Self:
        """A filter that answers as one built from the keys of both; ValueError if shapes differ."""


class Fold(Protocol):
    """Can be halved in size while it holds few keys."""

    def fold(self) -> Self:
        """A filter of half the size that holds the same keys; ValueError if that cannot be."""


class Save(Protocol):
    """Turns into bytes that name their kind, and back."""

    def to_bytes(self) -> bytes:
        """The filter as bytes: the same ones on every platform and in every process."""

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "filter") -> Self:
        """The saved filter.  CorruptionError, UnsupportedFormatError: ``path`` is damaged or another."""
