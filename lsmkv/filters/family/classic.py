"""The Bloom filter as an object, with the product's probes; and the bit array with one probe.

The bits are exactly those of :mod:`lsmkv.filters.bloom`, so a filter here with the keys of a block
has the same bytes as the filter that the block embeds, and the same exact error rate.

Sources: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13(7),
1970.  The bit array with one hash is its case k = 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.family.base import (
    GrowingFilter,
    bits_set,
    check_byte_count,
    check_probe_count,
    either,
    keys_by_fill,
)
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedParts
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths.rates import check_arguments, single_hash_bits_for
from lsmkv.filters.maths.sizing import exact_rate, filter_bytes_for, probes_for

BLOOM_KIND: Final = 1
SINGLE_HASH_KIND: Final = 2


class BitFilter(GrowingFilter):
    """One array of bits, in which each key sets k: the common part of this module's filters."""

    def __init__(self, byte_count: int, probe_count: int) -> None:
        check_byte_count(byte_count)
        check_probe_count(probe_count)
        self._bits = bytearray(byte_count)
        self._probe_count = probe_count

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(byte_count={self.byte_count}, probe_count={self._probe_count})"
        )

    @property
    def byte_count(self) -> int:
        """Size of the array of bits, in bytes."""
        return len(self._bits)

    @property
    def bit_count(self) -> int:
        """Size of the array of bits, in bits: m."""
        return len(self._bits) * 8

    @property
    def probe_count(self) -> int:
        """Bits that each key sets: k."""
        return self._probe_count

    @property
    def bits(self) -> bytes:
        """The array of bits; bit b is bit ``b % 8`` (from the least significant) of byte ``b // 8``."""
        return bytes(self._bits)

    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h``.  O(k)."""
        set_probed(self._bits, self._probe_count, h)

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.

        O(k), and two probes on average when half the bits are set and the answer is no.
        """
        return all_probed_set(self._bits, self._probe_count, h)

    def key_count(self) -> float:
        """About how many distinct keys were added, judged by the bits that are set.  O(m).

        Infinite when all bits are set.  For the formula see
        :func:`~lsmkv.filters.family.base.keys_by_fill`.
        """
        return keys_by_fill(bits_set(self._bits), self.bit_count, self._probe_count)

    def expected_rate(self, key_count: int) -> float:
        """The exact false-positive rate with ``key_count`` distinct keys in the filter.

        See :func:`~lsmkv.filters.maths.sizing.exact_rate`.
        """
        return exact_rate(self.bit_count, key_count, self._probe_count)

    def union(self, other: Self, /) -> Self:
        """A new filter, with the same bits as one built from the keys of both.  O(m).

        Raises:
            ValueError: the two differ in size, k or class.
        """
        self._check_same_shape(other)
        return self._with_bits(either(self._bits, other._bits))

    @abstractmethod
    def _with_bits(self, bits: bytearray) -> Self:
        """A filter of the same shape with these bits."""

    def _parameters(self) -> tuple[int, ...]:
        return (len(self._bits), self._probe_count)

    def _body(self) -> bytes:
        return bytes(self._bits)


