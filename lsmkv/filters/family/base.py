"""The bases of the family: filters that are asked by hash, grow key by key, or are static."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from copy import copy
from typing import Final, Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.saved import SavedFilter
from lsmkv.filters.hashing import MASK_63, hash_key
from lsmkv.filters.maths.sizing import check_arguments, filter_bytes_for, probes_for

# Fewest and most.
BYTE_LIMITS: Final = (1, MAX_BYTES)  # of a filter's array
PROBE_LIMITS: Final = (1, 255)  # for each key; more would only make hostile bytes slow


class HashedFilter(SavedFilter):
    """A filter that takes a key or its 63-bit hash."""

    @abstractmethod
    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key with the hash ``h``; False is certain."""

    def may_contain(self, key: bytes, /) -> bool:
        return self.may_contain_hash(hash_key(key))


class GrowingFilter(HashedFilter):
    """A filter that takes keys one by one."""

    @abstractmethod
    def add_hash(self, h: int, /) -> None:
        """Add the key with the 63-bit hash ``h``."""

    def add(self, key: bytes, /) -> None:
        """Add ``key``."""
        self.add_hash(hash_key(key))

    def update(self, keys: Iterable[bytes], /) -> None:
        """Add every key of ``keys``."""
        for key in keys:
            self.add_hash(hash_key(key))


class RemovingFilter(GrowingFilter):
    """A filter from which keys can be removed."""

    @abstractmethod
    def remove_hash(self, h: int, /) -> bool:
        """As :meth:`remove`, for the key with the 63-bit hash ``h``."""

    def remove(self, key: bytes, /) -> bool:
        """Take one ``add`` of ``key`` back; False if the filter certainly does not hold it."""
        return self.remove_hash(hash_key(key))


class StaticFilter(HashedFilter):
    """A filter of fingerprints, built from all its keys at once."""

    def __init__(self, fingerprint_bits: int, count: int) -> None:
        self.fingerprint_bits: Final = fingerprint_bits
        self._count = count

    @classmethod
    @abstractmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of the keys with these 63-bit hashes; repeats do no harm."""

    @classmethod
    def from_keys(cls, keys: Iterable[bytes], error_rate: float) -> Self:
        """The filter of ``keys``; repeats do no harm."""
        return cls.from_hashes([hash_key(key) for key in keys], error_rate)

    def _parameters(self) -> tuple[int, ...]:
        return (self.fingerprint_bits, self._count)


class SolvedFilter(StaticFilter):
    """A static filter whose bits solve an equation for each key."""

    _bits: bytes

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind}: {self._count} keys, {self.fingerprint_bits}-bit fingerprints>"

    @property
    def bits(self) -> bytes:
        """The filter itself, as tables embed it."""
        return self._bits

    def key_count(self) -> float:
        """How many distinct keys the filter was built from: exact."""
        return self._count

    def expected_rate(self) -> float:
        """The false-positive rate, 2**-fingerprint_bits."""
        return 2.0**-self.fingerprint_bits

    def _with_solution(self, bits: bytes, count: int) -> Self:
        """This filter with the bits and the number of keys of another."""
        self._bits = bits
        self._count = count
        return self


class BitArrayFilter(SavedFilter):
    """A filter that sets k bits of one array for each key."""

    _bits: bytearray

    def __init__(self, byte_count: int, probe_count: int) -> None:
        check_range("byte_count", byte_count, BYTE_LIMITS)
        check_range("probe_count", probe_count, PROBE_LIMITS)
        self._bits = bytearray(byte_count)
        self.probe_count: Final = probe_count

    @property
    def bit_count(self) -> int:
        """Size, in bits: m."""
        return len(self._bits) * 8

    def key_count(self) -> float:
        """About how many distinct keys were added (:func:`keys_by_fill`).  O(m)."""
        return keys_by_fill(bits_set(self._bits), self.bit_count, self.probe_count)

    def union(self, other: Self, /) -> Self:
        """A new filter of the keys of both; ValueError if their classes or parameters differ.  O(m)."""
        self._check_same_shape(other)
        united = int.from_bytes(self._bits, "little") | int.from_bytes(other._bits, "little")
        return self._with_bits(united.to_bytes(len(self._bits), "little"))

    def _with_bits(self, bits: bytes | bytearray) -> Self:
        other = copy(self)
        other._bits = bytearray(bits)
        return other

    def _set(self, places: Iterable[int]) -> None:
        for bit in places:
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def _has(self, places: Iterable[int]) -> bool:
        return all((self._bits[bit >> 3] >> (bit & 7)) & 1 for bit in places)


def distinct_hashes(hashes: Iterable[int]) -> list[int]:
    """``hashes`` in order without repeats; ValueError if one has more than 63 bits."""
    distinct = sorted(set(hashes))
    if distinct and not 0 <= distinct[0] <= distinct[-1] <= MASK_63:
        raise ValueError("a hash does not lie between 0 and 2**63 - 1")
    return distinct


def check_range(name: str, number: int, limits: tuple[int, int]) -> None:
    low, high = limits
    if not low <= number <= high:
        raise ValueError(f"{name}={number!r}: must lie between {low} and {high}")


def bloom_shape(key_count: int, error_rate: float) -> tuple[int, int]:
    """Bytes and k of a Bloom filter: m = -n ln p / (ln 2)^2 in whole bytes, then the best k."""
    check_arguments(key_count, error_rate)
    byte_count = max(1, filter_bytes_for(key_count, error_rate))
    return byte_count, probes_for(byte_count * 8, key_count)


def bits_set(bits: bytes | bytearray) -> int:
    return int.from_bytes(bits, "little").bit_count()


def keys_by_fill(ones: float, bit_count: int, probe_count: int) -> float:
    """About how many distinct keys set ``ones`` of ``bit_count`` bits.

    ln(1 - X/m) / (k ln(1 - 1/m)), which inverts the mean of X (Swamidass and Baldi, "Mathematical
    correction for fingerprint similarity measures", J. Chem. Inf. Model. 47, 2007; Papapetrou et
    al., "Cardinality estimation and dynamic length adaptation for Bloom filters", 2010).  Infinite
    when all bits are set, or some of the bits of arrays that have one each.

    >>> keys_by_fill(0, 1, 8), keys_by_fill(0.5, 1, 8), round(keys_by_fill(50, 100, 1))
    (0.0, inf, 69)
    """
    if ones <= 0:
        return 0.0
    if ones >= bit_count or bit_count == 1:
        return math.inf
    return math.log1p(-ones / bit_count) / (probe_count * math.log1p(-1.0 / bit_count))
