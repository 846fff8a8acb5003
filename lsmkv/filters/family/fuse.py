"""The binary fuse filter as an object: see :mod:`lsmkv.filters.fuse`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import StaticFilter, distinct_hashes
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.fuse import build, is_shape, may_contain
from lsmkv.filters.maths.layouts import FUSE_WIDTHS, fuse_fingerprint_bits_for, fuse_rate


class BinaryFuseFilter(StaticFilter):
    """A static filter with fingerprints of 8 or 16 bits.

    ``hashes`` are the 63-bit hashes of the keys; repeats do no harm.  The error rate is
    2**-fingerprint_bits.  O(n) to build, in memory of some hundred bytes per key meanwhile; O(1) to ask.

    Raises:
        FilterBuildError: no seed worked, which is not to be expected by chance.

    >>> f = BinaryFuseFilter.from_keys([b"a", b"b"], 0.01)
    >>> f.may_contain(b"a"), f.may_contain(b"c"), f.fingerprint_bits, f.expected_rate()
    (True, False, 8, 0.00390625)
    """

    KIND = 11

    def __init__(self, hashes: Iterable[int], fingerprint_bits: int) -> None:
        if fingerprint_bits not in FUSE_WIDTHS:
            raise ValueError(f"fingerprint_bits={fingerprint_bits!r}: must be 8 or 16")
        distinct = distinct_hashes(hashes)
        super().__init__(fingerprint_bits, len(distinct))
        self._bits = build(distinct, fingerprint_bits)

    def __repr__(self) -> str:
        return f"<BinaryFuseFilter: {self._count} keys, {self.fingerprint_bits}-bit fingerprints>"

    @classmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of the keys with these 63-bit hashes.

        The rate is 2**-8 where that is low enough, else 2**-16, even if a lower one was asked for.
        """
        return cls(hashes, fuse_fingerprint_bits_for(error_rate))

    @property
    def byte_count(self) -> int:
        """Size, in bytes."""
        return len(self._bits)

    @property
    def bits(self) -> bytes:
        """Header and cells, as :func:`lsmkv.filters.fuse.build` gives them."""
        return self._bits

    def may_contain_hash(self, h: int, /) -> bool:
        return may_contain(self._bits, 0, len(self._bits), self.fingerprint_bits, h)

    def key_count(self) -> float:
        """How many distinct keys the filter was built from: exact."""
        return self._count

    def expected_rate(self) -> float:
        """The false-positive rate, 2**-fingerprint_bits."""
        return fuse_rate(self.fingerprint_bits)

    def _body(self) -> bytes:
        return self._bits

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        width, count = parts.checked_parameters(FUSE_WIDTHS, (0, MAX_BYTES))
        bits = parts.body
        if width not in FUSE_WIDTHS or not is_shape(bits, width):
            raise parts.corrupt("cells of a binary fuse filter do not fill segments")
        if count > len(bits):
            raise parts.corrupt(f"{count} keys do not fit into {len(bits)} bytes")
        restored = cls([], width)
        restored._count = count
        restored._bits = bits
        return restored
