"""The groups of separators in an index, decoded (:mod:`lsmkv.sstable.index_layout`).

Bytes that do not fit their section are a ValueError with the reason.
"""

from __future__ import annotations

from binascii import hexlify
from bisect import bisect_left
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.sstable.index_layout import FENCE_BYTES, KEY_GROUP, LONG
from lsmkv.sstable.index_symbols import decoded

UNFIT: Final = "separators of the index do not fit their section"


def first_bytes(of_fence: int) -> bytes:
    """The bytes that a fence holds whole."""
    return (of_fence >> 7).to_bytes(FENCE_BYTES, "big")


# For each of the 8 characters of a word, in its byte.
_ONES: Final = 0x0101_0101_0101_0101
_LOW: Final = 0x0F0F_0F0F_0F0F_0F0F
EIGHT_ZEROS: Final = 0x3030_3030_3030_3030  # "00000000" as a big-endian word
_TO_LETTER: Final = 0x27  # from the character after 9 to a


def digits_code(word: i64, width: i64) -> i64:
    """The code of hexadecimal digits, the first ones of a big-endian word.

    It has ``width`` bytes, and is negative if one of the characters that make it is no digit.  All 8
    characters are looked at together.
    """
    digits = (word & _LOW) + 9 * ((word >> 6) & _ONES)  # letters have the bit of 64
    above_nine = ((digits + 6 * _ONES) >> 4) & _ONES
    wrong = word ^ (digits + EIGHT_ZEROS + _TO_LETTER * above_nine)  # else they give it back
    wrong |= digits & ~_LOW
    if wrong >> (64 - 16 * width):
        return -1
    digits = (digits | digits >> 4) & 0x00FF_00FF_00FF_00FF
    digits = (digits | digits >> 8) & 0x0000_FFFF_0000_FFFF
    return ((digits | digits >> 16) & 0xFFFF_FFFF) >> (32 - 8 * width)


DIGITS: Final = b"0123456789abcdef"


def digits_code_below(key: bytes, start: i64, width: i64) -> i64:
    """The largest code of ``width`` bytes whose digits are not above ``key[start:]``.

    ``key`` has another character there, or its end, before so many digits.
    """
    code: i64 = 0
    left = 2 * width
    while left > 0:
        left -= 1
        code <<= 4
        character = key[start] if start < len(key) else 0
        below = bisect_left(DIGITS, character)
        if character not in DIGITS:
            # A separator that ends here has the digit 0 for padding, and is not above the key.
            return code << 4 * left if below == 0 else ((code + below) << 4 * left) - 1
        code |= below
        start += 1
    return code


def digits_of(code: bytes) -> bytes:
    """The digits of a code, without the padding.

    >>> digits_of(bytes.fromhex("09a0"))
    b'09a'
    """
    return hexlify(code).rstrip(b"0")


def uncoded(code: bytes, of_digits: bool) -> bytes:
    """The bytes that a code stands for."""
    return digits_of(code) if of_digits else code.rstrip(b"\0")


def front_coded(
    data: bytes, at: i64, end: i64, count: i64, stored: int, symbols: i64
) -> tuple[list[bytes], i64]:
    """A group's separators and its end; its fence is ``stored``, its symbols at ``symbols``, or 0."""
    length, at = varint(data, at, end)
    rest = max(i64(0), length - FENCE_BYTES)
    if at + rest > end or stored < 0:
        raise ValueError(UNFIT)
    found = [first_bytes(stored)[:length] + decoded(data, at, at + rest, symbols)]
    base, at = varint(data, at + rest, end)
    for _ in range(count - 1):
        if at >= end:
            raise ValueError(UNFIT)
        kept, length, at = lengths(data, at + 1, end, i64(data[at]))
        before = found[-1]
        kept += base
        if at + length > end or kept > len(before):
            raise ValueError(UNFIT)
        rest_of = decoded(data, at, at + length, symbols)
        if kept + len(rest_of) > MAX_KEY_BYTES:
            raise ValueError(UNFIT)
        if rest_of[:1] == before[kept : kept + 1] != b"":
            raise ValueError("separators of the index share more than they say")
        found.append(before[:kept] + rest_of)
        at += length
    return found, at


def front_coded_one(
    data: bytes, at: i64, end: i64, number: i64, stored: int, symbols: i64
) -> bytes:
    """One separator of a group that was checked; arguments as of :func:`front_coded`."""
    kept = vec[i64]([0] * KEY_GROUP)
    starts = vec[i64]([0] * KEY_GROUP)
    ends = vec[i64]([0] * KEY_GROUP)
    length, at = varint(data, at, end)
    starts[0] = at
    kept[0] = min(length, i64(FENCE_BYTES))
    at += length - kept[0]
    ends[0] = at
    base, at = varint(data, at, end)
    each: i64 = 1
    while each <= number:
        kept[each], length, at = lengths(data, at + 1, end, i64(data[at]))
        kept[each] += base
        starts[each] = at
        at += length
        ends[each] = at
        each += 1
    parts = [decoded(data, starts[number], ends[number], symbols)]
    known = kept[number]
    while number > 0 and known > 0:  # what it has from the ones before
        number -= 1
        if kept[number] < known:
            part = decoded(data, starts[number], ends[number], symbols)
            parts.append(part[: known - kept[number]])
            known = kept[number]
    if known > 0:
        parts.append(first_bytes(stored)[:known])
    parts.reverse()
    return b"".join(parts)


def lengths(data: bytes, at: i64, end: i64, both: i64) -> tuple[i64, i64, i64]:
    """What a separator shares beyond the base; its rest: length, start; ``both`` is the byte before."""
    more: i64
    kept, length = both >> 4, both & LONG
    if kept == LONG:
        more, at = varint(data, at, end)
        kept += more
    if length == LONG:
        more, at = varint(data, at, end)
        length += more
    return kept, length, at


def varint(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """The number at ``at``, and where it ends."""
    number: i64 = 0
    shift: i64 = 0
    while at < end and shift <= 14:
        byte = i64(data[at])
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise ValueError(UNFIT)
