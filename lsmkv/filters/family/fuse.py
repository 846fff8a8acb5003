"""Binary fuse filters as objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import HashedFilter, distinct_hashes
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.fuse import build, is_shape, may_contain
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.layouts import (
    FUSE_WIDTHS,
    fuse_fingerprint_bits_for,
    fuse_rate,
)

FUSE_KIND: Final = 11


class BinaryFuseFilter(HashedFilter):
    """A static filter of a set of keys, with fingerprints of 8 or 16 bits.

    Args:
        hashes: the 63-bit hashes of the keys; repeats do no harm.
        fingerprint_bits: 8 or 16; the error rate is 2**-fingerprint_bits.

    Raises:
        ValueError: ``fingerprint_bits`` or a hash is out of range.
        FilterBuildError: no seed worked, which chance alone does not bring about.

    O(n) to build, in memory of some hundred bytes per key meanwhile.

    >>> f = BinaryFuseFilter.from_keys([b"a", b"b"], 0.01)
    >>> f.may_contain(b"a"), f.may_contain(b"c"), f.fingerprint_bits, f.expected_rate()
    (True, False, 8, 0.00390625)
    """

    KIND: ClassVar[int] = FUSE_KIND

    def __init__(self, hashes: Iterable[int], fingerprint_bits: int) -> None:
        if fingerprint_bits not in FUSE_WIDTHS:
            raise ValueError(f"fingerprint_bits={fingerprint_bits!r}: must be 8 or 16")
        distinct = distinct_hashes(hashes)
        self._width = fingerprint_bits
        self._count = len(distinct)
        self._bits = build(distinct, fingerprint_bits)

    def __repr__(self) -> str:
        return f"<BinaryFuseFilter: {self._count} keys, {self._width}-bit fingerprints>"

    @classmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of the keys with these 63-bit hashes.

        Fingerprints have 8 bits where that is enough for ``error_rate``, else 16, and then the rate
        is 1.5e-5 even where a lower one was asked for.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or a hash is out of range.
            FilterBuildError: no seed worked, which chance alone does not bring about.
        """
        return cls(hashes, fuse_fingerprint_bits_for(error_rate))

    @classmethod
    def from_keys(cls, keys: Iterable[bytes], error_rate: float) -> Self:
        """The filter of ``keys``; otherwise as :meth:`from_hashes`."""
        return cls.from_hashes([hash_key(key) for key in keys], error_rate)

    @property
    def fingerprint_bits(self) -> int:
        """Length of a fingerprint, in bits."""
        return self._width

    @property
    def byte_count(self) -> int:
        """Size of header and cells, in bytes."""
        return len(self._bits)

    @property
    def bits(self) -> bytes:
        """Header and cells, as :func:`build` gives them."""
        return self._bits

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.  O(1)."""
        return may_contain(self._bits, 0, len(self._bits), self._width, h)

    def key_count(self) -> float:
        """How many distinct keys the filter was built from: exact.  O(1)."""
        return self._count

    def expected_rate(self) -> float:
        """The false-positive rate, 2**-fingerprint_bits.  O(1)."""
        return fuse_rate(self._width)

    def _parameters(self) -> tuple[int, ...]:
        return (self._width, self._count)

    def _body(self) -> bytes:
        return self._bits

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        width, count = parts.parameters((FUSE_WIDTHS[0], FUSE_WIDTHS[-1]), (0, MAX_BYTES))
        bits = parts.body(parts.body_length)
        if width not in FUSE_WIDTHS or not is_shape(bits, width):
            raise parts.corrupt("cells of a binary fuse filter do not fill segments")
        if count > len(bits):
            raise parts.corrupt(f"{count} keys do not fit into {len(bits)} bytes")
        restored = cls([], width)
        restored._count = count
        restored._bits = bits
        return restored
