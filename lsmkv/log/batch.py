"""Write batches as bytes, the payloads of a write-ahead log.

Layout, little-endian: u64 sequence number of the first operation, u32 operation count, then each
operation: u8 tag (0 delete, 1 put, 2 range delete, 4 put with expiry), u16 key length, u32 value length,
key, value.  Operation i has the sequence number of the first plus i.  No number is
left out: the oldest log that counts begins with the number after the manifest's last_seq, and each batch
with the number after the last one of the batch before.

With tag 4 the value begins with the expiry (:mod:`lsmkv.encoding.expiry`).  A range delete has its first
key as its key, and the key before which it ends as its value; without a value it has no end.  Range
deletes come before all else in a batch, and in a log.  All of a batch have the number of its first
operation.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i64

from lsmkv.encoding.entries import (
    MAX_BATCH_BYTES,
    MAX_KEY_BYTES,
    MAX_SEQUENCE,
    MAX_VALUE_BYTES,
    TAG_DELETE,
    TAG_EXPIRING,
    TAG_PUT,
    TAG_RANGE_DELETE,
    TAGS_RESERVED,
)
from lsmkv.encoding.expiry import EXPIRY_BYTES, Expiring, Held, expiring_in
from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.errors import CorruptionError

Operation = tuple[bytes, Held]  # key and value; None deletes

_HEADER: Final = struct.Struct("<QI")
HEADER_BYTES: Final = 12
OPERATION_OVERHEAD_BYTES: Final = 7


def write_batch(
    out: BytesWriter, seq: int, operations: list[Operation], ranges: list[KeyRange]
) -> None:
    """A batch that deletes ``ranges``, and then does the operations."""
    out.write(_HEADER.pack(seq, len(ranges) + len(operations)))
    for start, stop in ranges:
        _write_range(out, start, stop or b"")
    for key, value in operations:
        _write_operation(out, key, value)


def write_single(out: BytesWriter, seq: i64, key: bytes, value: Held) -> None:
    """:func:`write_batch` of one operation, without a list."""
    write_i64_le(out, seq)
    write_i32_le(out, 1)
    _write_operation(out, key, value)


def _write_operation(out: BytesWriter, key: bytes, value: Held) -> None:
    length = len(key)
    if isinstance(value, Expiring):
        out.append(TAG_EXPIRING)
        value = value.stored()
    else:
        out.append(TAG_DELETE if value is None else TAG_PUT)
    out.append(length & 0xFF)
    out.append(length >> 8)
    if value is None:
        write_i32_le(out, 0)
        out.write(key)
    else:
        write_i32_le(out, len(value))
        out.write(key)
        out.write(value)


def _write_range(out: BytesWriter, start: bytes, stop: bytes) -> None:
    length = len(start)
    out.append(TAG_RANGE_DELETE)
    out.append(length & 0xFF)
    out.append(length >> 8)
    write_i32_le(out, len(stop))
    out.write(start)
    out.write(stop)


def set_sequence(out: BytesWriter, start: i64, seq: int) -> None:
    for position in range(start, start + 8):
        out[position] = seq & 0xFF
        seq >>= 8


Batch = tuple[int, list[KeyRange], list[Operation]]
"""Its first sequence number, its range deletes, and the operations that follow them."""


def decode_batch(data: bytes, path: str, offset: int, start: i64 = 0, stop: i64 = -1) -> Batch:
    """The batch ``data[start:stop]``, by default all; CorruptionError, with ``offset``, if it is none."""
    if stop < 0:
        stop = len(data)
    if stop - start < HEADER_BYTES:
        raise CorruptionError(path, offset, "write batch is shorter than its header")
    seq: int = read_i64_le(data, start)
    if seq < 0:
        seq += 1 << 64
    count: i64 = i64(read_i32_le(data, start + 8)) & 0xFFFF_FFFF
    highest: int = MAX_SEQUENCE - count  # not i64: a damaged seq may have 64 bits
    if not 0 < seq <= highest:
        reason = f"sequence number {seq} of a write batch is out of range"
        raise CorruptionError(path, offset, reason)
    ranges: list[KeyRange] = []
    operations: list[Operation] = []
    at: i64 = start + HEADER_BYTES
    for number in range(count):
        key_start: i64 = at + OPERATION_OVERHEAD_BYTES
        end: i64 = stop + 1  # stays so if the operation is cut short inside its lengths
        key_end: i64 = 0
        if key_start <= stop:
            key_end = key_start + (i64(read_i16_le(data, at + 1)) & 0xFFFF)
            end = key_end + (i64(read_i32_le(data, at + 3)) & 0xFFFF_FFFF)
        if end > stop:
            reason = f"write batch ends inside operation {number} of {count}"
            raise CorruptionError(path, offset, reason)
        tag = data[at]
        if tag == TAG_PUT:
            operations.append((data[key_start:key_end], data[key_end:end]))
        elif tag == TAG_DELETE and key_end == end:
            operations.append((data[key_start:key_end], None))
        elif tag == TAG_EXPIRING and end - key_end >= EXPIRY_BYTES:
            operations.append((data[key_start:key_end], expiring_in(data, key_end, end)))
        elif tag == TAG_RANGE_DELETE:
            first, last = data[key_start:key_end], data[key_end:end]
            if operations or (last and last <= first) or len(last) > MAX_KEY_BYTES:
                reason = f"operation {number} of {count}, a range delete, is not valid there"
                raise CorruptionError(path, offset, reason)
            ranges.append((first, last or None))
        elif tag == TAG_EXPIRING:
            raise CorruptionError(path, offset, f"operation {number} has no room for its expiry")
        else:
            reason = f"operation tag {tag} ({TAGS_RESERVED.get(tag, 'unknown')}) is not supported"
            raise CorruptionError(path, offset, reason)
        at = end
    if at != stop:
        raise CorruptionError(path, offset, "write batch is longer than its operations")
    return seq, ranges, operations


# One operation at its limits must fit a batch.
assert OPERATION_OVERHEAD_BYTES + MAX_KEY_BYTES + EXPIRY_BYTES + MAX_VALUE_BYTES < MAX_BATCH_BYTES
