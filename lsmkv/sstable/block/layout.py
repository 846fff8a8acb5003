"""Parses the header of a block's payload, in both of its forms.

One form is searched (:mod:`lsmkv.sstable.block.block`); the other, which is compressed
(:mod:`lsmkv.sstable.block.transposed`), leaves some of the sections out.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_le, read_i32_le, write_i32_le
from mypy_extensions import i64

HEADER_BYTES: Final = 24
TRANSPOSED_HEADER_BYTES: Final = HEADER_BYTES - 4  # without values_length, the last field
FLAGS_AT: Final = 4
SEQ_WIDTH_AT: Final = 5
KEY_LENGTH_BYTES: Final = 2
VALUE_LENGTH_BYTES: Final = 4

HAS_TAGS: Final = 1
HAS_VERSIONS: Final = 2
EQUAL_KEYS: Final = 64
EQUAL_VALUES: Final = 128

MAX_BLOCK_BYTES: Final = (1 << 31) - 1


def u32(raw: bytes, at: i64) -> i64:
    stored: int = read_i32_le(raw, at)
    return stored & 0xFFFF_FFFF


def section_offsets(
    raw: bytes, is_transposed: bool
) -> tuple[i64, i64, i64, i64, i64, i64, i64, i64]:
    """The entry count of a payload, and where its sections start.

    In order: fingerprints, key lengths, value lengths, tags, sequence numbers, keys, values.  ``raw``
    must hold a header; nothing else is checked.
    """
    count = u32(raw, 0)
    flags, seq_width = raw[FLAGS_AT], raw[SEQ_WIDTH_AT]
    stored: int = read_i16_le(raw, 6)
    prefix_length: i64 = stored & 0xFFFF
    if is_transposed:
        fingerprints = TRANSPOSED_HEADER_BYTES + prefix_length
        key_lengths = fingerprints
        value_lengths = key_lengths + (0 if flags & EQUAL_KEYS else KEY_LENGTH_BYTES * count)
        tags = value_lengths + (0 if flags & EQUAL_VALUES else VALUE_LENGTH_BYTES * count)
    else:
        fingerprints = HEADER_BYTES + prefix_length
        key_lengths = fingerprints + count
        value_lengths = key_lengths + KEY_LENGTH_BYTES * count
        tags = value_lengths + VALUE_LENGTH_BYTES * count
    seqs = tags + (count if flags & HAS_TAGS else 0)
    keys = seqs + seq_width * count
    values = keys + u32(raw, 16)
    return count, fingerprints, key_lengths, value_lengths, tags, seqs, keys, values


def width_and_ends(
    raw: bytes, start: i64, end: i64, item_bytes: i64, total: i64
) -> tuple[i64, bytes | None]:
    """The common length of keys or values, or else their ends.

    ``raw[start:end]`` are their lengths, of 2 or 4 bytes each; -1 stands for lengths that differ.  The
    ends are 32-bit integers, with a leading 0; empty if all lengths are equal; None if these do not add
    up to ``total``.
    """
    width = common_width(raw, start, end, item_bytes)
    if width < 0:
        return width, _running_ends(raw, start, end, item_bytes, total)
    return width, b"" if width * ((end - start) // item_bytes) == total else None


def common_width(raw: bytes, start: i64, end: i64, item_bytes: i64) -> i64:
    """The one number that all lengths in ``raw[start:end]`` are; else -1."""
    last = end - item_bytes
    second = start + item_bytes
    if raw[start:last] != raw[second:end]:  # all are the same if each is the same as the next
        return -1
    first: int = read_i16_le(raw, start) if item_bytes == 2 else read_i32_le(raw, start)
    return first & (0xFFFF if item_bytes == 2 else 0xFFFF_FFFF)


def _running_ends(raw: bytes, at: i64, end: i64, item_bytes: i64, total: i64) -> bytes | None:
    """Running sums with a leading 0; None if they do not reach ``total``."""
    ends = BytesWriter()
    write_i32_le(ends, 0)
    running: int = 0
    limit: int = total
    while at < end:
        length: int = read_i16_le(raw, at) if item_bytes == 2 else read_i32_le(raw, at)
        running += length & (0xFFFF if item_bytes == 2 else 0xFFFF_FFFF)
        if running > limit:
            return None
        write_i32_le(ends, running)
        at += item_bytes
    return ends.getvalue() if running == limit else None
