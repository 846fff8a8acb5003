"""The Bloom filter as an object, and its case k = 1.

The bits are those of :mod:`lsmkv.filters.bloom`, so a block's filter can be taken as it is.

Source: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13(7), 1970.
"""

from __future__ import annotations

import math
from typing import ClassVar, Self

from lsmkv.filters.bloom import MULTIPLIER, has_bits, set_bits
from lsmkv.filters.family import base
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths.rates import single_hash_bits_for
from lsmkv.filters.maths.sizing import check_arguments, exact_rate, probes_for


class BitFilter(base.BitArrayFilter, base.GrowingFilter):
    """An array of bits, of which each key sets k.  To add and to ask takes O(k)."""

    _ARGUMENTS: ClassVar[tuple[str, ...]] = ("byte_count", "probe_count")
    _LIMITS: ClassVar[tuple[tuple[int, int], ...]] = (base.BYTE_LIMITS, base.PROBE_LIMITS)
    """Limits of the saved parameters, which are the constructor's arguments."""

    @property
    def bits(self) -> bytes:
        """The array; bit b is bit ``b % 8`` (from the least significant) of byte ``b // 8``."""
        return bytes(self._bits)

    def add_hash(self, h: int, /) -> None:
        set_bits(self._bits, self.probe_count, h & MASK_63)

    def may_contain_hash(self, h: int, /) -> bool:
        return has_bits(self._bits, self.probe_count, h & MASK_63)

    def expected_rate(self, key_count: int) -> float:
        """The exact false-positive rate with ``key_count`` distinct keys in the filter."""
        return exact_rate(self.bit_count, key_count, self.probe_count)

    def current_rate(self) -> float:
        """The rate of the bits as they are: (bits set / m)^k, also of an overfull filter.  O(m)."""
        return float((base.bits_set(self._bits) / self.bit_count) ** self.probe_count)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        arguments = parts.checked_parameters(*cls._LIMITS)
        body = parts.checked_body(arguments[0])
        try:
            return cls(*arguments)._with_bits(body)
        except ValueError as error:
            raise parts.corrupt(str(error)) from error


class BloomFilter(BitFilter):
    """A Bloom filter: add keys, ask for keys, unite, save.

    It has ``byte_count`` bytes, 1 to 2**28 - 1; each key sets k = ``probe_count`` bits, 1 to 255.

    >>> f = BloomFilter.for_keys(1000, 0.01)
    >>> f.add(b"192.168.1.1")
    >>> f.may_contain(b"192.168.1.1"), f.may_contain(b"192.168.1.2")
    (True, False)
    >>> f.byte_count, f.probe_count, round(f.expected_rate(1000), 4)
    (1199, 7, 0.01)
    >>> BloomFilter.from_bytes(f.to_bytes()).bits == f.bits
    True
    """

    KIND = 1

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys: the fewest bytes, and the best k."""
        return cls(*base.bloom_shape(key_count, error_rate))

    @classmethod
    def for_bits(cls, bit_count: int, key_count: int) -> Self:
        """An empty filter of ``bit_count`` bits, rounded up, with the best k."""
        byte_count = (bit_count + 7) // 8
        return cls(byte_count, probes_for(byte_count * 8, key_count))

    @classmethod
    def from_bits(cls, bits: bytes, probe_count: int) -> Self:
        """A filter with these bits, which were made with k = ``probe_count``."""
        return cls(len(bits), probe_count)._with_bits(bits)


class SingleHashFilter(BitFilter):
    """An array of ``byte_count`` bytes with one probe for each key.

    Cheapest to ask, and ten times as large as a Bloom filter at 1 %.

    >>> f = SingleHashFilter.for_keys(1000, 0.01)
    >>> f.bit_count / 1000
    99.504
    """

    KIND = 2
    _ARGUMENTS = ("byte_count",)
    _LIMITS = (base.BYTE_LIMITS,)

    def __init__(self, byte_count: int) -> None:
        super().__init__(byte_count, 1)

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys."""
        check_arguments(key_count, error_rate)
        return cls(max(1, math.ceil(single_hash_bits_for(key_count, error_rate) / 8)))


def probed(bit_count: int, probe_count: int, h: int) -> list[int]:
    """The k bits of the hash ``h``, in probe order."""
    bits: list[int] = []
    for _ in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bits.append(((h >> 31) * bit_count) >> 32)
    return bits
