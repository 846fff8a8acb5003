"""The ribbon filter as an object: see :mod:`lsmkv.filters.ribbon`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import SolvedFilter, check_range, distinct_hashes
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.fuse import FilterBuildError
from lsmkv.filters.maths.layouts import MAX_RIBBON_COLUMNS, ribbon_columns_for
from lsmkv.filters.ribbon import build, is_shape, may_contain

_COLUMN_LIMITS = (1, MAX_RIBBON_COLUMNS)


class RibbonFilter(SolvedFilter):
    """A static filter with one column for each bit of a fingerprint.

    O(n) to build; O(fingerprint_bits) to ask, and two columns on average when the answer is no.

    Args:
        hashes: the 63-bit hashes of the keys; repeats do no harm.
        fingerprint_bits: columns, 1 to 31; the error rate is 2**-fingerprint_bits.

    Raises:
        FilterBuildError: the keys are too many for one filter, or have no solution, which is not to
            be expected by chance.

    >>> f = RibbonFilter.from_keys([b"a", b"b"], 0.01)
    >>> f.may_contain(b"a"), f.may_contain(b"c"), f.fingerprint_bits, f.expected_rate()
    (True, False, 7, 0.0078125)
    """

    KIND = 13

    def __init__(self, hashes: Iterable[int], fingerprint_bits: int) -> None:
        check_range("fingerprint_bits", fingerprint_bits, _COLUMN_LIMITS)
        distinct = distinct_hashes(hashes)
        super().__init__(fingerprint_bits, len(distinct))
        built = build(distinct, fingerprint_bits)
        if distinct and not built:
            raise FilterBuildError(f"no ribbon filter holds these {len(distinct)} hashes")
        # Without keys: a slot in each column, or a few, all 0.  It has the rate of any other.
        self._bits = built or bytes(-(-fingerprint_bits // 8))

    @classmethod
    def from_hashes(cls, hashes: Iterable[int], error_rate: float) -> Self:
        """The filter of these hashes; its rate is the power of two at or below that."""
        return cls(hashes, ribbon_columns_for(error_rate))

    def may_contain_hash(self, h: int, /) -> bool:
        return may_contain(self._bits, 0, len(self._bits), self.fingerprint_bits, h)

    def _parameters(self) -> tuple[int, ...]:
        return (self.fingerprint_bits, self._count, len(self._bits))

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        columns, count, byte_count = parts.checked_parameters(
            _COLUMN_LIMITS, (0, 8 * MAX_BYTES), (1, MAX_BYTES)
        )
        bits = parts.checked_body(byte_count)
        if not is_shape(len(bits), columns):
            raise parts.corrupt(f"no ribbon filter of {columns} columns has {len(bits)} bytes")
        if count > 8 * len(bits) // columns:
            raise parts.corrupt(f"{count} keys do not fit into {len(bits)} bytes")
        return cls([], columns)._with_solution(bits, count)
