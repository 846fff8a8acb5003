"""A sorted array of the keys' fingerprints, searched by halving: a static filter.

n fingerprints of log2(n/p) bits: at practical sizes far smaller than an array of bits with one
hash, though n would have to be astronomically large for it to lose (see
:func:`~lsmkv.filters.maths.rates.crossover_keys`), and larger than a Bloom filter unless n/p is small.

Source: L. Carter et al., "Exact and approximate membership testers", STOC 1978 (hashing the keys
and storing the set of hashes exactly).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.filters.family.base import HashedFilter, distinct_hashes
from lsmkv.filters.family.bit_packing import pack, packed_bytes, read
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.rates import (
    MAX_FINGERPRINT_BITS,
    check_arguments,
    fingerprint_bits_for,
)

FINGERPRINTS_KIND: Final = 9
_HASH_BITS: Final = 63
_MAX_COUNT: Final = 1 << 40


class FingerprintFilter(HashedFilter):
    """The fingerprints of a set of keys in order: the top bits of their hashes.

    Args:
        hashes: the 63-bit hashes of the keys; repeats do no harm.
        fingerprint_bits: length of a fingerprint, 1 to 62 bits.

    Raises:
        ValueError: ``fingerprint_bits`` or a hash is out of range.

    O(n log n) to build.

    >>> f = FingerprintFilter.from_keys([b"a", b"b"], 0.01)
    >>> f.may_contain(b"a"), f.may_contain(b"c"), f.fingerprint_bits, f.byte_count
    (True, False, 8, 2)
    """

    KIND: ClassVar[int] = FINGERPRINTS_KIND

    def __init__(self, hashes: Iterable[int], fingerprint_bits: int) -> None:
        if not 1 <= fingerprint_bits <= MAX_FINGERPRINT_BITS:
            raise ValueError(
                f"fingerprint_bits={fingerprint_bits!r}: must lie between 1 and "
                f"{MAX_FINGERPRINT_BITS}"
            )
        shift = _HASH_BITS - fingerprint_bits
        fingerprints = sorted({h >> shift for h in distinct_hashes(hashes)})
        self._width = fingerprint_bits
        self._count = len(fingerprints)
        self._packed = pack(fingerprints, fingerprint_bits)

    def __repr__(self) -> str:
        return f"<FingerprintFilter: {self._count} fingerprints of {self._width} bits>"

    @classmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of the keys with these 63-bit hashes, wrong at most at ``error_rate``.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or a hash is out of range.
        """
        distinct = distinct_hashes(hashes)
        check_arguments(len(distinct), error_rate)
        return cls(
            distinct, min(fingerprint_bits_for(len(distinct), error_rate), MAX_FINGERPRINT_BITS)
        )

    @classmethod
    def from_keys(cls, keys: Iterable[bytes], error_rate: float) -> Self:
        """The filter of ``keys``, wrong at most at ``error_rate``.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1.
        """
        return cls.from_hashes([hash_key(key) for key in keys], error_rate)

    @property
    def fingerprint_bits(self) -> int:
        """Length of a fingerprint, in bits."""
        return self._width

    @property
    def byte_count(self) -> int:
        """Size of the packed fingerprints, in bytes."""
        return len(self._packed)

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.  O(log n)."""
        width: i64 = self._width
        wanted: i64 = h >> (_HASH_BITS - width)
        low: i64 = 0
        high: i64 = self._count
        while low < high:
            middle: i64 = (low + high) >> 1
            found: i64 = read(self._packed, middle, width)
            if found == wanted:
                return True
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return False

    def key_count(self) -> float:
        """The number of different fingerprints: that of keys, less the few that share one."""
        return self._count

    def expected_rate(self) -> float:
        """The false-positive rate: the part of all possible fingerprints that is there.  O(1).

        Before the keys are known it is :func:`~lsmkv.filters.maths.rates.fingerprint_rate` on average.
        """
        return float(self._count * 2.0**-self._width)

    def _parameters(self) -> tuple[int, ...]:
        return (self._width, self._count)

    def _body(self) -> bytes:
        return bytes(self._packed)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        width, count = parts.parameters((1, MAX_FINGERPRINT_BITS), (0, _MAX_COUNT))
        packed = bytearray(parts.body(packed_bytes(count, width)))
        restored = cls([], width)
        restored._count = count
        restored._packed = packed
        last = -1
        for index in range(count):
            fingerprint = read(packed, index, width)
            if fingerprint <= last:
                raise parts.corrupt(f"fingerprint {index} is out of order")
            last = fingerprint
        return restored
