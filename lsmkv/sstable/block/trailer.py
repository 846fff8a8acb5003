"""A block as it stands in a table: payload, filter, and the trailer that seals both.

Block trailer (32 bytes)::

    0   u32  payload_length, as stored        16  u32  filter_key_count
    4   u32  raw_length, uncompressed         20  u8   codec
    8   u32  filter_length                    21  u8   filter scheme << 5 | probe_count
    12  u32  entry_count                      22  u16  magic 0x4b62
    24  u32  payload_checksum                 28  u32  filter_checksum

Both checksums are the low 32 bits of XXH3-64, seeded with the XXH3-64 of the trailer's first 24
bytes, which is itself seeded with the table's number * 2^40 + the block's offset (mod 2^64): damage
to the trailer, or a block in the wrong place or the wrong table, fails them both.  The magic lets
salvage find blocks when the index is lost.

Codecs: 0 none; 1 zstd, which is read and no more written; 2 zstd of the reduced payload
(:mod:`lsmkv.sstable.block.transposed`), its frame without the magic number.

Filter schemes: 0 no filter, 1 Bloom, 2 blocked Bloom, 3 binary fuse; 4 and 5 are reserved.  6 and 7
are for policies that others register, so tables with these name the policy in their properties.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from librt.strings import BytesWriter, read_i16_le, read_i32_le, write_i16_le, write_i32_le
from mypy_extensions import i32, i64

from lsmkv.encoding.checksums import checksum, short_checksum
from lsmkv.errors import CorruptionError

TRAILER: Final = struct.Struct("<IIIIIBBHII")
TRAILER_BYTES: Final = 32
_FIELDS_BYTES: Final = 24  # what of a trailer seeds the checksums
BLOCK_MAGIC: Final = 0x4B62
_MASK_32: Final = 0xFFFF_FFFF
_SIGN_32: Final = i64(1 << 31)


class BlockTrailer(NamedTuple):
    """What the last 32 bytes of a block say, checked against the block."""

    payload_length: int
    raw_length: int
    filter_length: int
    entry_count: int
    filter_key_count: int
    codec: int
    filter_scheme: int
    probe_count: int


def checksum_seed(trailer: bytes, number: int, offset: int) -> int:
    """What seeds the checksums of a block of table ``number`` at ``offset``."""
    return checksum(trailer[:_FIELDS_BYTES], (number << 40) + offset)


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
    """The trailer that makes payload and filter a block of table ``number`` at ``offset``."""
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


def _write_u32(out: BytesWriter, number: i64) -> None:
    """Append a 32-bit number without a sign."""
    write_i32_le(out, i32((number ^ _SIGN_32) - _SIGN_32))


def checked_payload(
    data: bytes, start: i64, stop: i64, path: str, number: int, offset: int
) -> bytes:
    """The payload, as stored, of the block ``data[start:stop]`` of table ``number`` at ``offset``.

    It is read for every entry that is merged, and so without an object for each field.

    Raises:
        CorruptionError: lengths that do not fit, or a checksum that fails.
    """
    end = stop - TRAILER_BYTES
    if end < start:
        reason = f"block of {stop - start} bytes is shorter than its trailer"
        raise CorruptionError(path, offset, reason)
    filter_start = start + _u32(data, end)
    filter_length = _u32(data, end + 8)
    if read_i16_le(data, end + 22) != BLOCK_MAGIC or filter_start + filter_length != end:
        reason = "block trailer does not fit its block"
        got = filter_start + filter_length - start
        raise CorruptionError(path, offset, reason, expected=int(end - start), got=int(got))
    fields = data[end : end + _FIELDS_BYTES]
    seed = checksum_seed(fields, number, offset)
    payload = data[start:filter_start]
    _check(payload, seed, data, end + 24, "payload", path, offset)
    _check(data[filter_start:end], seed, data, end + 28, "filter", path, offset)
    return payload


def _u32(data: bytes, at: i64) -> i64:
    """The 32-bit number without a sign at ``at``."""
    stored: int = read_i32_le(data, at)
    return stored & _MASK_32


def _check(part: bytes, seed: int, data: bytes, at: i64, what: str, path: str, offset: int) -> None:
    """Check the checksum of a part, which stands at ``at``."""
    stored: int = read_i32_le(data, at)
    got: int = short_checksum(part, seed)
    if got != stored:
        reason = f"checksum of a block's {what} fails"
        expected = stored & _MASK_32
        raise CorruptionError(path, offset, reason, expected=expected, got=got & _MASK_32)


def raw_length_at(data: bytes, stop: i64) -> int:
    """How long the payload of the block that ends at ``stop`` is before compression, by its trailer."""
    return _u32(data, stop - TRAILER_BYTES + 4)


def entry_count_at(data: bytes, stop: i64) -> int:
    """How many entries the block that ends at ``stop`` has, by its trailer."""
    return _u32(data, stop - TRAILER_BYTES + 12)


def codec_at(data: bytes, stop: i64) -> int:
    """What the payload of the block that ends at ``stop`` is compressed with, by its trailer."""
    return data[stop - TRAILER_BYTES + 20]


def encode_block_frame(
    payload: bytes, filter_bits: bytes, trailer: BlockTrailer, number: int, offset: int
) -> bytes:
    """A whole block as it stands in table ``number`` at ``offset``."""
    sealed = encode_trailer(
        payload,
        filter_bits,
        raw_length=trailer.raw_length,
        entry_count=trailer.entry_count,
        filter_key_count=trailer.filter_key_count,
        codec=trailer.codec,
        filter_scheme=trailer.filter_scheme,
        probe_count=trailer.probe_count,
        number=number,
        offset=offset,
    )
    return payload + filter_bits + sealed


def decode_block_frame(
    data: bytes, path: str, number: int, offset: int
) -> tuple[bytes, bytes, BlockTrailer]:
    """Payload (as stored), filter and trailer of the block of table ``number`` at ``offset``.

    Raises:
        CorruptionError: lengths that do not fit, or a checksum that fails.
    """
    payload = checked_payload(data, 0, len(data), path, number, offset)
    end = len(data) - TRAILER_BYTES
    payload_length, raw_length, filter_length, entries, filter_keys, codec, scheme, _, _, _ = (
        TRAILER.unpack_from(data, end)
    )
    trailer = BlockTrailer(
        payload_length,
        raw_length,
        filter_length,
        entries,
        filter_keys,
        codec,
        scheme >> 5,
        scheme & 31,
    )
    return payload, data[payload_length:end], trailer
