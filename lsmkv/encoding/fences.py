"""Fences: the first bytes of keys as integers, and binary searches among them.

Keys, which are dear to compare, are compared only where their fences are equal.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be, read_i64_le
from mypy_extensions import i64

from lsmkv.encoding.words import short_number

MASK_63: Final = i64(0x7FFF_FFFF_FFFF_FFFF)
_ONE: Final = i64(1)


def fence(data: bytes, start: i64, end: i64) -> i64:
    """The first 8 bytes of ``data[start:end]`` as an integer of 63 bits.

    Big-endian, zero-padded, without the lowest bit: the integer is the same in Python and in a signed
    machine word.  Fences never descend as keys ascend.
    """
    length = end - start
    if length >= 8:
        return (read_i64_be(data, start) >> 1) & MASK_63
    if length <= 0:
        return 0
    if end >= 8:  # the 8 bytes before ``end``, less those before ``start``
        return ((read_i64_be(data, end - 8) << (64 - 8 * length)) >> 1) & MASK_63
    return short_number(data, start, length) << (63 - 8 * length)


def lower_bound(data: bytes, at: i64, count: i64, target: i64) -> i64:
    """Position of the first of ``count`` fences that is not below ``target``.

    They ascend in ``data`` from ``at`` on, 8 bytes each, little-endian.  ``count`` when there is none.
    """
    if count == 0:
        return 0
    low = at
    while count > 1:
        half = count >> 1
        # Arithmetic on the sign instead of a branch, which would be mispredicted every other time.
        low += (8 * half) & ((read_i64_le(data, low + 8 * half - 8) - target) >> 63)
        count -= half
    return ((low - at) >> 3) + (1 if read_i64_le(data, low) < target else 0)


def first_head(raw: bytes, keys: i64, stride: i64, count: i64, width: i64, target: i64) -> i64:
    """Position of the first of ``count`` keys whose head reaches ``target``.

    A head is a key's first ``width`` bytes, up to 7, as a big-endian integer.  The keys ascend in ``raw``
    from ``keys`` on, ``stride`` bytes each, with at least 8 bytes before the first.  ``count`` when there
    is none.
    """
    mask = (_ONE << (8 * width)) - 1
    at = keys + width - 8  # the 8 bytes that end with the first key's head
    low: i64 = 0
    while count > 1:
        half = count >> 1
        below = (read_i64_be(raw, at + stride * (low + half - 1)) & mask) - target
        low += half & (below >> 63)  # no branch, as above
        count -= half
    return low + (1 if (read_i64_be(raw, at + stride * low) & mask) < target else 0)


def end_before_head(
    raw: bytes, keys: i64, width: i64, at: i64, end: i64, target: i64, reverse: bool
) -> i64:
    """The first position towards ``end`` whose key is not before ``target``.

    Before means below, or above when ``reverse``, which goes downwards.  The key at ``at`` is before; the
    result is ``end`` when all are.  Keys are ``width`` bytes long, up to 7, and stand as for
    :func:`first_head`.  Galloping search: O(log distance).
    """
    mask = (_ONE << (8 * width)) - 1
    direction: i64 = -1 if reverse else 1
    length = (end - at) * direction
    first = keys + width - 8 + width * at  # the 8 bytes that end with the key at ``at``
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
