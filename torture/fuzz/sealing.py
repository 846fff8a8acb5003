"""Corrects checksums of mutated bytes, so that decoders read on.

An attacker would do the same.  Each function takes any bytes and corrects magics, lengths that must add
up, and checksums, as far as the bytes have room for them.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise
from typing import Final

from lsmkv.encoding.checksums import checksum, content_checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.log.reader import HEADER_BYTES, RECORD_BYTES
from lsmkv.sstable.block.trailer import BLOCK_MAGIC, TRAILER_BYTES, checksum_seed
from lsmkv.sstable.format import FOOTER_BYTES, FORMAT_VERSION
from lsmkv.sstable.index_codec import open_index

NUMBER: Final = 7
"""File number of every table, log and manifest here."""

LOG_SALT: Final = 0x1234_5678_9ABC_DEF0
_MASK_32: Final = 0xFFFF_FFFF
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF


def seal_backup(data: bytes) -> bytes:
    """A record of backups: correct its checksum."""
    line = data[:-34]
    return b"%b\n%b\n" % (line, content_checksum(line).encode())


def seal_frame(data: bytes, offset: int = 0) -> bytes:
    """A block: correct its lengths, its magic and both checksums."""
    end = len(data) - TRAILER_BYTES
    if end < 0:
        return data
    fields = bytearray(data[end : end + 24])
    payload_length, _, filter_length = struct.unpack_from("<III", fields)
    if payload_length + filter_length != end:
        filter_length = min(filter_length, end)
        struct.pack_into("<I", fields, 0, end - filter_length)
        struct.pack_into("<I", fields, 8, filter_length)
    struct.pack_into("<H", fields, 22, BLOCK_MAGIC)
    (payload_length,) = struct.unpack_from("<I", fields)
    seed = checksum_seed(bytes(fields), NUMBER, offset)
    payload = checksum(data[:payload_length], seed) & _MASK_32
    bits = checksum(data[payload_length:end], seed) & _MASK_32
    return data[:end] + bytes(fields) + struct.pack("<II", payload, bits)


def seal_footer(data: bytes, size: int) -> bytes:
    """A footer: correct its lengths, version, checksum and magic."""
    if len(data) != FOOTER_BYTES:
        return data
    lengths = list(struct.unpack_from("<QQQQQ", data))
    spare = size - FOOTER_BYTES - sum(lengths[1:])
    if spare >= 0:
        lengths[0] = spare
    head = struct.pack("<QQQQQ", *lengths) + data[40:56] + struct.pack("<I", FORMAT_VERSION)
    return head + struct.pack("<I8s", checksum(head, 0) & _MASK_32, b"lsmkvSST")


def seal_index(data: bytes, data_length: int | None, filters_length: int | None) -> bytes:
    """An index: correct the ends of its arrays; a length of None is left as it is."""
    index = bytearray(data)
    with suppress(struct.error):
        count, _, chunks = struct.unpack_from("<III", index)
        if index[:8] == bytes(8):  # packed, not compressed
            struct.pack_into("<I", index, 8, len(index) - 12)
        offsets = 12 + 16 * count
        filter_ends = offsets + 8 * (count + 1)
        key_ends = filter_ends + 4 * (count + 1) + 5 * count
        starts = key_ends + 4 * (2 * count + 1)
        keys = starts + 4 * (chunks + 1) + 8 * chunks
        if count and keys <= len(index):
            struct.pack_into("<Q", index, offsets, 0)
            if data_length is not None:
                struct.pack_into("<Q", index, offsets + 8 * count, data_length & _MASK_64)
            struct.pack_into("<I", index, filter_ends, 0)
            if filters_length is not None:
                struct.pack_into("<I", index, filter_ends + 4 * count, filters_length & _MASK_32)
            struct.pack_into("<I", index, key_ends, 0)
            struct.pack_into("<I", index, key_ends + 8 * count, (len(index) - keys) & _MASK_32)
            struct.pack_into("<I", index, starts, 0)
            struct.pack_into("<I", index, starts + 4 * chunks, count)
    return bytes(index)


def seal_table(data: bytes) -> bytes:
    """A table: correct blocks, filter chunks, dictionary, index, properties and footer."""
    if len(data) < FOOTER_BYTES:
        return data
    table = bytearray(data)
    table[-FOOTER_BYTES:] = seal_footer(bytes(table[-FOOTER_BYTES:]), len(table))
    lengths = struct.unpack_from("<QQQQQ", table, len(table) - FOOTER_BYTES)
    if sum(lengths) + FOOTER_BYTES != len(table):
        return bytes(table)
    dictionary = lengths[0]
    filters = dictionary + lengths[1]
    index = filters + lengths[2]
    properties = index + lengths[3]
    table[index:properties] = seal_index(bytes(table[index:properties]), lengths[0], None)
    _seal_blocks(table, index, properties, filters, lengths[2])
    footer = len(table) - FOOTER_BYTES
    sums = (checksum(bytes(table[dictionary:filters]), 0), checksum(bytes(table[index:footer]), 0))
    struct.pack_into("<QQ", table, footer + 40, *sums)
    table[footer:] = seal_footer(bytes(table[footer:]), len(table))
    return bytes(table)


def _seal_blocks(
    table: bytearray, index: int, properties: int, filters: int, filters_length: int
) -> None:
    """Correct the blocks that the index names, and the filter chunks.

    The chunks of a packed index are left as they are.
    """
    if table[index : index + 4] == bytes(4):
        with suppress(CorruptionError, UnsupportedFormatError):
            section = bytes(table[index:properties])
            packed = open_index(section, "", index, filters, filters_length)
            for block in range(packed.block_count):
                start, end = packed.offset(block), packed.offset(block + 1)
                table[start:end] = seal_frame(bytes(table[start:end]), start)
        return
    with suppress(struct.error):
        count, _, chunks = struct.unpack_from("<III", table, index)
        offsets_at = index + 12 + 16 * count
        if offsets_at + 8 * (count + 1) > properties:
            return
        offsets = struct.unpack_from(f"<{count + 1}Q", table, offsets_at)
        for start, end in pairwise(offsets):
            if start <= end <= filters:
                table[start:end] = seal_frame(bytes(table[start:end]), start)
        ends_at = offsets_at + 8 * (count + 1)
        starts_at = ends_at + 4 * (count + 1) + 5 * count + 4 * (2 * count + 1)
        sums_at = starts_at + 4 * (chunks + 1)
        if sums_at + 8 * chunks > properties:
            return
        ends = struct.unpack_from(f"<{count + 1}I", table, ends_at)
        starts = struct.unpack_from(f"<{chunks + 1}I", table, starts_at)
        for chunk in range(chunks):
            low, high = 0, filters_length
            if ends[-1] and max(starts[chunk : chunk + 2]) <= count:
                low, high = ends[starts[chunk]], ends[starts[chunk + 1]]
            bits = bytes(table[filters + low : filters + high])
            struct.pack_into("<Q", table, sums_at + 8 * chunk, checksum(bits, 0))


def seal_log(data: bytes, kind: int = 0) -> bytes:
    """A log: correct its header and its records; the last record ends with the file."""
    head = struct.pack("<8sIIQQ", b"lsmkvLOG", 1, kind, NUMBER, LOG_SALT)
    head += data[len(head) : HEADER_BYTES - 8].ljust(HEADER_BYTES - 8 - len(head), b"\x00")
    return seal_records(head + bytes(8) + data[HEADER_BYTES:], LOG_SALT)


def log_salt_of(data: bytes) -> int:
    """The salt in the header of a log; 0 if the header is cut short."""
    return int.from_bytes(data[24:32], "little")


def seal_records(data: bytes, salt: int) -> bytes:
    """A log with its own header: correct the header's checksum and the records, up to the zeros."""
    if len(data) < HEADER_BYTES:
        return data
    head = data[: HEADER_BYTES - 8]
    log = bytearray(head + struct.pack("<Q", checksum(head, 0)) + data[HEADER_BYTES:])
    at = HEADER_BYTES
    while at + RECORD_BYTES <= len(log):
        if not any(log[at : at + RECORD_BYTES]):
            break
        (length,) = struct.unpack_from("<I", log, at + 4)
        length = min(length, len(log) - at - RECORD_BYTES)
        struct.pack_into("<I", log, at + 4, length)
        end = at + RECORD_BYTES + length
        check = checksum(bytes(log[at + 4 : end]), (salt + at) & _MASK_64) & _MASK_32
        struct.pack_into("<I", log, at, check)
        at = end
    return bytes(log)


def log_of(payloads: list[bytes], kind: int = 0) -> bytes:
    body = b"".join(b"\0\0\0\0" + struct.pack("<IB", len(item), 0) + item for item in payloads)
    return seal_log(bytes(HEADER_BYTES) + body, kind)


def seal_saved_filter(data: bytes) -> bytes:
    """A saved filter: correct its magic, version and checksum."""
    if len(data) < 24:
        return data
    body = b"lsmkvFLT" + struct.pack("<H", 1) + data[10:14] + b"\0\0" + data[16:-8]
    return body + struct.pack("<Q", checksum(body, 0))


def seal_current(data: bytes) -> bytes:
    """CURRENT: correct the checksum of its name."""
    name = data.partition(b" ")[0]
    return name + b" %016x\n" % checksum(name, 0)
