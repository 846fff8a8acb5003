"""The cache-line blocked Bloom filter: all probes of a key fall into one line of 64 bytes.

A look-up touches one cache line, however large the filter.  The price is error rate: keys are
shared out among the lines by chance, and overfull lines err more than underfull ones make good.

The first multiple of a key's hash (see :mod:`lsmkv.filters.bloom`) chooses the line; the top 9
bits of each of the next k multiples choose a bit of it.

Source: F. Putze, P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters", WEA
2007.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.filters.base import MAX_BYTES, bits_set, keys_by_fill
from lsmkv.filters.bloom import MASK_63, MULTIPLIER
from lsmkv.filters.classic import BitFilter
from lsmkv.filters.layouts import (
    LINE_BITS,
    LINE_BYTES,
    blocked_lines_for,
    blocked_probes_for,
    blocked_rate,
)
from lsmkv.filters.rates import check_arguments
from lsmkv.filters.saved import MAX_PROBES_SAVED, SavedParts

BLOCKED_KIND: Final = 5
_LINE_SHIFT: Final = 9  # 2**9 bits in a line
_BIT_SHIFT: Final = 63 - _LINE_SHIFT


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

        See :func:`~lsmkv.filters.layouts.blocked_rate`.
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


def build(hashes: list[int], line_count: int, probe_count: int) -> bytes:
    """The bits of a filter of ``line_count`` lines that holds every hash of ``hashes``.

    O(len(hashes) * probe_count).
    """
    bits = bytearray(line_count * LINE_BYTES)
    for h in hashes:
        set_in_line(bits, probe_count, h)
    return bytes(bits)


def set_in_line(bits: bytearray, probe_count: i64, h: i64) -> None:
    """Set the bits of the hash ``h``.  O(probe_count)."""
    h = (h * MULTIPLIER) & MASK_63
    line_count: i64 = len(bits) >> 6
    first: i64 = ((h >> 31) * line_count) >> 32 << _LINE_SHIFT
    for _ in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = first + (h >> _BIT_SHIFT)
        bits[bit >> 3] |= 1 << (bit & 7)


def may_contain(bits: bytes, start: i64, byte_count: i64, probe_count: i64, h: i64) -> bool:
    """Whether the filter in ``bits[start : start + byte_count]`` may hold the hash ``h``.

    False is certain.  A filter of less than a line may hold anything.  O(probe_count).
    """
    line_count: i64 = byte_count >> 6
    if line_count == 0:
        return True
    h = (h * MULTIPLIER) & MASK_63
    first: i64 = (start << 3) + (((h >> 31) * line_count) >> 32 << _LINE_SHIFT)
    for _ in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = first + (h >> _BIT_SHIFT)
        if not (bits[bit >> 3] >> (bit & 7)) & 1:
            return False
    return True
