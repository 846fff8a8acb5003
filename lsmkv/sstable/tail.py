"""The end of a table file: footer and properties, read when it is opened; the index, when it is used.

The checksum of index and properties is held against their bytes each time they are read, and so at
every opening: damage there is found at once, though the index is not yet kept.
"""

from __future__ import annotations

from typing import Final

from lsmkv.encoding.checksums import checksum, running_checksum
from lsmkv.errors import CorruptionError
from lsmkv.sstable.format import (
    FOOTER_BYTES,
    Footer,
    TableProperties,
    decode_footer,
    decode_properties,
)
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.index_codec import open_index
from lsmkv.storage.storage import RandomFile, ReadKind

_PIECE_BYTES: Final = 64 * 1024  # memory of this size is had again and again, and cleared once


def read_footer(file: RandomFile, path: str) -> Footer:
    """The footer of the table in ``file``.

    Raises:
        CorruptionError, UnsupportedFormatError: as :func:`~lsmkv.sstable.format.decode_footer`.
        OSError: it cannot be read.
    """
    size = file.size
    at = max(0, size - FOOTER_BYTES)
    return decode_footer(file.pread(at, size - at, ReadKind.INDEX), path, size)


def read_properties(file: RandomFile, path: str, footer: Footer) -> TableProperties:
    """The properties, once they and the index have been checked; the index is not kept.

    Raises:
        CorruptionError: their checksum fails, or the properties cannot be.
        OSError: they cannot be read.
    """
    running = running_checksum()
    at = footer.index_offset
    while at < footer.properties_offset:
        length = min(_PIECE_BYTES, footer.properties_offset - at)
        running.update(file.pread(at, length, ReadKind.INDEX))
        at += length
    data = file.pread(footer.properties_offset, footer.properties_length, ReadKind.INDEX)
    running.update(data)
    _check(running.intdigest(), path, footer)
    return decode_properties(data, path, footer.properties_offset)


def read_dictionary(file: RandomFile, path: str, footer: Footer) -> bytes:
    """The compression dictionary, checked; empty when there is none.

    Raises:
        CorruptionError: its checksum fails.
        OSError: it cannot be read.
    """
    if not footer.dictionary_length:
        return b""
    data = file.pread(footer.data_length, footer.dictionary_length, ReadKind.INDEX)
    expected, got = footer.dictionary_checksum, checksum(data, 0)
    if got != expected:
        reason = "checksum of a table's dictionary fails"
        raise CorruptionError(path, footer.data_length, reason, expected=expected, got=got)
    return data


def read_index(
    file: RandomFile, path: str, footer: Footer, properties: TableProperties
) -> TableIndex:
    """The index, checked.

    Raises:
        CorruptionError: the checksum fails, its arrays do not fit together, or it contradicts the
            properties.
        UnsupportedFormatError: it is packed by an unknown codec.
        OSError: it cannot be read.
    """
    section = file.pread(footer.index_offset, footer.index_length, ReadKind.INDEX)
    running = running_checksum()
    running.update(section)
    running.update(file.pread(footer.properties_offset, footer.properties_length, ReadKind.INDEX))
    _check(running.intdigest(), path, footer)
    return checked_index(section, path, footer, properties)


def checked_index(
    section: bytes, path: str, footer: Footer, properties: TableProperties
) -> TableIndex:
    """The index in ``section``, whose checksum holds.

    Raises:
        CorruptionError: its arrays do not fit together, or it contradicts the properties.
        UnsupportedFormatError: it is packed by an unknown codec.
    """
    place = footer.index_offset
    index = open_index(section, path, place, footer.data_length, footer.filters_length)
    said = properties
    index.check_said(said.smallest, said.largest, said.block_count, said.entry_count)
    return index


def _check(got: int, path: str, footer: Footer) -> None:
    if got != footer.tail_checksum:
        reason = "checksum of a table's index fails"
        expected = footer.tail_checksum
        raise CorruptionError(path, footer.index_offset, reason, expected=expected, got=got)
