"""Elias-Fano sequences as objects: see :mod:`lsmkv.filters.elias_fano`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Final

from lsmkv.filters.elias_fano import MAX_LOW_BITS, SET, after, build, first_between, number_at

_STRETCH_BYTES: Final = 64
_STRETCH_BITS: Final = 8 * _STRETCH_BYTES


class EliasFano:
    """Ascending numbers in about log2(largest / n) + 2 bits each; equal ones may follow each other.

    A question takes O(log n).  For that the object counts bits in stretches of 512; the counts are not
    part of :attr:`bits`.

    Args:
        numbers: from 0 to 2**63 - 1, ascending.

    Raises:
        ValueError: a number lies outside that, or below the one before.

    >>> codes = EliasFano([3, 14, 15, 92, 653])
    >>> len(codes), codes[2], codes.next_at_least(16), codes.next_at_least(654), codes.byte_count
    (5, 15, 92, None, 6)
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        held = list(numbers)
        for number in held:
            if not 0 <= number < 1 << 63:
                raise ValueError(f"number {number!r}: must lie between 0 and 2**63 - 1")
        for before, number in pairwise(held):
            if number < before:
                raise ValueError(f"number {number!r} follows {before!r}: numbers must ascend")
        universe = held[-1] + 1 if held else 0
        low_bits = max(0, (universe // max(1, len(held))).bit_length() - 1)
        self.low_bits: Final = min(low_bits, MAX_LOW_BITS)
        """Bits of each number that stand in an array."""
        self._count = len(held)
        unary = len(held) + -(-universe >> self.low_bits)
        size = -(-(unary + len(held) * self.low_bits) // 8)
        self._bits = build(held, self.low_bits, size)
        self._end = 8 * size - len(held) * self.low_bits
        ones = [self._ones_of(stretch) for stretch in range(self._end // _STRETCH_BITS)]
        self._ones = list(accumulate(ones, initial=0))  # before each stretch of unary bits
        self._zeros = [_STRETCH_BITS * at - before for at, before in enumerate(self._ones)]

    def __repr__(self) -> str:
        return f"<EliasFano: {self._count} numbers in {self.byte_count} bytes>"

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> int:
        if position < 0:
            position += self._count
        if not 0 <= position < self._count:
            raise IndexError(f"position {position} of {self._count} numbers")
        stretch = bisect_right(self._ones, position) - 1
        missing = position + 1 - self._ones[stretch]
        bit = after(self._bits, 0, self._end, SET, missing, stretch * _STRETCH_BITS) - 1
        size = len(self._bits)
        return number_at(self._bits, 0, size, self._count, self.low_bits, position, bit)

    def __iter__(self) -> Iterator[int]:
        return (self[position] for position in range(self._count))

    @property
    def bits(self) -> bytes:
        """The sequence itself: unary bits, then low bits."""
        return self._bits

    @property
    def byte_count(self) -> int:
        """Size, in bytes."""
        return len(self._bits)

    def next_at_least(self, number: int) -> int | None:
        """The first number that is not below ``number``; None if there is none."""
        position = self.count_below(number)
        return self[position] if position < self._count else None

    def count_below(self, number: int) -> int:
        """How many numbers are below ``number``."""
        if number <= 0:
            return 0
        if not self._count or number > self[-1]:
            return self._count
        high = number >> self.low_bits
        stretch = max(0, bisect_left(self._zeros, high) - 1)
        return first_between(
            self._bits,
            0,
            len(self._bits),
            self._count,
            self.low_bits,
            number,
            self[-1],
            self._zeros[stretch],
            stretch * _STRETCH_BITS,
        )

    def _ones_of(self, stretch: int) -> int:
        at = stretch * _STRETCH_BYTES
        return int.from_bytes(self._bits[at : at + _STRETCH_BYTES], "little").bit_count()
