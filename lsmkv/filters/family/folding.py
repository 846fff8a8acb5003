"""A Bloom filter that can be halved while it holds few keys, as HBase's are.

Whoever fills a filter often has to size it before the number of keys is known.  Folding makes up
for it afterwards: a filter of m bits with n keys becomes, bit for bit, the filter of m/2 bits with
the same keys, so its error rate is that of a filter built at that size.

Source: Apache HBase, ``org.apache.hadoop.hbase.util.BloomFilterChunk.compactBloom``, which lays the
upper half over the lower, since its probes are taken modulo m.  The product's probes are scaled to
m instead, so here the two bits 2b and 2b + 1 become bit b.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.classic import BitFilter
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedParts
from lsmkv.filters.maths.rates import check_arguments
from lsmkv.filters.maths.sizing import filter_bytes_for, probes_for

FOLDABLE_KIND: Final = 3
MAX_FOLDS: Final = 27
"""Most times that a filter can be halved: the largest has less than 2**28 bytes."""


class FoldableBloomFilter(BitFilter):
    """A Bloom filter whose size can be halved ``folds`` times.

    k stays what it was, so a filter that is to be folded does best with the k of the size that it
    will end up with.

    Args:
        byte_count: size of the array of bits, in bytes, a multiple of 2**folds.
        probe_count: bits that each key sets, k, 1 to 255.
        folds: how often the filter can be halved, 0 to 27.

    Raises:
        ValueError: an argument is out of range, or the size cannot be halved that often.

    >>> f = FoldableBloomFilter.for_keys(1000, 0.01, folds=4)
    >>> f.update(b"key %d" % i for i in range(100))
    >>> small = f.fold_for(100, 0.01)
    >>> f.byte_count, small.byte_count, small.folds, round(small.expected_rate(100), 4)
    (1200, 150, 1, 0.0033)
    >>> all(small.may_contain(b"key %d" % i) for i in range(100))
    True
    """

    KIND: ClassVar[int] = FOLDABLE_KIND

    def __init__(self, byte_count: int, probe_count: int, folds: int) -> None:
        super().__init__(byte_count, probe_count)
        if not 0 <= folds <= MAX_FOLDS:
            raise ValueError(f"folds={folds!r}: must lie between 0 and {MAX_FOLDS}")
        if byte_count % (1 << folds):
            raise ValueError(f"{byte_count} bytes cannot be halved {folds} times")
        self._folds = folds

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(byte_count={self.byte_count}, "
            f"probe_count={self.probe_count}, folds={self._folds})"
        )

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float, folds: int) -> Self:
        """An empty filter for ``key_count`` distinct keys, rounded up to 2**folds bytes.

        Raises:
            ValueError: an argument is out of range, or the filter would be too large.
        """
        check_arguments(key_count, error_rate)
        if not 0 <= folds <= MAX_FOLDS:
            raise ValueError(f"folds={folds!r}: must lie between 0 and {MAX_FOLDS}")
        unit = 1 << folds
        units = max(1, -(-filter_bytes_for(key_count, error_rate) // unit))
        return cls(units * unit, probes_for(units * unit * 8, key_count), folds)

    @property
    def folds(self) -> int:
        """How often the filter can still be halved."""
        return self._folds

    def fold(self) -> Self:
        """A new filter of half the size: the one built at that size from the same keys.  O(m).

        Raises:
            ValueError: :attr:`folds` is 0.
        """
        if self._folds == 0:
            raise ValueError(f"{self!r} cannot be folded any more")
        half = type(self)(len(self._bits) // 2, self._probe_count, self._folds - 1)
        half._bits = _halve(self._bits)
        return half

    def fold_for(self, key_count: int, error_rate: float) -> Self:
        """The smallest fold of this filter whose exact rate for ``key_count`` keys is in bounds.

        This filter itself when it cannot be folded so.  O(m).
        """
        smallest = self
        while smallest._folds:
            half = type(self)(len(smallest._bits) // 2, self._probe_count, smallest._folds - 1)
            if half.expected_rate(key_count) > error_rate:
                break
            half._bits = _halve(smallest._bits)
            smallest = half
        return smallest

    def _with_bits(self, bits: bytearray) -> Self:
        same = type(self)(len(bits), self._probe_count, self._folds)
        same._bits = bits
        return same

    def _parameters(self) -> tuple[int, ...]:
        return (len(self._bits), self._probe_count, self._folds)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        byte_count, probe_count, folds = parts.parameters(
            (1, MAX_BYTES), (1, MAX_PROBES_SAVED), (0, MAX_FOLDS)
        )
        body = parts.body(byte_count)
        if byte_count % (1 << folds):
            raise parts.corrupt(f"{byte_count} bytes cannot be halved {folds} times")
        restored = cls(byte_count, probe_count, folds)
        restored._bits = bytearray(body)
        return restored


def _halve(bits: bytearray) -> bytearray:
    """Bit b of the result is bit 2b or bit 2b + 1 of ``bits``, whose length is even.

    All pairs at once: OR neighbours, then close the gaps between the results by 1, 2 and 4 bits, as
    in the decoding of Morton numbers, which leaves every other byte full.
    """
    length = len(bits)
    word = int.from_bytes(bits, "little")
    word = (word | word >> 1) & int.from_bytes(b"\x55" * length, "little")
    word = (word | word >> 1) & int.from_bytes(b"\x33" * length, "little")
    word = (word | word >> 2) & int.from_bytes(b"\x0f" * length, "little")
    word = (word | word >> 4) & int.from_bytes(b"\xff\x00" * (length // 2), "little")
    return bytearray(word.to_bytes(length, "little")[::2])
