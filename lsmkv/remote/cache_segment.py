"""One file of the disk cache: a header, records, then the places of all of them.

The header is::

    magic        u64
    tag          u64   random, and different in each segment

A record is::

    checksum     u64   XXH3-64 of all that follows
    tag          u64   the header's
    data length  u32
    name length  u16
    offset       u64   where the data begin in their table
    name               of the store and the table, in UTF-8
    data

When a segment is full, or its writer closes it, a footer follows the last record::

    keys         u64 each   of the records, in their order
    positions    u64 each
    count        u64
    checksum     u64   XXH3-64 of all of the footer above
    tag          u64   the header's

All numbers are little-endian.  A segment whose writer was killed has no footer; then its records are
read one by one, up to the first that is not whole.

The data are a publisher's, who may be hostile, and anybody can compute checksums.  The tag is not known
to publishers: so no data that look like a record or a footer are taken for one, wherever a reader looks.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Final

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError
from lsmkv.storage.storage import RandomFile, ReadKind

HEADER: Final = struct.Struct("<QQ")
RECORD: Final = struct.Struct("<QQIHQ")
_CHECKED: Final = struct.Struct("<QIHQ")  # a record's start without its checksum
_TAIL: Final = struct.Struct("<QQQ")
_CHECKSUM_BYTES: Final = 8
_PLACE_BYTES: Final = 16
_MAGIC: Final = 0x32304D4753564B4C
MAX_NAME_BYTES: Final = 1 << 10


def record_key(name: bytes, offset: int, length: int) -> int:
    """The key of a record: a hash of the request."""
    return checksum(b"%d+%d %b" % (offset, length, name), 0)


def record_size(name: bytes, length: int) -> int:
    return RECORD.size + len(name) + length


def footer_size(count: int) -> int:
    return count * _PLACE_BYTES + _TAIL.size


def pack_record(tag: int, name: bytes, offset: int, data: bytes) -> bytes:
    rest = _CHECKED.pack(tag, len(data), len(name), offset) + name + data
    return checksum(rest, 0).to_bytes(_CHECKSUM_BYTES, "little") + rest


def data_of(record: bytes, tag: int, name: bytes, offset: int) -> bytes | None:
    """The data of a whole record; None if it is damaged or another."""
    found, tagged, length, name_length, at = RECORD.unpack_from(record)
    start = RECORD.size + name_length
    if found != checksum(record[_CHECKSUM_BYTES:], 0) or start + length != len(record):
        return None
    if tagged != tag:
        return None
    if at != offset or record[RECORD.size : start] != name:
        return None
    return record[start:]


class SegmentEntries:
    """The records of one segment: their keys and positions, in order.

    Attributes:
        tag: in the header, the footer and each record.
        end: where the next record begins.
        is_whole: False if bytes follow that are no record.
    """

    def __init__(self, tag: int) -> None:
        self.tag = tag
        self.keys = array("Q")
        self.positions = array("Q")
        self.end = HEADER.size
        self.is_whole = True

    def header(self) -> bytes:
        return HEADER.pack(_MAGIC, self.tag)

    def add(self, key: int, size_bytes: int) -> int:
        """Add a record behind the last one; its position."""
        position = self.end
        self.keys.append(key)
        self.positions.append(position)
        self.end += size_bytes
        return position

    def footer(self) -> bytes:
        places = _little_endian(self.keys) + _little_endian(self.positions)
        count = len(self.keys)
        checked = checksum(places + count.to_bytes(8, "little"), 0)
        return places + _TAIL.pack(count, checked, self.tag)


def read_entries(file: RandomFile) -> SegmentEntries:
    """The entries of a segment, which may still grow; none of a file that is no segment."""
    magic = tag = 0
    if file.size >= HEADER.size:
        magic, tag = HEADER.unpack(file.pread(0, HEADER.size, ReadKind.DATA))
    entries = SegmentEntries(tag)
    if magic != _MAGIC:
        entries.is_whole = file.size == 0  # its writer was killed at once
    elif not _read_footer(file, entries):
        _walk(file, entries)
    return entries


def _read_footer(file: RandomFile, entries: SegmentEntries) -> bool:
    tail_start = file.size - _TAIL.size
    if tail_start < HEADER.size:
        return False
    count, checked, tag = _TAIL.unpack(file.pread(tail_start, _TAIL.size, ReadKind.DATA))
    start = tail_start - count * _PLACE_BYTES
    if tag != entries.tag or start < HEADER.size:
        return False
    places = file.pread(start, count * _PLACE_BYTES, ReadKind.DATA) if count else b""
    if checked != checksum(places + count.to_bytes(8, "little"), 0):
        return False
    half = len(places) // 2
    entries.keys = _native(places[:half])
    entries.positions = _native(places[half:])
    entries.end = start
    return True


def _walk(file: RandomFile, entries: SegmentEntries) -> None:
    """Read record by record, up to the first damaged one."""
    try:
        while entries.end < file.size:
            header = file.pread(entries.end, RECORD.size, ReadKind.DATA)
            _, _, length, name_length, offset = RECORD.unpack(header)
            size_bytes = RECORD.size + name_length + length
            record = file.pread(entries.end, size_bytes, ReadKind.DATA)
            name = record[RECORD.size : RECORD.size + name_length]
            if data_of(record, entries.tag, name, offset) is None:
                break
            entries.add(record_key(name, offset, length), size_bytes)
    except CorruptionError:  # the record would end behind the file
        pass
    entries.is_whole = entries.end == file.size


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array("Q", numbers)
    swapped.byteswap()
    return swapped.tobytes()


def _native(data: bytes) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(data)
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers
