"""The partitioned Bloom filter: k arrays of m/k bits, one probe in each.

Its error rate has a simple exact form, since the arrays are independent, and is slightly worse
than a Bloom filter's of the same size: a key's probes never share a bit, so more bits are set.

Source: A. Kirsch, M. Mitzenmacher, "Less hashing, same performance: building a better Bloom
filter", ESA 2006; the first were hardware's, with a memory bank for each array.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.family.base import bits_set, keys_by_fill
from lsmkv.filters.family.classic import BitFilter
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedParts
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths.rates import (
    check_arguments,
    partitioned_bits_for,
    partitioned_probes_for,
    partitioned_rate,
)
from lsmkv.filters.maths.sizing import MAX_PROBES

PARTITIONED_KIND: Final = 4


class PartitionedBloomFilter(BitFilter):
    """A Bloom filter with an array of bits of its own for each probe.

    Args:
        byte_count: size of all arrays together, in bytes; bits that are left over when it is shared
            out among k arrays stay 0.
        probe_count: number of arrays, k, 1 to 255.

    Raises:
        ValueError: an argument is out of range, or there is not a bit for each array.

    >>> f = PartitionedBloomFilter.for_keys(1000, 0.01)
    >>> f.add(b"a")
    >>> f.may_contain(b"a"), f.may_contain(b"b"), f.byte_count
    (True, False, 1200)
    """

    KIND: ClassVar[int] = PARTITIONED_KIND

    def __init__(self, byte_count: int, probe_count: int) -> None:
        super().__init__(byte_count, probe_count)
        if byte_count * 8 < probe_count:
            raise ValueError(f"{byte_count} bytes are too few for {probe_count} arrays")
        self._part_bits = byte_count * 8 // probe_count

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys: the smallest of all numbers of arrays.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or the filter would be too
                large.
        """
        check_arguments(key_count, error_rate)
        bits = min([partitioned_bits_for(key_count, error_rate, k + 1) for k in range(MAX_PROBES)])
        byte_count = max(1, (bits + 7) // 8)
        return cls(byte_count, partitioned_probes_for(byte_count * 8, key_count))

    @property
    def part_bits(self) -> int:
        """Size of each array, in bits."""
        return self._part_bits

    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h``.  O(k)."""
        bits = self._bits
        word: i64 = h
        part: i64 = self._part_bits
        first: i64 = 0
        for _ in range(self._probe_count):
            word = (word * MULTIPLIER) & MASK_63
            bit: i64 = first + (((word >> 31) * part) >> 32)
            bits[bit >> 3] |= 1 << (bit & 7)
            first += part

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.  O(k)."""
        bits = self._bits
        word: i64 = h
        part: i64 = self._part_bits
        first: i64 = 0
        for _ in range(self._probe_count):
            word = (word * MULTIPLIER) & MASK_63
            bit: i64 = first + (((word >> 31) * part) >> 32)
            if not (bits[bit >> 3] >> (bit & 7)) & 1:
                return False
            first += part
        return True

    def key_count(self) -> float:
        """About how many distinct keys were added: the arrays' fill on average says so.  O(m)."""
        ones = bits_set(self._bits) / self._probe_count
        return keys_by_fill(ones, self._part_bits, 1)

    def expected_rate(self, key_count: int) -> float:
        """The exact false-positive rate with ``key_count`` distinct keys in the filter.

        See :func:`~lsmkv.filters.maths.rates.partitioned_rate`.
        """
        return partitioned_rate(self.bit_count, key_count, self._probe_count)

    def _with_bits(self, bits: bytearray) -> Self:
        same = type(self)(len(bits), self._probe_count)
        same._bits = bits
        return same

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        byte_count, probe_count = parts.parameters((1, MAX_BYTES), (1, MAX_PROBES_SAVED))
        body = parts.body(byte_count)
        if byte_count * 8 < probe_count:
            raise parts.corrupt(f"{byte_count} bytes are too few for {probe_count} arrays")
        restored = cls(byte_count, probe_count)
        restored._bits = bytearray(body)
        return restored
