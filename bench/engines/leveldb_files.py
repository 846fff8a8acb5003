"""The sizes of filters and index in LevelDB's table files, which LevelDB does not tell.

A table ends with a footer: the place and size of the metaindex and of the index, padding, and eight
magic bytes.  The metaindex has the place and size of the filter block below ``filter.`` and its name
(``doc/table_format.md`` of LevelDB).  A block compressed by Snappy begins with its size in memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

_FOOTER_BYTES: Final = 48
_MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")
_SUFFIXES: Final = (".ldb", ".sst")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes in memory: LevelDB decompresses an index whole, and never compresses filters."""

    index_bytes: int
    filter_bytes: int


def resident_sizes(directory: str) -> Sizes:
    """The sizes of all tables in the directory of a store that does nothing meanwhile."""
    found = [
        _table_sizes(os.path.join(directory, name))
        for name in os.listdir(directory)
        if name.endswith(_SUFFIXES)
    ]
    return Sizes(sum(each.index_bytes for each in found), sum(each.filter_bytes for each in found))


def _table_sizes(path: str) -> Sizes:
    with open(path, "rb") as file:
        content = file.read()
    footer = content[-_FOOTER_BYTES:]
    if not footer.endswith(_MAGIC):
        raise ValueError(f"{path}: no table of LevelDB")
    offset, size, at = _handle(footer, 0)
    index_offset, index_size, _ = _handle(footer, at)
    if content[index_offset + index_size]:  # the byte after a block: how it is compressed
        index_size, _ = _varint(content, index_offset)
    if content[offset + size]:
        raise ValueError(f"{path}: the metaindex is compressed")
    metaindex = content[offset : offset + size]
    restarts = int.from_bytes(metaindex[-4:], "little")
    end = len(metaindex) - 4 * (restarts + 1)
    at, total, key = 0, 0, b""
    while at < end:
        shared, at = _varint(metaindex, at)
        unshared, at = _varint(metaindex, at)
        length, at = _varint(metaindex, at)
        key = key[:shared] + metaindex[at : at + unshared]
        at += unshared
        if key.startswith(b"filter."):
            total += _handle(metaindex, at)[1]
        at += length
    return Sizes(index_size, total)


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return offset, size, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
