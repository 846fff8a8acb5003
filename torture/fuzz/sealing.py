"""Corrects checksums of mutated bytes, so that decoders read on.

An attacker would do the same.  Each function takes any bytes and corrects magics, lengths that must add
up, and checksums, as far as the bytes have room for them.
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import Final

from lsmkv.encoding.checksums import checksum, content_checksum
from lsmkv.log.reader import HEADER_BYTES, RECORD_BYTES
from lsmkv.sstable.block.trailer import BLOCK_MAGIC, TRAILER_BYTES, checksum_seed
from lsmkv.sstable.format import FOOTER_BYTES, FORMAT_VERSION
from torture.fuzz.index_parts import IndexParts

NUMBER: Final = 7  # file number of every table, log and manifest here
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


def seal_index(data: bytes) -> tuple[bytes, list[int], list[int], int]:
    """An index: correct where its groups start; :meth:`IndexParts.follow` for the rest."""
    try:
        parts = IndexParts.of(data, walks=True)
        return parts.encoded(), *parts.follow()
    except (struct.error, IndexError):
        return data, [0], [0], 0


def seal_table(data: bytes) -> bytes:
    """A table with correct sections; blocks and filters get the index's lengths if these are near."""
    if len(data) < FOOTER_BYTES:
        return data
    footer = seal_footer(data[-FOOTER_BYTES:], len(data))
    lengths = list(struct.unpack_from("<QQQQQ", footer))
    if sum(lengths) + FOOTER_BYTES != len(data):
        return data[:-FOOTER_BYTES] + footer
    ends = [0, *accumulate(lengths)]
    sections = [data[low:high] for low, high in pairwise(ends)]
    try:
        parts = IndexParts.of(sections[3], walks=True)
        offsets, filter_ends, _ = parts.follow()
    except (struct.error, IndexError):
        pass
    else:
        sections[0] = _of_length(sections[0], offsets[-1])
        sections[2] = _of_length(sections[2], filter_ends[-1])
        blocks = [seal_frame(sections[0][low:high], low) for low, high in pairwise(offsets)]
        if sum(map(len, blocks)) == len(sections[0]):
            sections[0] = b"".join(blocks)
        parts.seal_chunks(sections[2], filter_ends)
        sections[3] = parts.encoded()
    sums = checksum(sections[1], 0), checksum(sections[3] + sections[4], 0)
    footer = struct.pack("<QQQQQQQ", *map(len, sections), *sums) + footer[56:]
    table = b"".join(sections)
    return table + seal_footer(footer, len(table) + FOOTER_BYTES)


def _of_length(section: bytes, length: int) -> bytes:
    return section[:length].ljust(length, b"\0") if 0 < length <= 2 * len(section) else section


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
