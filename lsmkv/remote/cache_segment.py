"""One file of the disk cache: records, then the places of all of them.

A record is::

    checksum     u64   XXH3-64 of all that follows
    data length  u32
    name length  u16
    offset       u64   where the data begin in their table
    name               of the table, in UTF-8
    data

When a segment is full, or its writer closes it, a footer follows the last record::

    keys         u64 each   of the records, in their order
    positions    u64 each
    count        u64
    checksum     u64   XXH3-64 of all of the footer above
    magic        u64

All numbers are little-endian.  A segment whose writer was killed has no footer; then its records are
read one by one, up to the first that is not whole.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Final

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError
from lsmkv.storage.storage import RandomFile, ReadKind

RECORD: Final = struct.Struct("<QIHQ")
_CHECKED: Final = struct.Struct("<IHQ")  # the header without its checksum
_TAIL: Final = struct.Struct("<QQQ")
_CHECKSUM_BYTES: Final = 8
_PLACE_BYTES: Final = 16
_MAGIC: Final = 0x31304D4753564B4C
MAX_NAME_BYTES: Final = 1 << 10


def record_key(name: bytes, offset: int, length: int) -> int:
    """What a record is found by: a hash of what is asked for."""
    return checksum(b"%d+%d %b" % (offset, length, name), 0)


def record_size(name: bytes, length: int) -> int:
    return RECORD.size + len(name) + length


def footer_size(count: int) -> int:
    return count * _PLACE_BYTES + _TAIL.size


def pack_record(name: bytes, offset: int, data: bytes) -> bytes:
    rest = _CHECKED.pack(len(data), len(name), offset) + name + data
    return checksum(rest, 0).to_bytes(_CHECKSUM_BYTES, "little") + rest


def data_of(record: bytes, name: bytes, offset: int) -> bytes | None:
    """The data of a whole record; None if it is damaged or another."""
    found, length, name_length, at = RECORD.unpack_from(record)
    start = RECORD.size + name_length
    if found != checksum(record[_CHECKSUM_BYTES:], 0) or start + length != len(record):
        return None
    if at != offset or record[RECORD.size : start] != name:
        return None
    return record[start:]


class SegmentEntries:
    """The records of one segment: their keys and positions, in order.

    Attributes:
        end: where the next record begins.
        is_whole: False if bytes follow that are no record.
    """

    def __init__(self) -> None:
        self.keys = array("Q")
        self.positions = array("Q")
        self.end = 0
        self.is_whole = True

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
        return places + _TAIL.pack(count, checked, _MAGIC)


def read_entries(file: RandomFile) -> SegmentEntries:
    """The entries of a segment, which may still grow."""
    found = _read_footer(file)
    return _walk(file) if found is None else found


def _read_footer(file: RandomFile) -> SegmentEntries | None:
    if file.size < _TAIL.size:
        return None
    tail_start = file.size - _TAIL.size
    count, checked, magic = _TAIL.unpack(file.pread(tail_start, _TAIL.size, ReadKind.DATA))
    start = tail_start - count * _PLACE_BYTES
    if magic != _MAGIC or start < 0:
        return None
    places = file.pread(start, count * _PLACE_BYTES, ReadKind.DATA) if count else b""
    if checked != checksum(places + count.to_bytes(8, "little"), 0):
        return None
    entries = SegmentEntries()
    half = len(places) // 2
    entries.keys = _native(places[:half])
    entries.positions = _native(places[half:])
    entries.end = start
    return entries


def _walk(file: RandomFile) -> SegmentEntries:
    """Read record by record, up to the first damaged one."""
    entries = SegmentEntries()
    try:
        while entries.end < file.size:
            header = file.pread(entries.end, RECORD.size, ReadKind.DATA)
            _, length, name_length, offset = RECORD.unpack(header)
            size_bytes = RECORD.size + name_length + length
            record = file.pread(entries.end, size_bytes, ReadKind.DATA)
            name = record[RECORD.size : RECORD.size + name_length]
            if data_of(record, name, offset) is None:
                break
            entries.add(record_key(name, offset, length), size_bytes)
    except CorruptionError:  # the record would end behind the file
        pass
    entries.is_whole = entries.end == file.size
    return entries


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
