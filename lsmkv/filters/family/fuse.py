"""The binary fuse filter as an object: see :mod:`lsmkv.filters.fuse`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import SolvedFilter, distinct_hashes
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.fuse import build, is_shape, may_contain
from lsmkv.filters.maths.layouts import FUSE_WIDTHS, fuse_fingerprint_bits_for


class BinaryFuseFilter(SolvedFilter):
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

    @classmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of these hashes; its rate is 2**-8 where that is enough, else 2**-16."""
        return cls(hashes, fuse_fingerprint_bits_for(error_rate))

    def may_contain_hash(self, h: int, /) -> bool:
        return may_contain(self._bits, 0, len(self._bits), self.fingerprint_bits, h)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        width, count = parts.checked_parameters(FUSE_WIDTHS, (0, MAX_BYTES))
        bits = parts.body
        if width not in FUSE_WIDTHS or not is_shape(bits, width):
            raise parts.corrupt("cells of a binary fuse filter do not fill segments")
        if count > len(bits):
            raise parts.corrupt(f"{count} keys do not fit into {len(bits)} bytes")
        return cls([], width)._with_solution(bits, count)
