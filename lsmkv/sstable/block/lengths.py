"""Runs of keys or values in a block: cut, joined, hashed, checked.

A run is ``count`` pieces, one after another.  Each is ``width`` bytes long; or, if ``width`` is -1,
they end where ``ends`` says, packed 32-bit distances from the start of the run with a leading 0
(:func:`~lsmkv.sstable.block.layout.width_and_ends`).
"""

from __future__ import annotations

import struct
from itertools import pairwise
from operator import le, lt
from typing import Any, Final

from librt.strings import BytesWriter, read_i32_le, read_i64_be, read_i64_le, write_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.words import COMPILED, append_range, compare
from lsmkv.filters.hashing import DIGEST_BYTES, append_fingerprint, digests

_MAX_UNPACKED: Final = 1024  # pieces that one struct unpacks
_MAX_STRUCTS: Final = 64  # cached; each takes 32 bytes for each piece
_structs: Final[dict[int, struct.Struct]] = {}
_ONE: Final = i64(1)
_SIGN: Final = i64(-1 << 63)  # maps unsigned numbers to signed ones, keeping their order
_MAX_PREFIX_BYTES: Final = 64 * 1024  # of the whole keys that are made at a time, to be hashed


def end_of(width: i64, ends: bytes, position: i64) -> i64:
    """The bytes that the first ``position`` pieces of a run take."""
    if width >= 0:
        return width * position
    end: int = read_i32_le(ends, 4 * position)
    return end


def _struct_for(width: int, count: int) -> struct.Struct:
    """Unpacks ``count`` pieces of ``width`` bytes; most blocks need the same."""
    number = width * (_MAX_UNPACKED + 1) + count
    found = _structs.get(number)
    if found is None:
        if len(_structs) >= _MAX_STRUCTS:
            _structs.clear()
        found = _structs[number] = struct.Struct(f"{width}s" * count)
    return found


def append_parts(
    found: list[Any], data: bytes, start: i64, count: i64, width: i64, ends: bytes, extra: i64
) -> None:
    """Append the pieces to ``found``; each is ``extra`` bytes longer."""
    if width >= 0 and count <= _MAX_UNPACKED:
        found += _struct_for(width + extra, count).unpack_from(data, start)  # one call for all
        return
    at = start
    for position in range(1, count + 1):
        end = start + end_of(width, ends, position) + extra * position
        found.append(data[at:end])
        at = end


def put_ends(target: vec[i64], at: i64, count: i64, width: i64, ends: bytes, extra: i64) -> None:
    """Set the ``count`` numbers behind ``target[at]`` to the pieces' ends.

    The run starts at ``target[at]``, and each piece is ``extra`` bytes longer than in the block.
    """
    start = target[at]
    end = start
    position: i64 = 0
    while position < count:
        position += 1
        if width >= 0:  # as end_of, without the cost of a call
            end += width + extra
        else:
            distance: int = read_i32_le(ends, 4 * position)
            end = start + distance + extra * position
        target[at + position] = end


def with_prefix(
    raw: bytes, prefix_at: i64, prefix_length: i64, at: i64, count: i64, width: i64, ends: bytes
) -> bytes:
    """The pieces, each behind the prefix, one after another.

    ``ends`` may be a slice from the middle of a run's: then its first number is the distance of the
    first piece.  The prefix has at least seven bytes behind it in ``raw``.
    """
    out = BytesWriter()
    prefix_end = prefix_at + prefix_length
    last = i64(len(raw)) - 8  # where the last eight bytes begin
    start = at
    first = at - end_of(width, ends, 0)
    written: i64 = 0
    position: i64 = 0
    while position < count:
        position += 1
        # Eight bytes at a time; bytes written past the prefix or the piece are truncated.
        at = prefix_at
        while at < prefix_end:
            write_i64_le(out, read_i64_le(raw, at))
            at += 8
        written += prefix_length
        out.truncate(written)
        end = first + end_of(width, ends, position)
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


def with_fingerprints(
    payload: bytes, prefix: i64, fingerprints: i64, keys: i64, count: i64, width: i64, ends: bytes
) -> bytes:
    """``payload`` up to its fingerprints' end; these are made from the keys.

    The prefix starts at ``prefix`` and ends at ``fingerprints``; the run of keys starts at ``keys``.
    """
    out = BytesWriter()
    out.write(payload[:fingerprints])
    length = fingerprints - prefix
    step = max(1, _MAX_PREFIX_BYTES // (length + 1))  # keys at a time: the prefix may be long
    start: i64 = 0
    while start < count:
        stop = min(count, start + step)
        low = end_of(width, ends, start)
        if COMPILED:
            part = ends[4 * start : 4 * stop + 4]
            whole = with_prefix(payload, prefix, length, keys + low, stop - start, width, part)
            at: i64 = 0
            for position in range(start, stop):
                high = end_of(width, ends, position + 1)
                end = at + length + high - low
                append_fingerprint(out, whole, at, end)
                at, low = end, high
        else:  # interpreted, one call for many keys is faster than a loop over words
            bounds = [keys + end_of(width, ends, at) for at in range(start, stop + 1)]
            shared = payload[prefix:fingerprints]
            found = [shared + payload[low:high] for low, high in pairwise(bounds)]
            out.write(digests(found)[::DIGEST_BYTES])
        start = stop
    return out.getvalue()


def ascend(
    raw: bytes, at: i64, count: i64, width: i64, ends: bytes, most: i64, may_repeat: bool
) -> bool:
    """Whether keys ascend, with none over ``most`` bytes.

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
    end = at + end_of(width, ends, 1)
    if end - start > most:
        return False
    position: i64 = 1
    while position < count:
        position += 1
        stop = at + end_of(width, ends, position)
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
    """Whether keys of up to 7 bytes grow by ``least`` or more; ``at`` is 8 before the first one's end."""
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
