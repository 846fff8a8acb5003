"""The index of a compressed table: without derivable fields, compressed with zstd.

It is unpacked into the form that is searched (:mod:`lsmkv.sstable.index`).  Little-endian::

    u32 0 (no index is of so many blocks), u32 codec (0 none, 1 zstd), u32 raw_length
    the rest, raw_length bytes once it is decompressed:

    u32 block_count n, u32 prefix_length, u32 chunk_count c
    lengths         n u32      of each block in the file
    filter_lengths  n u32
    entry_counts    n u32
    probe_counts    n u8
    key_lengths     2n u16     first and last key of each block
    chunk_starts    c+1 u32    this and the rest as in the index
    chunk_checksums c u64
    keys
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i16, i32, i64

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.codec import Compressor, Decompressor
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import HEADER, TableIndex, array_offsets, packed_fences
from lsmkv.sstable.index_arrays import number_at

_PACKED: Final = struct.Struct("<III")
# The most that one block, with its keys and a chunk of its own, adds to the arrays.
_MAX_BYTES_PER_BLOCK: Final = 4 + 4 + 4 + 1 + 2 * (2 + MAX_KEY_BYTES) + 4 + 8
_SIGN_16: Final = i64(1 << 15)
_SIGN_32: Final = i64(1 << 31)


def pack_index(section: bytes, level: int) -> bytes:
    count, _, chunk_count = HEADER.unpack_from(section)
    _, _, offsets, filter_ends, entry_counts, _, key_ends, chunk_starts, _, _ = array_offsets(
        count, chunk_count
    )
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
    """``count`` differences of successive numbers; ``narrow`` bytes for each of ``width``."""
    out = BytesWriter()
    before: i64 = 0
    end = at + width * count
    while at < end:
        at += width
        number = number_at(section, at, width)
        _write(out, number - before, narrow)
        before = number
    return out.getvalue()


def _write(out: BytesWriter, number: i64, width: i64) -> None:
    """Append an unsigned number of 2, 4 or 8 bytes."""
    if width == 8:
        write_i64_le(out, number)
    elif width == 4:
        write_i32_le(out, i32((number ^ _SIGN_32) - _SIGN_32))
    else:
        write_i16_le(out, i16((number ^ _SIGN_16) - _SIGN_16))


def open_index(
    data: bytes, path: str, offset: int, data_length: int, filters_length: int
) -> TableIndex:
    """The index in a section, packed or not.

    Raises CorruptionError if it is damaged or does not fit these lengths of blocks and filters,
    UnsupportedFormatError if its codec is unknown.
    """
    was_packed = data[:4] == b"\0\0\0\0"
    if was_packed:
        data = _Unpacking(data, path, offset, data_length, filters_length).section()
    return TableIndex(data, path, offset, data_length, filters_length, was_packed)


def checked_index(
    section: bytes, path: str, footer: Footer, properties: TableProperties
) -> TableIndex:
    """As :func:`open_index`; the index must also agree with the properties."""
    offset = footer.index_offset
    index = open_index(section, path, offset, footer.data_length, footer.filters_length)
    index.check_properties(
        properties.smallest, properties.largest, properties.block_count, properties.entry_count
    )
    return index


class _Unpacking:
    def __init__(
        self, data: bytes, path: str, offset: int, data_length: int, filters_length: int
    ) -> None:
        self._path = path
        self._offset = offset
        self._data_length = data_length
        self._filters_length = filters_length
        if len(data) < _PACKED.size:
            self._fail("index is shorter than its header")
        _, codec, raw_length = _PACKED.unpack_from(data)
        most_blocks = data_length // TRAILER_BYTES
        if not HEADER.size <= raw_length <= HEADER.size + 4 + most_blocks * _MAX_BYTES_PER_BLOCK:
            self._fail(f"index of {raw_length} bytes for blocks of {data_length}")
        self._raw = Decompressor(b"").decompress(
            codec, data[_PACKED.size :], raw_length, path, offset
        )

    def _fail(self, reason: str) -> NoReturn:
        raise CorruptionError(self._path, self._offset, reason)

    def section(self) -> bytes:
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
        key_ends = self._sums(key_lengths, 2 * count, (2, 4), len(raw) - keys, "keys")
        return b"".join(
            (
                raw[:lengths],
                packed_fences(raw, keys, key_ends, count, prefix_length),
                self._sums(lengths, count, (4, 8), self._data_length, "blocks"),
                self._sums(filter_lengths, count, (4, 4), self._filters_length, "filters"),
                raw[entry_counts:key_lengths],
                key_ends,
                raw[chunk_starts:],
            )
        )

    def _sums(self, at: i64, count: i64, widths: tuple[i64, i64], most: i64, what: str) -> bytes:
        """Running sums with a leading 0; ``widths`` are the numbers' and the sums'."""
        raw, out = self._raw, BytesWriter()
        width, wide = widths
        total: i64 = 0
        end = at + width * count
        _write(out, 0, wide)
        while at < end:
            total += number_at(raw, at, width)
            if total > most:
                self._fail(f"{what} of the index do not fit their section")
            _write(out, total, wide)
            at += width
        return out.getvalue()
