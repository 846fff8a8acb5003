"""Checks of an index's arrays, each in one pass over packed numbers.

An array starts at ``at`` in ``data``, which must hold all of it.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le, read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

_SLOTS: Final = 256
_SPREAD: Final = 31  # spreads shapes over the slots: lengths hardly differ, parameters are small


def last_of_ascending_u64(data: bytes, at: i64, last: i64, step: i64) -> i64:
    """The array's item ``last``; -1 unless the items up to it ascend from 0 by at most ``step``."""
    before: i64 = 0
    end = at + 8 * last
    if read_i64_le(data, at) != 0:
        return -1
    while at < end:
        at += 8
        number = read_i64_le(data, at)
        if number < before or number - before > step:  # or 2^63 and above
            return -1
        before = number
    return before


def last_of_ascending_u32(data: bytes, at: i64, last: i64, step: i64) -> i64:
    """As :func:`last_of_ascending_u64`, for 32-bit numbers."""
    before: i64 = 0
    end = at + 4 * last
    if read_i32_le(data, at) != 0:
        return -1
    while at < end:
        at += 4
        number = i64(read_i32_le(data, at)) & 0xFFFF_FFFF
        if number < before or number - before > step:
            return -1
        before = number
    return before


def last_of_ascending_pairs(data: bytes, at: i64, other_at: i64, count: i64, lowest: i64) -> i64:
    """The last item of the array ``other_at``; -1 unless the pairs ascend from ``lowest``.

    Each pair is an item of the array ``at`` and one of ``other_at``, signed 64-bit numbers.
    """
    if read_i64_le(data, at) != lowest:
        return -1
    before = lowest
    end = at + 8 * count
    while at < end:
        first, last = read_i64_le(data, at), read_i64_le(data, other_at)
        if first < before or last < first:
            return -1
        before = last
        at += 8
        other_at += 8
    return before


def sum_of_positive(data: bytes, at: i64, count: i64) -> i64:
    """The sum of ``count`` 32-bit numbers; -1 if one of them is 0, or 2^31 or above."""
    total: i64 = 0
    end = at + 4 * count
    while at < end:
        number = i64(read_i32_le(data, at))
        if number <= 0:
            return -1
        total += number
        at += 4
    return total


def filter_shapes(data: bytes, ends_at: i64, parameters_at: i64, count: i64) -> set[int]:
    """The distinct shapes of ``count`` filters, each ``length << 8 | parameter``.

    At ``ends_at`` are a 0 and the filters' ends, 32 bits each; at ``parameters_at`` one byte each.
    """
    shapes: set[int] = set()
    noted = vec[i64]([-1] * _SLOTS)  # shapes already in the set, which is slower to ask
    start: i64 = 0
    position: i64 = 0
    while position < count:
        stop = i64(read_i32_le(data, ends_at + 4 * position + 4)) & 0xFFFF_FFFF
        shape = (stop - start) << 8 | data[parameters_at + position]
        slot = ((stop - start) * _SPREAD + shape) & (_SLOTS - 1)
        if noted[slot] != shape:
            noted[slot] = shape
            shapes.add(shape)
        start = stop
        position += 1
    return shapes
