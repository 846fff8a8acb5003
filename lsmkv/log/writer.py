"""A checksummed record log, the format of write-ahead logs and of manifests.

Layout, little-endian.  Header, 56 bytes, on disk before the first record is written::

    0   magic "lsmkvLOG"                24  u64  salt, random
    8   u32  format version, 1          32  u64  number of the log before this one, 0 for none
    12  u32  0 write-ahead, 1 manifest  40  u64  where that log ends
    16  u64  number                     48  u64  XXH3-64 of the bytes before it

Record, 9 bytes and a payload::

    0   u32  low half of XXH3-64 of the rest, seeded with salt + the record's offset (mod 2^64)
    4   u32  payload length             8   u8   0 payload, 1 sync mark

Zeros may follow the records of a write-ahead log: room for more.

After a sync, a *sync mark* precedes the next record.  Its payload is the offset (u64) up to which the
log is known to be on disk.  Bad bytes after every mark are the torn tail of writes that were never
synced, and recovery drops them.  Bad bytes before a mark are damage to acknowledged writes.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i64, u8

from lsmkv.encoding.checksums import checksum, short_checksum
from lsmkv.log.group_commit import GroupCommit
from lsmkv.log.reader import (
    FORMAT_VERSION,
    HEADER,
    HEADER_BYTES,
    KINDS,
    LOG_MAGIC,
    MARK_BYTES,
    MARK_HEAD,
    PAYLOAD,
    SYNC_MARK,
    LogKind,
    LogReader,
)
from lsmkv.storage.storage import AppendFile, Storage

RECORD_HEAD_BYTES: Final = 5  # length and kind: the part of a record's head under its checksum
_BLANK: Final = bytes(RECORD_HEAD_BYTES)
LARGE_RECORD_BYTES: Final = 4096
"""From this size on a second call is faster than one more copy."""
_MAX_KEPT_BYTES: Final = 64 * 1024  # the buffer of a larger record is not kept for the next
_COPY_BYTES: Final = 1 << 20


def new_record() -> BytesWriter:
    """An empty record for ``append_record``: write the payload behind its blank head."""
    record = BytesWriter()
    record.write(_BLANK)
    return record


class LogWriter:
    """Appends records to a log file.

    One thread at a time may append (the caller's lock).  Any number may call ``sync_through`` at once.
    ``obsolete`` is set once tables hold the log's writes, so that it needs no more syncs.
    """

    def __init__(
        self,
        storage: Storage,
        file: AppendFile,
        kind: LogKind,
        number: int,
        salt: int,
        synced: int,
        marked: int,
        predecessor: LogWriter | None,
    ) -> None:
        self.number = number
        self.salt = salt  # random: no other log has the same
        self.obsolete = False
        self._stats = storage.stats
        self._file = file
        self._has_room = kind == "log"  # a manifest's length tells readers whether it has changed
        self._marked = marked
        self._predecessor = predecessor
        self._record = new_record()  # reused by every append, like the next
        self._sealed = BytesWriter()
        self._group = GroupCommit(synced)
        self._sync_s = 0.0  # duration of the last sync

    @classmethod
    def create(
        cls,
        storage: Storage,
        path: str,
        number: int,
        kind: LogKind,
        predecessor: LogWriter | None = None,
        previous: tuple[int, int] = (0, 0),
    ) -> LogWriter:
        """A new log with its header on disk; the caller syncs the directory.

        It follows ``predecessor``, or the log whose number and end are ``previous``.
        """
        # Below 2^61, so that salt + offset fits a machine word; always 19 digits in the manifest.
        salt = (1 << 60) + (int.from_bytes(os.urandom(8), "little") >> 4)
        if predecessor is not None:
            previous = predecessor.number, predecessor.end
        head = HEADER.pack(LOG_MAGIC, FORMAT_VERSION, KINDS.index(kind), number, salt, *previous)
        file = storage.create(path)
        try:
            file.append(head + checksum(head, 0).to_bytes(8, "little"))
            file.sync()
            synced = HEADER_BYTES if predecessor is None else 0  # 0: sync the predecessor first
            return cls(storage, file, kind, number, salt, synced, HEADER_BYTES, predecessor)
        except BaseException:
            file.close()
            with contextlib.suppress(OSError):  # the next open removes what is left over
                storage.remove(path)
            raise

    @classmethod
    def reopen(cls, storage: Storage, contents: LogReader, is_synced: bool = False) -> LogWriter:
        """Append to a log that was read; the torn tail is cut off.

        Unless ``is_synced``, its records are written again and synced: an earlier sync may have failed,
        or never come.  A mark at the end of a synced log was written after its last sync.
        """
        end, durable = contents.end, contents.durable
        file = storage.open_append(contents.path, end)
        try:
            if not is_synced:
                storage.write_again(contents.path, durable, contents._data[durable:end])
                file.sync()
        except OSError:
            file.close()
            raise
        marked = end if contents.ends_marked else max(durable, HEADER_BYTES)
        synced = durable if is_synced and contents.ends_marked else end
        number, salt = contents.number, contents.salt
        return cls(storage, file, contents.kind, number, salt, synced, marked, None)

    @property
    def path(self) -> str:
        return self._file.path

    def rename(self, storage: Storage, path: str) -> None:
        """Give the file another name; the caller syncs the directory."""
        storage.replace(self._file.path, path)
        self._file.path = path

    @property
    def end(self) -> int:
        return self._file.offset

    @property
    def records_end(self) -> int:
        """The end without an unsynced mark: what a sync of all records has to reach."""
        end = self._file.offset
        synced = self._group.synced
        return synced if end - synced == MARK_BYTES else end  # each record is longer than a mark

    @property
    def synced(self) -> int:
        return self._group.synced

    def append(self, payload: bytes) -> int:
        """Append a record, unsynced; returns where it ends.  After an OSError nothing was appended."""
        record = new_record()
        record.write(payload)
        return self.append_record(record)

    def own_record(self) -> BytesWriter:
        """The log's own buffer as a :func:`new_record`, for its next ``append_record`` only."""
        self._record.truncate(RECORD_HEAD_BYTES)
        return self._record

    def append_record(self, record: BytesWriter) -> int:
        file = self._file
        offset = file.offset
        marked = self._marked
        sealed = self._sealed
        sealed.truncate(0)
        if self._group.synced > marked:
            marked = self._group.synced
            self._seal_mark(sealed, marked, offset)
            offset += MARK_BYTES
        body = self._seal(sealed, record, PAYLOAD, offset)
        if len(body) < LARGE_RECORD_BYTES:
            sealed.write(body)
            body = b""
        elif len(body) > _MAX_KEPT_BYTES:
            self._record = new_record()
        data = sealed.getvalue()
        size_bytes = len(data) + len(body)
        if self._has_room:
            file.make_room(size_bytes)
        file.append(data, body)
        self._marked = marked
        self._stats.log_bytes += size_bytes
        return file.offset

    def _seal_mark(self, sealed: BytesWriter, synced: int, offset: int) -> None:
        record = new_record()
        write_i64_le(record, synced)
        sealed.write(self._seal(sealed, record, SYNC_MARK, offset))

    def _seal(self, sealed: BytesWriter, record: BytesWriter, kind: u8, offset: int) -> bytes:
        """Write the checksum of the record at ``offset``; returns the bytes after it."""
        length: i64 = len(record) - RECORD_HEAD_BYTES
        position: i64
        for position in range(4):
            low: int = length & 0xFF
            record[position] = low
            length >>= 8
        record[4] = kind
        body = record.getvalue()
        write_i32_le(sealed, short_checksum(body, self.salt + offset))
        return body

    def sync_through(self, end: int) -> None:
        """Return once ``end`` bytes are on disk; one fdatasync serves all that wait.

        A sync that failed is not tried again: each later call raises OSError too.
        """
        group = self._group
        if not group.join(end):
            return
        try:
            with group.leading:
                if group.synced < end:
                    self._sync()
        finally:
            group.hand_over()

    def _sync(self) -> None:
        if self.obsolete:
            return
        group = self._group
        group.wait_for_followers(self._sync_s)
        target = self._file.offset
        predecessor = self._predecessor
        if predecessor is not None:
            if not predecessor.obsolete:
                predecessor.sync_through(predecessor.end)
            self._predecessor = None
        started = time.perf_counter()
        self._file.sync()
        self._sync_s = time.perf_counter() - started
        served = group.note_synced(target)
        self._stats.sync_us.add(self._sync_s * 1e6)
        self._stats.log_syncs += 1
        self._stats.group_commit_size.add(served)

    def close(self, *, mark: bool = False) -> None:
        """Close the file after any running sync; a second call does nothing.

        With ``mark``, append a sync mark if all of the log has been synced.
        """
        group = self._group
        group.lead()
        try:
            with group.leading:
                self._close(mark)
        finally:
            group.hand_over()

    def _close(self, mark: bool) -> None:
        self._predecessor = None  # or logs that are never synced would keep all before them alive
        end = self._file.offset
        if mark and self._group.synced == end > self._marked:
            sealed = BytesWriter()
            self._seal_mark(sealed, end, end)
            with contextlib.suppress(OSError):
                self._file.append(sealed.getvalue())
                self._marked = end
        if not self.obsolete:
            self._file.trim()
        self._file.close()


def write_log_copy(
    storage: Storage,
    path: str,
    end: int,
    read: Callable[[int, int], bytes],
    *,
    mark_with: int | None,
) -> None:
    """Write the bytes of a log before ``end``, and sync them; the caller syncs the name.

    ``read(offset, length)`` gives bytes of the other log.  The last log of a chain gets a sync mark,
    with its salt, so that damage to its end is not taken for a torn tail.
    """
    with storage.create(path) as file:
        for offset in range(0, end, _COPY_BYTES):
            file.append(read(offset, min(_COPY_BYTES, end - offset)))
        if mark_with is not None and end > HEADER_BYTES:
            mark = MARK_HEAD + end.to_bytes(8, "little")
            sealed: int = short_checksum(mark, mark_with + end)  # an i32 has no to_bytes
            file.append((sealed & 0xFFFF_FFFF).to_bytes(4, "little") + mark)
        file.sync()
