"""Register-blocked Bloom filters as objects."""

from __future__ import annotations

import math
from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.filters.blocked import _BIT_SHIFT, _LINE_SHIFT, set_in_line
from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.family.base import bits_set, keys_by_fill
from lsmkv.filters.family.classic import BitFilter
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedParts
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths.layouts import (
    LINE_BITS,
    LINE_BYTES,
    blocked_lines_for,
    blocked_probes_for,
    blocked_rate,
)
from lsmkv.filters.maths.rates import check_arguments

BLOCKED_KIND: Final = 5


class BlockedBloomFilter(BitFilter):
    """A Bloom filter that keeps each key in one cache line.

    Args:
        line_count: size of the array of bits, in lines of 64 bytes.
        probe_count: bits that each key sets in its line, k, 1 to 255.

    Raises:
        ValueError: an argument is out of range.

    >>> f = BlockedBloomFilter.for_keys(1000, 0.01)
    >>> f.add(b"a")
    >>> f.may_contain(b"a"), f.may_contain(b"b"), f.line_count, f.byte_count
    (True, False, 20, 1280)
    """

    KIND: ClassVar[int] = BLOCKED_KIND

    def __init__(self, line_count: int, probe_count: int) -> None:
        super().__init__(line_count * LINE_BYTES, probe_count)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(line_count={self.line_count}, probe_count={self._probe_count})"
        )

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys: the fewest lines, and their best k.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or the filter would be too
                large.
        """
        check_arguments(key_count, error_rate)
        line_count = blocked_lines_for(key_count, error_rate)
        return cls(line_count, blocked_probes_for(line_count, key_count))

    @property
    def line_count(self) -> int:
        """Number of lines of 64 bytes."""
        return len(self._bits) // LINE_BYTES

    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h``.  O(k)."""
        set_in_line(self._bits, self._probe_count, h)

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.  O(k)."""
        bits = self._bits
        word: i64 = h
        word = (word * MULTIPLIER) & MASK_63
        line_count: i64 = len(bits) >> 6
        first: i64 = ((word >> 31) * line_count) >> 32 << _LINE_SHIFT
        for _ in range(self._probe_count):
            word = (word * MULTIPLIER) & MASK_63
            bit: i64 = first + (word >> _BIT_SHIFT)
            if not (bits[bit >> 3] >> (bit & 7)) & 1:
                return False
        return True

    def key_count(self) -> float:
        """About how many distinct keys were added: the sum of what each line says.  O(m).

        Infinite when all bits of some line are set.
        """
        return math.fsum(
            [
                keys_by_fill(
                    bits_set(self._bits[start : start + LINE_BYTES]), LINE_BITS, self._probe_count
                )
                for start in range(0, len(self._bits), LINE_BYTES)
            ]
        )

    def expected_rate(self, key_count: int) -> float:
        """The exact false-positive rate with ``key_count`` distinct keys in the filter.

        See :func:`~lsmkv.filters.maths.layouts.blocked_rate`.
        """
        return blocked_rate(self.line_count, key_count, self._probe_count)

    def _with_bits(self, bits: bytearray) -> Self:
        same = type(self)(len(bits) // LINE_BYTES, self._probe_count)
        same._bits = bits
        return same

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        byte_count, probe_count = parts.parameters((LINE_BYTES, MAX_BYTES), (1, MAX_PROBES_SAVED))
        body = parts.body(byte_count)
        if byte_count % LINE_BYTES:
            raise parts.corrupt(f"{byte_count} bytes are not whole lines")
        restored = cls(byte_count // LINE_BYTES, probe_count)
        restored._bits = bytearray(body)
        return restored
