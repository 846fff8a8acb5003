"""The end of a table file, rewritten to adopt the table.

The end is properties and footer.  A store adopts a table that was written outside it: blocks, filters
and index stay as they are, and only the end of the file changes.  The new properties have the number
that the store gave the table, and the one sequence number that all of its entries get.  They keep the
number that seeds the blocks' checksums.  An adopted table may be adopted once more.

A table written for adoption has spaces before its properties.  The new properties then fit into the
same place, and all that changes lies in one page of the file.  A page is written whole, whatever ends
the process meanwhile: so the file has the old end or the new one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import msgspec

from lsmkv.encoding.checksums import RunningChecksum, running_checksum
from lsmkv.errors import CorruptionError
from lsmkv.sstable.format import (
    FOOTER_BYTES,
    Footer,
    TableMeta,
    TableProperties,
    decode_footer,
    decode_properties,
)
from lsmkv.storage.storage import RandomFile, ReadKind

_CHECKSUM_STEP_BYTES: Final = 64 * 1024  # small enough for the allocator to reuse the memory
_PAGE_BYTES: Final = 4096
_ROOM_BYTES: Final = 96  # adoption lengthens properties by at most 76 bytes
MAX_SEAL: Final = (1 << 24) - 1
"""The largest number that seals blocks: more bits do not count in the seed of their checksums."""


@dataclass(frozen=True, slots=True)
class TableEnd:
    """Footer and properties of a table."""

    footer: Footer
    properties: TableProperties
    index_checksum: RunningChecksum  # the running checksum, after the index
    written: bytes  # the properties as they are stored


@dataclass(frozen=True, slots=True)
class AdoptedEnd:
    """What replaces a file from ``offset`` on, and the table's record.

    ``in_place``: the file keeps its length, and all that changes lies in one page.
    """

    meta: TableMeta
    offset: int
    data: bytes
    in_place: bool


def new_seal() -> int:
    """A number for a table outside a store: chosen at random, to seed its blocks' checksums."""
    return int.from_bytes(os.urandom(3), "little") or 1


def read_footer(file: RandomFile) -> Footer:
    size = file.size
    offset = max(0, size - FOOTER_BYTES)
    return decode_footer(file.pread(offset, size - offset, ReadKind.INDEX), file.path, size)


def read_end(file: RandomFile) -> TableEnd:
    """Footer and properties, checked together with the index."""
    footer = read_footer(file)
    running = running_checksum()
    offset = footer.index_offset
    while offset < footer.properties_offset:
        length = min(_CHECKSUM_STEP_BYTES, footer.properties_offset - offset)
        running.update(file.pread(offset, length, ReadKind.INDEX))
        offset += length
    data = file.pread(footer.properties_offset, footer.properties_length, ReadKind.INDEX)
    whole = running.copy()
    whole.update(data)
    check_tail(whole.intdigest(), file.path, footer)
    properties = decode_properties(data, file.path, footer.properties_offset)
    return TableEnd(footer, properties, running, data)


def check_tail(got: int, path: str, footer: Footer) -> None:
    expected = footer.tail_checksum
    if got != expected:
        reason = "checksum of a table's index fails"
        raise CorruptionError(path, footer.index_offset, reason, expected=expected, got=got)


def with_room(properties: bytes, offset: int) -> bytes:
    """``properties`` after spaces: room, in the file's last page, for those of an adopted table."""
    room = _ROOM_BYTES
    changing = room + len(properties) + FOOTER_BYTES
    if offset % _PAGE_BYTES + changing > _PAGE_BYTES >= changing:
        room += -offset % _PAGE_BYTES
    return b" " * room + properties


def adopted_end(end: TableEnd, number: int, seq: int) -> AdoptedEnd:
    """The end of the same table, adopted as table ``number``."""
    old, footer = end.properties, end.footer
    properties = msgspec.structs.replace(
        old,
        number=number,
        sealed_number=old.seal,
        one_seq=True,
        smallest_seq=seq,
        largest_seq=seq,
        replaces=[],
        beside=[],
        erased_seq=0,  # a number of another store
    )
    written = msgspec.json.encode(properties).rjust(footer.properties_length)
    whole = end.index_checksum.copy()
    whole.update(written)
    new = footer._replace(properties_length=len(written), tail_checksum=whole.intdigest())
    data = written + new.encode()
    meta = properties.meta(footer.properties_offset + len(data), new.tail_checksum)
    same = len(written) == footer.properties_length
    spaces = [len(part) - len(part.lstrip(b" ")) for part in (end.written, written)]
    unchanged = min(spaces) if same else 0
    offset = footer.properties_offset + unchanged
    in_place = same and offset // _PAGE_BYTES == (meta.size_bytes - 1) // _PAGE_BYTES
    return AdoptedEnd(meta, offset, data[unchanged:], in_place)
