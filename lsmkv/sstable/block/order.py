"""Whether the keys of a block ascend: what a merge goes by, and a block's checksum does not tell."""

from __future__ import annotations

from operator import le, lt
from typing import Final

from librt.strings import read_i32_le, read_i64_be
from mypy_extensions import i64

from lsmkv.encoding.words import COMPILED, compare
from lsmkv.sstable.block.lengths import append_parts

_ONE: Final = i64(1)
_SIGN: Final = i64(-1 << 63)  # turns numbers without a sign into those with one, in their order


def ascend(
    raw: bytes, at: i64, count: i64, width: i64, ends: bytes, most: i64, may_repeat: bool
) -> bool:
    """Whether the ``count`` keys that stand in ``raw`` from ``at`` on ascend, none over ``most`` bytes.

    Each is ``width`` bytes long, or else they end where ``ends`` says.  At least eight bytes stand
    before the first.

    Args:
        may_repeat: whether neighbours may be the same.
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
    """Whether each key of ``width`` bytes, up to 7, is ``least`` or more above the one before.

    The first ends eight bytes after ``at``.
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
