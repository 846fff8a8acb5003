"""The file BACKUP: what the copy in a directory was made of.

It is one line of JSON (:class:`Records`), a newline, the XXH3-128 of that line in hexadecimal, and a
newline.  It is replaced by a rename, before CURRENT is: so it describes the present backup and the next
one until then.  The record with the tables and the last sequence number of the manifest in force is that
of the present backup.  All writes of a backup are in tables, and its log is empty: a record in the log,
or a manifest that no record describes, shows that the backup was written to, and is one no more.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from lsmkv.encoding.checked_line import decode_line, encode_line
from lsmkv.storage.file_names import BACKUP
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.manifest import State

FORMAT: Final = 1
_MAX_BYTES: Final = 1 << 30

Fingerprint = tuple[int, int, int]


class TableRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a backup.

    Attributes:
        checksum: that of its index and properties, as in the manifest.
        content: the XXH3-128 of the whole file, in hexadecimal.
        original: device, number and time of change of the source's file, when it was copied; None if
            that was not known, or the table was made of the source's log.
    """

    number: int
    size_bytes: int
    checksum: int
    content: str
    original: Fingerprint | None


class LogRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log that the source had; its salt tells it from any other."""

    number: int
    salt: int


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One backup.

    Attributes:
        source, source_id: the source's directory, and its ``store_id``.
        next_file, last_seq: the source's, at that time.
        source_logs: the source's logs at that time.
        tables: the tables of the backup.
    """

    source: str
    source_id: str
    next_file: int
    last_seq: int
    source_logs: list[LogRecord]
    tables: list[TableRecord]

    def is_of(self, state: State) -> bool:
        """Whether a store of this state, without log records, is it."""
        numbers = {table.number for table in self.tables}
        there = {table.number for table in state.levels.tables()}
        return numbers == there and self.last_seq == state.last_seq


class Records(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of BACKUP."""

    format: int
    records: list[Record]


def new_record(capture: Capture, tables: list[TableRecord]) -> Record:
    return Record(
        source=capture.directory or "",
        source_id=capture.state.store_id,
        next_file=capture.state.next_file,
        last_seq=capture.last_seq,
        source_logs=[LogRecord(log.number, log.salt) for log in capture.logs],
        tables=tables,
    )


def encode_records(records: list[Record]) -> bytes:
    return encode_line(Records(FORMAT, records))


def decode_records(data: bytes, path: str) -> list[Record]:
    """The records in the bytes of BACKUP; CorruptionError or UnsupportedFormatError."""
    return decode_line(data, path, Records, FORMAT, "backup record").records


def read_records(storage: Storage, directory: str) -> list[Record] | None:
    """The records in BACKUP; None without that file.  Raises as :func:`decode_records`."""
    path = os.path.join(directory, BACKUP)
    try:
        return decode_records(storage.read_whole(path, ReadKind.LOG, _MAX_BYTES), path)
    except FileNotFoundError:
        return None
