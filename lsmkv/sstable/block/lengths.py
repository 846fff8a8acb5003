"""Lengths of a block's keys and values, and taking what they measure apart."""

from __future__ import annotations

import struct
from typing import Any, Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.words import append_range

MOST_UNPACKED: Final = 1024  # stretches of bytes that are taken apart at a time
_MOST_FORMS: Final = 64  # ways to take them apart that are held, of 32 bytes for each stretch
_forms: Final[dict[int, struct.Struct]] = {}


def u32(raw: bytes, at: i64) -> int:
    """The 32-bit number without a sign at ``at``."""
    number: int = read_i32_le(raw, at)
    return number & 0xFFFF_FFFF


def common_width(raw: bytes, at: i64, end: i64, item_bytes: i64) -> i64:
    """What all the packed lengths in ``raw[at:end]``, of 2 or 4 bytes each, are; -1 when they differ."""
    last = end - item_bytes
    second = at + item_bytes
    if raw[at:last] != raw[second:end]:  # all the same when each is the same as the next
        return -1
    first: int = read_i16_le(raw, at) if item_bytes == 2 else read_i32_le(raw, at)
    return first & (0xFFFF if item_bytes == 2 else 0xFFFF_FFFF)


def form_of(width: int, count: int) -> struct.Struct:
    """What takes ``count`` stretches of ``width`` bytes apart; most blocks of a table need the same."""
    number = width * (MOST_UNPACKED + 1) + count
    form = _forms.get(number)
    if form is None:
        if len(_forms) >= _MOST_FORMS:
            _forms.clear()
        form = _forms[number] = struct.Struct(f"{width}s" * count)
    return form


def append_parts(
    found: list[Any], data: bytes, start: i64, count: i64, width: i64, ends: bytes, extra: i64
) -> None:
    """Append what stands in ``data`` from ``start`` on: ``count`` stretches of bytes.

    Each is ``width`` bytes long, or else they end where ``ends`` says, and then ``extra`` longer.
    """
    if width >= 0 and count <= MOST_UNPACKED:
        # One call makes them all.
        found += form_of(width + extra, count).unpack_from(data, start)
        return
    at = start
    for position in range(1, count + 1):
        if width >= 0:
            end = at + width + extra
        else:
            distance: int = read_i32_le(ends, 4 * position)
            end = start + distance + extra * position
        found.append(data[at:end])
        at = end


def running_ends(lengths: bytes, width: i64, total: int) -> bytes | None:
    """Cumulative sums of packed lengths of 2 or 4 bytes, with a leading 0, as packed 32-bit integers.

    None when they do not add up to ``total``.
    """
    ends = BytesWriter()
    write_i32_le(ends, 0)
    end = 0
    at: i64 = 0
    while at < len(lengths):
        length: int = read_i16_le(lengths, at) if width == 2 else read_i32_le(lengths, at)
        end += length & (0xFFFF if width == 2 else 0xFFFF_FFFF)
        if end > total:
            return None
        write_i32_le(ends, end)
        at += width
    return ends.getvalue() if end == total else None


def put_ends(target: vec[i64], at: i64, count: i64, width: i64, packed: bytes, extra: i64) -> None:
    """Set the ``count`` numbers behind ``target[at]`` to where what begins there ends, one by one.

    Each is ``width`` bytes long, or else they end where ``packed`` says; and then ``extra`` longer.
    """
    start = target[at]
    end = start
    position: i64 = 0
    while position < count:
        position += 1
        if width >= 0:
            end += width + extra
        else:
            distance: int = read_i32_le(packed, 4 * position)
            end = start + distance + extra * position
        target[at + position] = end


def with_prefix(
    raw: bytes, prefix_at: i64, prefix_length: i64, at: i64, count: i64, width: i64, packed: bytes
) -> bytes:
    """``count`` pieces of ``raw`` from ``at`` on, as long as in :func:`put_ends`, each behind the prefix.

    ``packed`` may begin anywhere in ends that were packed: the distance of the first piece from ``at`` is
    taken off.  The prefix stands in ``raw`` at ``prefix_at``, with at least seven bytes behind it.
    """
    out = BytesWriter()
    prefix_end = prefix_at + prefix_length
    last = i64(len(raw)) - 8  # where the last eight bytes begin
    first = start = at
    if width < 0:
        before: int = read_i32_le(packed, 0)
        first -= before
    written: i64 = 0
    position: i64 = 0
    while position < count:
        position += 1
        # Eight bytes at a time; what is written past prefix or piece is taken back.
        at = prefix_at
        while at < prefix_end:
            write_i64_le(out, read_i64_le(raw, at))
            at += 8
        written += prefix_length
        out.truncate(written)
        if width >= 0:
            end = start + width
        else:
            distance: int = read_i32_le(packed, 4 * position)
            end = first + distance
        written += end - start
        if end > last:
            append_range(out, raw, start, end)
        else:
            while start < end:
                write_i64_le(out, read_i64_le(raw, start))
                start += 8
            out.truncate(written)
        start = end
    return out.getvalue()
