"""Elias-Fano: ascending numbers in little more than the fewest bits, searched in place.

n numbers below 2^l * u take n * (l + 1) + u bits.  Each number's lowest l bits stand in an array.  The
rest, which ascends from 0 to below u, is written in unary: number i, with the rest h, sets bit ``h + i``
of ``n + u`` bits.  So each bit that is not set passes on to the next h.  The unary bits come first, and
the array ends with the last byte: of B bytes, number i has the l bits from ``8 * B - (n - i) * l`` on,
the lowest first.  Bits that rounding leaves over count as unary ones.

Bit b is bit ``b % 8`` (from the least significant) of byte ``b // 8``.

Sources: P. Elias, "Efficient storage and retrieval by content and address of static files", JACM 21(2),
1974; R. M. Fano, "On the number of bits required to implement an associative memory", MIT, 1971.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le
from librt.vecs import vec
from mypy_extensions import i64, u8

MAX_LOW_BITS: Final = 56
"""Most low bits: a word less the 7 bits by which a read may be out of place, and a sign."""

_ONE: Final = i64(1)  # mypyc would shift a literal as a C int
_PAIRS: Final = 0x5555_5555_5555_5555
_FOURS: Final = 0x3333_3333_3333_3333
_BYTES: Final = 0x0F0F_0F0F_0F0F_0F0F
_SUMS: Final = 0x0101_0101_0101_0101


def build(numbers: list[int], low_bits: i64, byte_count: i64) -> bytes:
    """The sequence of ``numbers``, which ascend, in ``byte_count`` bytes, which hold it.  O(n)."""
    bits = vec[u8]([0] * byte_count)
    ones = vec[u8]([1, 2, 4, 8, 16, 32, 64, 128])  # looked up: a shifted bit would be no u8
    mask = (_ONE << low_bits) - 1
    low_at: i64 = 8 * byte_count - len(numbers) * low_bits
    for position in range(len(numbers)):
        number: i64 = numbers[position]
        bit = (number >> low_bits) + position
        bits[bit >> 3] = bits[bit >> 3] | ones[bit & 7]
        place = low_at >> 3
        part = (number & mask) << (low_at & 7)
        while part:
            bits[place] = u8(i64(bits[place]) | (part & 0xFF))
            part >>= 8
            place += 1
        low_at += low_bits
    return bytes(bits)


def number_at(
    bits: bytes, start: i64, byte_count: i64, count: i64, low_bits: i64, position: i64, bit: i64
) -> i64:
    """Number ``position`` of the sequence, whose unary bit is ``bit``.  O(1)."""
    low_at = (start << 3) + (byte_count << 3) - (count - position) * low_bits
    word = word_at(bits, low_at >> 3) >> (low_at & 7)
    return ((bit - position) << low_bits) | (word & ((_ONE << low_bits) - 1))


def first_between(
    bits: bytes, start: i64, byte_count: i64, count: i64, low_bits: i64, least: i64, most: i64
) -> i64:
    """The position of the first number from ``least`` to ``most``, or -1; any bytes will do."""
    end = (byte_count << 3) - count * low_bits
    high = least >> low_bits
    last = most >> low_bits
    bit = after_unset(bits, start, end, high)
    while bit < end:
        if (bits[start + (bit >> 3)] >> (bit & 7)) & 1:
            position = bit - high
            if position >= count:
                return -1  # only where the bytes are no sequence
            number = number_at(bits, start, byte_count, count, low_bits, position, bit)
            if number >= least:
                if number > most:
                    return -1
                return position
        else:
            high += 1
            if high > last:
                return -1
        bit += 1
    return -1


def after_unset(bits: bytes, start: i64, end: i64, count: i64) -> i64:
    """The bit after the first ``count`` unset bits; ``end`` if there are fewer before it."""
    bit: i64 = 0
    while count > 0 and bit < end:
        word = ~word_at(bits, start + (bit >> 3))
        sums = word - ((word >> 1) & _PAIRS)
        sums = (sums & _FOURS) + ((sums >> 2) & _FOURS)
        sums = ((sums + (sums >> 4)) & _BYTES) * _SUMS  # byte i: those in bytes 0 to i
        total = (sums >> 56) & 0xFF
        if total < count:
            count -= total
            bit += 64
            continue
        passed: i64 = 0
        while sums & 0xFF < count:
            passed = sums & 0xFF
            sums >>= 8
            bit += 8
        if bit >= end:
            return end
        count -= passed
        byte: i64 = bits[start + (bit >> 3)]
        byte ^= 0xFF
        while count > 0:
            count -= byte & 1
            byte >>= 1
            bit += 1
    if bit > end:
        return end
    return bit


def word_at(bits: bytes, at: i64) -> i64:
    """The eight bytes from ``at`` on as a little-endian number; 0 for those behind the end."""
    end: i64 = len(bits)
    if at + 8 <= end:
        return read_i64_le(bits, at)
    word: i64 = 0
    while end > at:
        end -= 1
        word = (word << 8) | bits[end]
    return word