class BloomFilter(BitFilter):
    """A Bloom filter: add keys, ask for keys, unite, save.

    Args:
        byte_count: size of the array of bits, in bytes, 1 to 2**28 - 1.
        probe_count: bits that each key sets, k, 1 to 255.

    Raises:
        ValueError: an argument is out of range.

    >>> f = BloomFilter.for_keys(1000, 0.01)
    >>> f.add(b"192.168.1.1")
    >>> f.may_contain(b"192.168.1.1"), f.may_contain(b"192.168.1.2")
    (True, False)
    >>> f.byte_count, f.probe_count, round(f.expected_rate(1000), 4)
    (1199, 7, 0.01)
    >>> BloomFilter.from_bytes(f.to_bytes()).bits == f.bits
    True
    """

    KIND: ClassVar[int] = BLOOM_KIND

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys: m from (n, p), then the best k.

        m = -n ln p / (ln 2)^2 rounded up to whole bytes; k makes the exact rate for that m lowest.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or the filter would be too
                large.
        """
        check_arguments(key_count, error_rate)
        byte_count = max(1, filter_bytes_for(key_count, error_rate))
        return cls(byte_count, probes_for(byte_count * 8, key_count))

    @classmethod
    def for_bits(cls, bit_count: int, key_count: int) -> Self:
        """An empty filter of ``bit_count`` bits, rounded up to whole bytes, with the best k.

        Raises:
            ValueError: ``bit_count`` is not positive or too large, or ``key_count`` negative.

        >>> BloomFilter.for_bits(1_000_000, 100_000)
        BloomFilter(byte_count=125000, probe_count=7)
        """
        byte_count = (bit_count + 7) // 8
        return cls(byte_count, probes_for(byte_count * 8, key_count))

    @classmethod
    def from_bits(cls, bits: bytes, probe_count: int) -> Self:
        """A filter with these bits, for example those of a block, made with ``probe_count`` probes.

        Raises:
            ValueError: there are no bits or too many, or ``probe_count`` is out of range.
        """
        restored = cls(len(bits), probe_count)
        restored._bits = bytearray(bits)
        return restored

    def _with_bits(self, bits: bytearray) -> Self:
        united = type(self)(len(bits), self._probe_count)
        united._bits = bits
        return united

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        byte_count, probe_count = parts.parameters((1, MAX_BYTES), (1, MAX_PROBES_SAVED))
        return cls.from_bits(parts.body(byte_count), probe_count)


class SingleHashFilter(BitFilter):
    """An array of bits with one hash: one probe per key, and N/p bits for N keys.

    Cheapest to ask, and ten times as large as a Bloom filter at 1 %.

    Args:
        byte_count: size of the array, in bytes, 1 to 2**28 - 1.

    Raises:
        ValueError: it is out of range.

    >>> f = SingleHashFilter.for_keys(1000, 0.01)
    >>> f.bit_count / 1000
    99.504
    """

    KIND: ClassVar[int] = SINGLE_HASH_KIND

    def __init__(self, byte_count: int) -> None:
        super().__init__(byte_count, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(byte_count={self.byte_count})"

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or the filter would be too
                large.
        """
        check_arguments(key_count, error_rate)
        return cls(max(1, math.ceil(single_hash_bits_for(key_count, error_rate) / 8)))

    def _with_bits(self, bits: bytearray) -> Self:
        united = type(self)(len(bits))
        united._bits = bits
        return united

    def _parameters(self) -> tuple[int, ...]:
        return (len(self._bits),)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        (byte_count,) = parts.parameters((1, MAX_BYTES))
        body = parts.body(byte_count)
        restored = cls(byte_count)
        restored._bits = bytearray(body)
        return restored


def set_probed(bits: bytearray, probe_count: i64, h: i64) -> None:
    """Set the bits of the hash ``h``: those that ``bloom.build`` sets.  O(probe_count)."""
    bit_count: i64 = len(bits) * 8
    for _ in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = ((h >> 31) * bit_count) >> 32
        bits[bit >> 3] |= 1 << (bit & 7)


def all_probed_set(bits: bytearray, probe_count: i64, h: i64) -> bool:
    """Whether all bits of the hash ``h`` are set.  O(probe_count)."""
    bit_count: i64 = len(bits) * 8
    for _ in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = ((h >> 31) * bit_count) >> 32
        if not (bits[bit >> 3] >> (bit & 7)) & 1:
            return False
    return True


def probed(bit_count: i64, probe_count: i64, h: i64) -> list[int]:
    """The bits of the hash ``h`` in ``bit_count`` bits, in the order they are asked.

    O(probe_count).

    >>> probed(100, 3, 1)
    [23, 74, 75]
    """
    bits: list[int] = []
    for _ in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bits.append(((h >> 31) * bit_count) >> 32)
    return bits
