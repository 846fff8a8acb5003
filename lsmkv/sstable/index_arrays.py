"""Checks of an index's packed arrays, each in one pass.

An array starts at ``at`` in ``data``, which must hold all of it.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i16_le, read_i32_le, read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

_SLOTS: Final = 256
_SPREAD: Final = 31  # spreads shapes over the slots: lengths hardly differ, parameters are small


def last_of_ascending(data: bytes, at: i64, width: i64, last: i64, step: i64) -> i64:
    """The array's item ``last``; -1 if an item breaks the order.

    The items up to it, unsigned numbers of ``width`` bytes (4 or 8), must ascend from 0 by at most
    ``step``.
    """
    before = number_at(data, at, width)
    if before != 0:
        return -1
    end = at + width * last
    while at < end:
        at += width
        number = number_at(data, at, width)
        if number < before or number - before > step:  # or 2^63 and above
            return -1
        before = number
    return before


def number_at(data: bytes, at: i64, width: i64) -> i64:
    """The unsigned number of 2, 4 or 8 bytes; 2^63 and above come out negative."""
    if width == 8:
        return read_i64_le(data, at)
    if width == 4:
        return i64(read_i32_le(data, at)) & 0xFFFF_FFFF
    return i64(read_i16_le(data, at)) & 0xFFFF


def last_of_ascending_pairs(data: bytes, at: i64, other_at: i64, count: i64, lowest: i64) -> i64:
    """The last item of ``other_at``; -1 unless the pairs ascend from ``lowest``.

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
    """The sum of ``count`` 32-bit numbers; -1 unless all are positive."""
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
        stop = number_at(data, ends_at + 4 * position + 4, 4)
        shape = (stop - start) << 8 | data[parameters_at + position]
        slot = ((stop - start) * _SPREAD + shape) & (_SLOTS - 1)
        if noted[slot] != shape:
            noted[slot] = shape
            shapes.add(shape)
        start = stop
        position += 1
    return shapes
