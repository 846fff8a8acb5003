"""Searching keys of one length by their heads: their first bytes, up to seven, as big-endian numbers.

The keys stand one after another, with at least eight bytes before the first, so that a head is read as
the last bytes of an eight-byte word.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    read_i64_be,
    read_i64_le,
)
from mypy_extensions import i64

from lsmkv.encoding.words import short_number

_MASK_63: Final = i64(0x7FFF_FFFF_FFFF_FFFF)

_ONE: Final = i64(1)


def head_of(key: bytes, at: i64, end: i64, width: i64) -> i64:
    """``width`` bytes of ``key[at:end]``, up to 7, zero-padded, as a big-endian number."""
    length = min(end - at, width)
    return short_number(key, at, length) << (8 * (width - length))


def first_head(raw: bytes, keys: i64, stride: i64, count: i64, width: i64, target: i64) -> i64:
    """Position of the first of ``count`` keys whose head of ``width`` bytes is ``target`` or above.

    They stand in ``raw`` from ``keys`` on, ``stride`` bytes each.  O(log count).
    """
    mask = (_ONE << (8 * width)) - 1
    at = keys + width - 8  # eight bytes that end with the first key's head
    low: i64 = 0
    while count > 1:
        half = count >> 1
        below = (read_i64_be(raw, at + stride * (low + half - 1)) & mask) - target
        low += half & (below >> 63)  # no branch: every other one would be foreseen wrongly
        count -= half
    return low + (1 if (read_i64_be(raw, at + stride * low) & mask) < target else 0)


def end_before_head(
    raw: bytes, keys: i64, width: i64, at: i64, end: i64, target: i64, reverse: bool
) -> i64:
    """How far from position ``at`` towards ``end`` (not included) keys of ``width`` bytes lie before.

    Before is below ``target``, or with ``reverse``, which goes downwards, above.  The key at ``at``
    does.  It gallops: O(log(distance)).
    """
    mask = (_ONE << (8 * width)) - 1
    direction: i64 = -1 if reverse else 1
    length = (end - at) * direction
    first = keys + width - 8 + width * at  # eight bytes that end with the key at ``at``
    stride = width * direction
    low: i64 = 1
    step: i64 = 1
    while (
        step < length
        and ((read_i64_be(raw, first + stride * step) & mask) - target) * direction < 0
    ):
        low = step + 1
        step *= 2
    high = min(step, length)
    while low < high:
        middle = (low + high) >> 1
        if ((read_i64_be(raw, first + stride * middle) & mask) - target) * direction < 0:
            low = middle + 1
        else:
            high = middle
    return at + low * direction


def fence(key: bytes, prefix_length: i64) -> i64:
    """The 63-bit fence of ``key``; never descends as keys ascend."""
    length = len(key) - prefix_length
    if length >= 8:
        return (read_i64_be(key, prefix_length) >> 1) & _MASK_63
    if length <= 0:
        return 0
    if prefix_length + length >= 8:  # the eight bytes that end with it, of which the first fall off
        return ((read_i64_be(key, prefix_length + length - 8) << (64 - 8 * length)) >> 1) & _MASK_63
    return short_number(key, prefix_length, length) << (63 - 8 * length)


def lower_bound(data: bytes, at: i64, count: i64, target: i64) -> i64:
    """Position of the first of ``count`` ascending fences that is ``target`` or above.

    ``data`` holds them from ``at`` on, 8 bytes each, little-endian.  ``count`` when there is none.
    O(log count).
    """
    if count == 0:
        return 0
    low = at
    while count > 1:
        half = count >> 1
        # The sign moves it, and no branch: every other one would be foreseen wrongly.
        low += (8 * half) & ((read_i64_le(data, low + 8 * half - 8) - target) >> 63)
        count -= half
    return ((low - at) >> 3) + (1 if read_i64_le(data, low) < target else 0)
