"""One segment of the disk cache: a file of records, and beside it a file that tells where they are.

A record is::

    checksum     u64   XXH3-64 of all that follows
    tag          u64   of the segment
    offset       u64   where the data begin in their table
    name               of the store and the table, in UTF-8
    data

The other file is::

    tag          u64   random, and different in each segment
    places       u64 each   the key and the position of each record, in their order

All numbers are little-endian.  A record is written before its place: what a killed writer leaves without
one is lost.

The data are a publisher's, who may be hostile, and anybody can compute checksums.  The tag is not known
to publishers: so no data that look like a record are taken for one, wherever a reader looks.
"""

from __future__ import annotations

import struct
from typing import Final

from lsmkv.encoding.checksums import checksum

_HEAD: Final = struct.Struct("<QQ")  # of a record, behind its checksum: tag, offset
_PLACE: Final = struct.Struct("<QQ")
_CHECKSUM_BYTES: Final = 8
TAG_BYTES: Final = 8
PLACE_BYTES: Final = _PLACE.size


def record_key(name: bytes, offset: int, length: int) -> int:
    """The key of a record: a hash of the request."""
    return checksum(b"%d+%d %b" % (offset, length, name), 0)


def record_size(name: bytes, length: int) -> int:
    return _CHECKSUM_BYTES + _HEAD.size + len(name) + length


def pack_record(tag: int, name: bytes, offset: int, data: bytes) -> bytes:
    rest = _HEAD.pack(tag, offset) + name + data
    return checksum(rest, 0).to_bytes(_CHECKSUM_BYTES, "little") + rest


def data_of(record: bytes, tag: int, name: bytes, offset: int) -> bytes | None:
    """The data of a whole record; None if it is damaged or another."""
    data = record[record_size(name, 0) :]
    return data if record == pack_record(tag, name, offset, data) else None


def pack_tag(tag: int) -> bytes:
    return tag.to_bytes(TAG_BYTES, "little")


def pack_place(key: int, position: int) -> bytes:
    return _PLACE.pack(key, position)


def unpack_places(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """The tag, and the key and position of each record; half a place at the end does not count."""
    places = data[TAG_BYTES:]
    whole = places[: len(places) // PLACE_BYTES * PLACE_BYTES]
    return int.from_bytes(data[:TAG_BYTES], "little"), list(_PLACE.iter_unpack(whole))
