"""A table's index as it is stored in a table that is compressed: what follows from the rest left out.

It is unpacked into the form that is searched (:mod:`lsmkv.sstable.index`).  Little-endian::

    u32 0 (no index is of so many blocks), u32 codec (0 none, 1 zstd), u32 raw_length
    the rest, raw_length bytes once it is decompressed:

    u32 block_count n, u32 prefix_length, u32 chunk_count c
    lengths         n u32      of each block in the file
    filter_lengths  n u32
    entry_counts    n u32
    probe_counts    n u8
    key_lengths     2n u16     first and last key of each block
    chunk_starts    c+1 u32    as in the index, like all that follows
    chunk_checksums c u64
    keys
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_be,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i16, i32, i64

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.words import short_number
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.codec import Compressor, Decompressor
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import HEADER, TableIndex, array_places

_PACKED: Final = struct.Struct("<III")
# What one block, with its keys and a chunk of its own, can add to the arrays.
_MOST_BLOCK_BYTES: Final = 4 + 4 + 4 + 1 + 2 * (2 + MAX_KEY_BYTES) + 4 + 8
_HALF_16: Final = i64(1 << 15)
_HALF_32: Final = i64(1 << 31)
_MASK_63: Final = i64(0x7FFF_FFFF_FFFF_FFFF)


def pack_index(section: bytes, level: int) -> bytes:
    """The index ``section``, packed, at that level of zstd's."""
    count, _, chunk_count = HEADER.unpack_from(section)
    places = array_places(count, chunk_count)
    _, _, offsets, filter_ends, entry_counts, _, key_ends, chunk_starts, _, _ = places
    raw = b"".join(
        (
            section[: HEADER.size],
            _differences(section, offsets, count, 8, 4),
            _differences(section, filter_ends, count, 4, 4),
            section[entry_counts:key_ends],
            _differences(section, key_ends, 2 * count, 4, 2),
            section[chunk_starts:],
        )
    )
    codec, stored = Compressor(level, b"").compress(raw)
    return _PACKED.pack(0, codec, len(raw)) + stored


def _differences(section: bytes, at: i64, count: i64, width: i64, narrow: i64) -> bytes:
    """By how much each of ``count`` numbers, ``width`` bytes each, is exceeded by the one after it."""
    out = BytesWriter()
    before: i64 = 0
    end = at + width * count
    while at < end:
        at += width
        number: i64 = read_i64_le(section, at) if width == 8 else i64(read_i32_le(section, at))
        if narrow == 2:
            write_i16_le(out, i16(_signed(number - before, _HALF_16)))
        else:
            write_i32_le(out, i32(_signed(number - before, _HALF_32)))
        before = number
    return out.getvalue()


def _signed(number: i64, half: i64) -> i64:
    """``number``, of 0 to twice ``half``, as the number with a sign that has the same bits."""
    return number - 2 * half if number >= half else number


def open_index(
    data: bytes, path: str, offset: int, data_length: int, filters_length: int
) -> TableIndex:
    """The index in a section, packed or not, of a table whose blocks and filters are so long.

    Raises:
        CorruptionError: it cannot be unpacked, or its arrays do not fit together.
        UnsupportedFormatError: it is packed by an unknown codec.
    """
    if data[:4] == b"\0\0\0\0":
        data = _Unpacking(data, path, offset, data_length, filters_length).section()
    return TableIndex(data, path, offset, data_length, filters_length)


def checked_index(
    section: bytes, path: str, footer: Footer, properties: TableProperties
) -> TableIndex:
    """As :func:`open_index`, for the table with that footer; it must agree with the properties."""
    offset = footer.index_offset
    index = open_index(section, path, offset, footer.data_length, footer.filters_length)
    index.check_properties(
        properties.smallest, properties.largest, properties.block_count, properties.entry_count
    )
    return index


