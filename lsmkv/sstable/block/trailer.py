"""A block as it is stored in a table: payload, filter, and a trailer with checksums of both.

Block trailer (32 bytes)::

    0   u32  payload_length, with padding     16  u32  filter_key_count
    4   u32  raw_length, uncompressed         20  u8   codec
    8   u32  filter_length                    21  u8   filter scheme << 5 | probe_count
    12  u32  entry_count                      22  u16  magic 0x4b62
    24  u32  payload_checksum                 28  u32  filter_checksum

Both checksums are the low 32 bits of XXH3-64.  Their seed is the XXH3-64 of the trailer's first 24
bytes, which is itself seeded with the table's number * 2^40 + the block's offset (mod 2^64).  So both
fail if the trailer is damaged, or if the block stands at another offset or in another table.  In an
adopted table the number is ``sealed_number`` of its properties.  The magic lets salvage find blocks
when the index is lost.

Padding is zeros after a stored payload, which make the block end where a page of 4 KiB ends
(:mod:`lsmkv.sstable.pages`).  The payload's checksum covers it.  An uncompressed payload is the first
raw_length bytes; a zstd frame tells its own end.  There is nothing between two blocks.

Codecs: 0 none; 1 zstd of the transposed payload (:mod:`lsmkv.sstable.block.transposed`), its frame
without the magic number.

The probe_count is the parameter of the block's filter: k, r or l, by its kind.

Filter schemes: 0 no filter, 1 Bloom, 4 ribbon, 5 Grafite.  6 and 7 are for
policies that users register; tables with these name the policy in their properties.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from librt.strings import BytesWriter, read_i16_le, read_i32_le, write_i16_le, write_i32_le
from mypy_extensions import i32, i64

from lsmkv.encoding.checksums import checksum, short_checksum
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.layout import u32

TRAILER: Final = struct.Struct("<IIIIIBBHII")
TRAILER_BYTES: Final = 32
_SEEDING_BYTES: Final = 24  # the fields that seed the checksums
BLOCK_MAGIC: Final = 0x4B62
_MASK_32: Final = 0xFFFF_FFFF
_SIGN_32: Final = i64(1 << 31)


class BlockTrailer(NamedTuple):
    payload_length: int
    raw_length: int
    filter_length: int
    entry_count: int
    filter_key_count: int
    codec: int
    filter_scheme: int
    probe_count: int


def checksum_seed(trailer: bytes, number: int, offset: int) -> int:
    return checksum(trailer[:_SEEDING_BYTES], (number << 40) + offset)


def encode_trailer(
    payload: bytes,
    filter_bits: bytes,
    *,
    raw_length: int,
    entry_count: int,
    filter_key_count: int,
    codec: int,
    filter_scheme: int,
    probe_count: int,
    number: int,
    offset: int,
) -> bytes:
    """The trailer of a block of table ``number`` at ``offset``.

    It takes no BlockTrailer, because making one costs more than all the rest.
    """
    trailer = BytesWriter()
    _write_u32(trailer, len(payload))
    _write_u32(trailer, raw_length)
    _write_u32(trailer, len(filter_bits))
    _write_u32(trailer, entry_count)
    _write_u32(trailer, filter_key_count)
    trailer.append(codec)
    trailer.append(filter_scheme << 5 | probe_count)
    write_i16_le(trailer, BLOCK_MAGIC)
    seed = checksum_seed(trailer.getvalue(), number, offset)
    write_i32_le(trailer, short_checksum(payload, seed))
    write_i32_le(trailer, short_checksum(filter_bits, seed))
    return trailer.getvalue()


def decode_trailer(data: bytes, at: i64) -> BlockTrailer:
    """The fields of the trailer that starts at ``at``; nothing is checked."""
    *fields, scheme_and_probes, _, _, _ = TRAILER.unpack_from(data, at)
    return BlockTrailer._make([*fields, scheme_and_probes >> 5, scheme_and_probes & 31])


def decode_block_frame(
    data: bytes, path: str, number: int, offset: int
) -> tuple[bytes, bytes, BlockTrailer]:
    """Stored payload, filter and trailer, checked as by :func:`stored_payload`."""
    payload = stored_payload(data, 0, len(data), path, number, offset)[0]
    end = len(data) - TRAILER_BYTES
    return payload, data[len(payload) : end], decode_trailer(data, end)


def stored_payload(
    data: bytes, start: i64, stop: i64, path: str, number: int, offset: int
) -> tuple[bytes, i64, i64, i64]:
    """Stored payload, raw length, entry count and codec of a block.

    The block is ``data[start:stop]``, of table ``number`` at ``offset``.  Raises CorruptionError if its
    lengths do not fit or a checksum fails.  Every read comes here, so it makes no object for the
    trailer.
    """
    end = stop - TRAILER_BYTES
    if end < start:
        reason = f"block of {stop - start} bytes is shorter than its trailer"
        raise CorruptionError(path, offset, reason)
    filter_start = start + u32(data, end)
    filter_length = u32(data, end + 8)
    if read_i16_le(data, end + 22) != BLOCK_MAGIC or filter_start + filter_length != end:
        reason = "block trailer does not fit its block"
        got = filter_start + filter_length - start
        raise CorruptionError(path, offset, reason, expected=int(end - start), got=int(got))
    seed = checksum_seed(data[end : end + _SEEDING_BYTES], number, offset)
    payload = data[start:filter_start]
    check_payload(payload, data, end, seed, path, offset)
    check_filter(data[filter_start:end], data, end, seed, path, offset)
    return payload, u32(data, end + 4), u32(data, end + 12), data[end + 20]


def check_payload(payload: bytes, data: bytes, at: i64, seed: int, path: str, offset: int) -> None:
    """Raise CorruptionError unless the trailer ``data[at:]`` has ``payload``'s checksum."""
    _check(payload, seed, data, at + 24, "payload", path, offset)


def check_filter(bits: bytes, data: bytes, at: i64, seed: int, path: str, offset: int) -> None:
    _check(bits, seed, data, at + 28, "filter", path, offset)


def _check(part: bytes, seed: int, data: bytes, at: i64, what: str, path: str, offset: int) -> None:
    stored: int = read_i32_le(data, at)
    got: int = short_checksum(part, seed)
    if got != stored:
        reason = f"checksum of a block's {what} fails"
        expected = stored & _MASK_32
        raise CorruptionError(path, offset, reason, expected=expected, got=got & _MASK_32)


def _write_u32(out: BytesWriter, number: i64) -> None:
    write_i32_le(out, i32((number ^ _SIGN_32) - _SIGN_32))
