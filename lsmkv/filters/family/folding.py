"""A Bloom filter that can be halved, as HBase's are.

A program often has to size a filter before it knows the number of keys.  Folding corrects the size
afterwards: a filter of m bits with n keys becomes, bit for bit, the filter of m/2 bits with
the same keys.

Source: Apache HBase, ``org.apache.hadoop.hbase.util.BloomFilterChunk.compactBloom``, which lays the
upper half over the lower, since it takes its probes modulo m.  Here probes are scaled to m, so the
two bits 2b and 2b + 1 become bit b.
"""

from __future__ import annotations

from typing import Final, Self

from lsmkv.filters.family.base import BYTE_LIMITS, PROBE_LIMITS, bloom_shape, check_range
from lsmkv.filters.family.classic import BitFilter
from lsmkv.filters.maths.sizing import exact_rate, probes_for

FOLD_LIMITS: Final = (0, 27)  # the largest filter has less than 2**28 bytes


class FoldableBloomFilter(BitFilter):
    """A Bloom filter whose size can be halved ``folds`` times.

    ``byte_count`` is a multiple of 2**folds, ``probe_count`` is k, 1 to 255, and ``folds`` lies between
    0 and 27.  Folding leaves k as it is, so a filter does best with the k of its final size.

    >>> f = FoldableBloomFilter.for_keys(1000, 0.01, folds=4)
    >>> f.update(b"key %d" % i for i in range(100))
    >>> small = f.fold_for(100, 0.01)
    >>> f.byte_count, small.byte_count, small.folds, round(small.expected_rate(100), 4)
    (1200, 150, 1, 0.0033)
    """

    KIND = 3
    _ARGUMENTS = ("byte_count", "probe_count", "folds")
    _LIMITS = (BYTE_LIMITS, PROBE_LIMITS, FOLD_LIMITS)

    def __init__(self, byte_count: int, probe_count: int, folds: int) -> None:
        super().__init__(byte_count, probe_count)
        check_range("folds", folds, FOLD_LIMITS)
        if byte_count % (1 << folds):
            raise ValueError(f"{byte_count} bytes cannot be halved {folds} times")
        self.folds: Final = folds

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float, folds: int) -> Self:
        """An empty filter for ``key_count`` distinct keys, rounded up to 2**folds bytes."""
        check_range("folds", folds, FOLD_LIMITS)
        unit = 1 << folds
        byte_count = -(-bloom_shape(key_count, error_rate)[0] // unit) * unit
        return cls(byte_count, probes_for(byte_count * 8, key_count), folds)

    def fold(self) -> Self:
        """A new filter of half the size with the same keys; ValueError if :attr:`folds` is 0.  O(m)."""
        if self.folds == 0:
            raise ValueError(f"{self!r} cannot be folded any more")
        half = type(self)(len(self._bits) // 2, self.probe_count, self.folds - 1)
        return half._with_bits(_halve(self._bits))

    def fold_for(self, key_count: int, error_rate: float) -> Self:
        """The smallest fold with at most ``error_rate``; the filter itself when there is none."""
        smallest = self
        while (
            smallest.folds
            and exact_rate(smallest.bit_count // 2, key_count, self.probe_count) <= error_rate
        ):
            smallest = smallest.fold()
        return smallest


def _halve(bits: bytearray) -> bytes:
    """OR each pair of neighbouring bits into one bit: all at once, as Morton numbers are decoded."""
    length = len(bits)
    word = int.from_bytes(bits, "little")
    word = (word | word >> 1) & int.from_bytes(b"\x55" * length, "little")
    word = (word | word >> 1) & int.from_bytes(b"\x33" * length, "little")
    word = (word | word >> 2) & int.from_bytes(b"\x0f" * length, "little")
    word = (word | word >> 4) & int.from_bytes(b"\xff\x00" * (length // 2), "little")
    return word.to_bytes(length, "little")[::2]
