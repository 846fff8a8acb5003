"""A sorted array of the keys' fingerprints with binary search: a static filter.

It takes n log2(n/p) bits: far fewer than an array of bits with one hash
(:func:`~lsmkv.filters.maths.rates.crossover_keys`), and more than a Bloom filter unless n/p is small.

Source: L. Carter et al., "Exact and approximate membership testers", STOC 1978 (hash the keys, and
store the set of hashes exactly).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, Self

from lsmkv.filters.family.base import StaticFilter, check_range, distinct_hashes
from lsmkv.filters.family.bit_packing import pack, packed_bytes, read
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.maths.rates import MAX_FINGERPRINT_BITS, fingerprint_bits_for

_HASH_BITS: Final = 63
_WIDTH_LIMITS: Final = (1, MAX_FINGERPRINT_BITS)
_COUNT_LIMITS: Final = (0, 1 << 40)


class FingerprintFilter(StaticFilter):
    """The fingerprints of a set of keys in order: the top bits of their hashes.

    ``hashes`` are the 63-bit hashes of the keys; repeats do no harm.  Fingerprints have 1 to 62 bits.
    O(n log n) to build, O(log n) to ask.

    >>> f = FingerprintFilter.from_keys([b"a", b"b"], 0.01)
    >>> f.may_contain(b"a"), f.may_contain(b"c"), f.fingerprint_bits, f.byte_count
    (True, False, 8, 2)
    """

    KIND = 9
    _bits: bytearray

    def __init__(self, hashes: Iterable[int], fingerprint_bits: int) -> None:
        check_range("fingerprint_bits", fingerprint_bits, _WIDTH_LIMITS)
        shift = _HASH_BITS - fingerprint_bits
        fingerprints = sorted({h >> shift for h in distinct_hashes(hashes)})
        super().__init__(fingerprint_bits, len(fingerprints))
        self._bits = pack(fingerprints, fingerprint_bits)

    def __repr__(self) -> str:
        return f"<FingerprintFilter: {self._count} fingerprints of {self.fingerprint_bits} bits>"

    @classmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of these 63-bit hashes, with at most ``error_rate``."""
        distinct = distinct_hashes(hashes)
        bits = fingerprint_bits_for(len(distinct), error_rate)
        return cls(distinct, min(bits, MAX_FINGERPRINT_BITS))

    def may_contain_hash(self, h: int, /) -> bool:
        wanted = h >> (_HASH_BITS - self.fingerprint_bits)
        at = bisect_left(range(self._count), wanted, key=self._get)
        return at < self._count and self._get(at) == wanted

    def _get(self, index: int) -> int:
        return read(self._bits, index, self.fingerprint_bits)

    def key_count(self) -> float:
        """The number of different fingerprints: that of keys, less the few that share one."""
        return self._count

    def expected_rate(self) -> float:
        """The false-positive rate: the part of all possible fingerprints that is there."""
        return float(self._count * 2.0**-self.fingerprint_bits)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        width, count = parts.checked_parameters(_WIDTH_LIMITS, _COUNT_LIMITS)
        restored = cls([], width)
        restored._bits = bytearray(parts.checked_body(packed_bytes(count, width)))
        restored._count = count
        for index in range(1, count):
            if restored._get(index) <= restored._get(index - 1):
                raise parts.corrupt(f"fingerprint {index} is out of order")
        return restored
