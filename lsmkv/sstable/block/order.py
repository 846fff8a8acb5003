"""Checks that the keys of a block ascend: merges rely on it, and no checksum covers it."""

from __future__ import annotations

from operator import le, lt
from typing import Final

from librt.strings import read_i32_le, read_i64_be
from mypy_extensions import i64

from lsmkv.encoding.words import COMPILED, compare
from lsmkv.sstable.block.lengths import append_parts

_ONE: Final = i64(1)
_SIGN: Final = i64(-1 << 63)  # maps unsigned numbers to signed ones, keeping their order


def ascend(
    raw: bytes, at: i64, count: i64, width: i64, ends: bytes, most: i64, may_repeat: bool
) -> bool:
    """Whether the run of keys at ``at`` ascends, with no key over ``most`` bytes.

    With ``may_repeat`` neighbours may be equal.  At least eight bytes precede the run.
    """
    if width > most:
        return False
    if not COMPILED:
        keys: list[bytes] = []
        append_parts(keys, raw, at, count, width, ends, 0)
        in_order = le if may_repeat else lt
        return max(map(len, keys)) <= most and all(map(in_order, keys, keys[1:]))
    if width == 0:
        return count == 1 or may_repeat
    least: i64 = 0 if may_repeat else 1
    if 0 < width < 8:
        return _numbers_ascend(raw, at + width - 8, count, width, least)
    start = at
    end = at + (width if width >= 0 else i64(read_i32_le(ends, 4)))
    if end - start > most:
        return False
    position: i64 = 1
    while position < count:
        position += 1
        stop = at + (width * position if width >= 0 else i64(read_i32_le(ends, 4 * position)))
        if stop - end > most:
            return False
        if end - start >= 8 and stop - end >= 8:
            low, high = read_i64_be(raw, start), read_i64_be(raw, end)
            if low != high:
                if (low ^ _SIGN) > (high ^ _SIGN):
                    return False
                start = end
                end = stop
                continue
        if compare(raw, start, end, raw, end, stop) > -least:
            return False
        start = end
        end = stop
    return True


def _numbers_ascend(raw: bytes, at: i64, count: i64, width: i64, least: i64) -> bool:
    """Whether each key, as a number of up to 7 bytes, exceeds the one before by ``least`` or more.

    ``at`` is eight bytes before the end of the first.
    """
    mask = (_ONE << (8 * width)) - 1
    before: i64 = -1
    while count > 0:
        number = read_i64_be(raw, at) & mask
        if number - before < least:
            return False
        before = number
        at += width
        count -= 1
    return True
