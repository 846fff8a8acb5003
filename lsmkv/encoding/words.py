"""Compares, searches and copies bytes in place, eight at a time.

A slice costs an allocation and a copy, and a method of ``bytes`` boxes its arguments: several times
what the comparison itself costs.  All ranges must be within bounds.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i64_be,
    read_i64_le,
    write_i64_le,
)
from mypy_extensions import i64

COMPILED: Final = i64(0x7FFF_FFFF_FFFF_FFFF) + 1 < 0
"""Whether this module is compiled, so that an ``i64`` is a machine word and wraps.

Code asks for it only where a loop over words is much faster compiled, and one call of a library
interpreted.  Both ways give the same bytes.
"""

_LOW_32: Final = 0xFFFF_FFFF
_ALL_BITS: Final = 0x3FFF_FFFF_FFFF_FFFF  # ``>> (62 - n)`` leaves n; C would shift a 1 as an int
_ONES: Final = 0x0001_0101_0101_0101
_SEVENS: Final = i64(0x7F7F_7F7F_7F7F_7F7F)  # too long for a literal, which would be boxed


def is_same(a: bytes, a_at: i64, b: bytes, b_at: i64, length: i64) -> bool:
    """Whether ``a[a_at : a_at + length] == b[b_at : b_at + length]``."""
    if length < 8:
        a_end, b_end = a_at + length, b_at + length
        if a_end >= 8 and b_end >= 8:  # whole words that end there, masked
            differing = read_i64_be(a, a_end - 8) ^ read_i64_be(b, b_end - 8)
            return differing & (_ALL_BITS >> (62 - 8 * length)) == 0
        return length == 0 or _tails_differ_by(a, a_end, b, b_end, length) == 0
    a_last, b_last = a_at + length - 8, b_at + length - 8
    while a_at < a_last:
        if read_i64_le(a, a_at) != read_i64_le(b, b_at):
            return False
        a_at += 8
        b_at += 8
    return read_i64_le(a, a_last) == read_i64_le(b, b_last)  # may overlap the word before


def compare(a: bytes, a_at: i64, a_end: i64, b: bytes, b_at: i64, b_end: i64) -> i64:
    """``a[a_at:a_end]`` against ``b[b_at:b_end]``: negative if below, 0 if equal, else positive."""
    longer = (a_end - a_at) - (b_end - b_at)
    length = b_end - b_at if longer > 0 else a_end - a_at
    while length >= 8:
        x = read_i64_be(a, a_at)
        y = read_i64_be(b, b_at)
        if x != y:  # compared as unsigned integers, half by half
            high = ((x >> 32) & _LOW_32) - ((y >> 32) & _LOW_32)
            return high if high else (x & _LOW_32) - (y & _LOW_32)
        a_at += 8
        b_at += 8
        length -= 8
    if length:
        difference = _tails_differ_by(a, a_at + length, b, b_at + length, length)
        if difference:
            return difference
    return longer


def _tails_differ_by(a: bytes, a_end: i64, b: bytes, b_end: i64, length: i64) -> i64:
    """The ``length`` (1 to 7) bytes before ``a_end`` minus those before ``b_end``."""
    if a_end >= 8 and b_end >= 8:  # read whole words that end there, and mask
        mask = _ALL_BITS >> (62 - 8 * length)
        return (read_i64_be(a, a_end - 8) & mask) - (read_i64_be(b, b_end - 8) & mask)
    return short_number(a, a_end - length, length) - short_number(b, b_end - length, length)


def find_byte(data: bytes, byte: i64, start: i64, end: i64) -> i64:
    """Where ``byte`` first occurs in ``data[start:end]``; -1 if nowhere."""
    signed = (byte ^ 0x80) - 0x80
    pattern = (signed << 56) + byte * _ONES  # the byte in all eight places
    while start + 8 <= end:
        # Matching bytes become zero.  Adding 127 to the low 7 bits of each byte sets its
        # highest bit unless they are 0 (Warren, Hacker's Delight, 6-1); no carry leaves a byte.
        word = read_i64_le(data, start) ^ pattern
        if ~(((word & _SEVENS) + _SEVENS) | word | _SEVENS):
            break
        start += 8
    while start < end:
        if data[start] == byte:
            return start
        start += 1
    return -1


def append_range(out: BytesWriter, data: bytes, at: i64, end: i64) -> None:
    """Append a short ``data[at:end]`` to ``out``."""
    if at == end:
        return
    length = len(out) + end - at
    last = i64(len(data)) - 8
    while at <= last:
        write_i64_le(out, read_i64_le(data, at))
        at += 8
        if at >= end:
            if at > end:
                out.truncate(length)  # the last word reached past ``end``
            return
    while at < end:
        out.append(data[at])
        at += 1


def common_prefix_length(keys: list[bytes]) -> i64:
    """How many leading bytes all the keys, at least one, share.

    >>> common_prefix_length([b"abcd", b"abX", b"abcde"])
    2
    """
    first = keys[0]
    length: i64 = len(first)
    for key in keys:
        if len(key) >= length and is_same(first, 0, key, 0, length):
            continue
        length = min(length, len(key))
        at: i64 = 0
        while at + 8 <= length and read_i64_le(first, at) == read_i64_le(key, at):
            at += 8
        while at < length and first[at] == key[at]:
            at += 1
        length = at
    return length


def short_number(data: bytes, at: i64, length: i64) -> i64:
    """The 0 to 7 bytes from ``at`` on as a big-endian integer."""
    end = at + length
    if end >= 8:  # read the word that ends there, and drop the bytes before ``at``
        word = read_i64_be(data, end - 8)
        return word - ((word >> (8 * length)) << (8 * length))
    number: i64 = 0
    while at < end:
        number = (number << 8) | data[at]
        at += 1
    return number