class _Unpacking:
    """One section being unpacked."""

    def __init__(
        self, data: bytes, path: str, offset: int, data_length: int, filters_length: int
    ) -> None:
        self._path = path
        self._offset = offset
        self._filters_length = filters_length
        if len(data) < _PACKED.size:
            self._fail("index is shorter than its header")
        _, codec, raw_length = _PACKED.unpack_from(data)
        most_blocks = data_length // TRAILER_BYTES
        if not HEADER.size <= raw_length <= HEADER.size + 4 + most_blocks * _MOST_BLOCK_BYTES:
            self._fail(f"index of {raw_length} bytes for blocks of {data_length}")
        self._raw = Decompressor(b"").decompress(
            codec, data[_PACKED.size :], raw_length, path, offset
        )

    def _fail(self, reason: str) -> NoReturn:
        raise CorruptionError(self._path, self._offset, reason)

    def section(self) -> bytes:
        """The form that is searched."""
        raw = self._raw
        count, prefix_length, chunk_count = HEADER.unpack_from(raw)
        lengths = HEADER.size
        filter_lengths = lengths + 4 * count
        entry_counts = filter_lengths + 4 * count
        key_lengths = entry_counts + 5 * count
        chunk_starts = key_lengths + 4 * count
        keys = chunk_starts + 4 * (chunk_count + 1) + 8 * chunk_count
        if count == 0 or keys > len(raw):
            self._fail(f"packed index of {len(raw)} bytes cannot hold {count} blocks")
        key_ends = self._sums(key_lengths, 2 * count, 2, len(raw) - keys, "keys")
        return b"".join(
            (
                raw[:lengths],
                self._fences(keys, key_ends, 1, count, prefix_length),
                self._fences(keys, key_ends, 0, count, prefix_length),
                self._offsets(lengths, count),
                self._sums(filter_lengths, count, 4, self._filters_length, "filters"),
                raw[entry_counts:key_lengths],
                key_ends,
                raw[chunk_starts:],
            )
        )

    def _offsets(self, at: i64, count: i64) -> bytes:
        """Sums, 8 bytes each, of the ``count`` numbers at ``at``, the first 0."""
        raw = self._raw
        out = BytesWriter()
        total: i64 = 0
        end = at + 4 * count
        write_i64_le(out, total)
        while at < end:
            total += i64(read_i32_le(raw, at)) & 0xFFFF_FFFF
            write_i64_le(out, total)
            at += 4
        return out.getvalue()

    def _sums(self, at: i64, count: i64, width: i64, most: i64, what: str) -> bytes:
        """Sums, 4 bytes each, of the ``count`` numbers of that width at ``at``, the first 0."""
        raw = self._raw
        out = BytesWriter()
        total: i64 = 0
        end = at + width * count
        write_i32_le(out, 0)
        while at < end:
            if width == 2:
                total += i64(read_i16_le(raw, at)) & 0xFFFF
            else:
                total += i64(read_i32_le(raw, at)) & 0xFFFF_FFFF
            if total > most:
                self._fail(f"{what} of the index do not fit their section")
            write_i32_le(out, i32(_signed(total, _HALF_32)))
            at += width
        return out.getvalue()

    def _fences(
        self, keys: i64, key_ends: bytes, which: i64, count: i64, prefix_length: i64
    ) -> bytes:
        """The fence of the first (0) or last (1) key of each block; ``key_ends`` are their ends."""
        raw = self._raw
        out = BytesWriter()
        at = 4 * which
        end = at + 8 * count
        while at < end:
            start = i64(read_i32_le(key_ends, at)) & 0xFFFF_FFFF
            stop = i64(read_i32_le(key_ends, at + 4)) & 0xFFFF_FFFF
            start += prefix_length
            write_i64_le(out, _fence_at(raw, keys + start, stop - start))
            at += 8
        return out.getvalue()


def _fence_at(data: bytes, at: i64, length: i64) -> i64:
    """The index's fence of a key of which ``length`` bytes, after the common prefix, stand at ``at``."""
    if length >= 8:
        return (read_i64_be(data, at) >> 1) & _MASK_63
    if length <= 0:
        return 0
    return short_number(data, at, length) << (63 - 8 * length)
