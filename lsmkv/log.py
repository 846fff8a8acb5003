"""A checksummed record log: the write-ahead log and the manifest are both one.

Layout, little-endian.  Header, 56 bytes, on disk before the first record is written::

    0   magic "lsmkvLOG"                24  u64  salt, random
    8   u32  format version, 1          32  u64  number of the log before this one, 0 for none
    12  u32  0 write-ahead, 1 manifest  40  u64  where that log ends
    16  u64  number                     48  u64  XXH3-64 of the bytes before it

Record, 9 bytes and a payload::

    0   u32  low half of XXH3-64 of the rest, seeded with salt + the record's offset (mod 2^64)
    4   u32  payload length             8   u8   0 payload, 1 sync mark

After the records of a write-ahead log zeros may follow: room for more.

After a sync the next record is preceded by a *sync mark*, whose payload is the offset (u64) up to
which the log is known to be on disk.  It lets recovery tell the two kinds of bad bytes apart: past
every mark they are the torn tail of writes that were never synced, and are dropped; before a mark
they are damage to acknowledged data, and an error.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from librt.strings import BytesWriter, read_i32_le, write_i32_le, write_i64_le
from mypy_extensions import i64, u8

from lsmkv.encoding import checksum, short_checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.files import LARGE_APPEND_BYTES
from lsmkv.group_commit import GroupCommit
from lsmkv.storage import AppendFile, ReadKind, Storage

FORMAT_VERSION: Final = 1
LOG_MAGIC: Final = b"lsmkvLOG"
_HEADER: Final = struct.Struct("<8sIIQQQQ")
HEADER_BYTES: Final = 56
RECORD_BYTES: Final = 9
RECORD_HEAD_BYTES: Final = 5  # of these, what the checksum is over
_BLANK: Final = bytes(RECORD_HEAD_BYTES)
_LENGTH_AND_KIND: Final = struct.Struct("<IB")
_PAYLOAD: Final = 0
_SYNC_MARK: Final = 1
_MARK_HEAD: Final = _LENGTH_AND_KIND.pack(8, _SYNC_MARK)
MARK_BYTES: Final = RECORD_BYTES + 8
_MASK_32: Final = 0xFFFF_FFFF
_LARGEST_KEPT_BYTES: Final = 64 * 1024  # memory of larger records is not kept for the next
MAX_LOG_BYTES: Final = 16 << 30  # larger files are refused instead of being read into memory

LogKind = Literal["log", "manifest"]
_KINDS: Final[tuple[LogKind, ...]] = ("log", "manifest")


def new_record() -> BytesWriter:
    """A record to write a payload to, from :data:`RECORD_HEAD_BYTES` on; see ``append_record``."""
    record = BytesWriter()
    record.write(_BLANK)
    return record


class LogWriter:
    """Appends records to a log file.

    ``append`` and what it is made of are for one thread at a time (the caller's lock);
    ``sync_through`` is for any number at once: one of them syncs for all that wait (group commit).

    Attributes:
        number: the log's number.
        end: where the next record will start.
        obsolete: set once what the log holds is on disk elsewhere; it needs no more syncs.
    """

    def __init__(
        self,
        storage: Storage,
        file: AppendFile,
        kind: LogKind,
        number: int,
        salt: int,
        *,
        synced: int,
        marked: int,
        predecessor: LogWriter | None,
    ) -> None:
        self.number = number
        self.obsolete = False
        self._stats = storage.stats
        self._file = file
        self._salt = salt
        self._has_room = kind == "log"  # a manifest's length tells whether it has changed
        self._marked = marked
        self._predecessor = predecessor
        self._record = new_record()  # kept from append to append, as is
        self._sealed = BytesWriter()  # what is appended
        self._group = GroupCommit(synced)
        self._sync_s = 0.0  # how long the last sync took

    @classmethod
    def create(
        cls,
        storage: Storage,
        path: str,
        number: int,
        kind: LogKind,
        predecessor: LogWriter | None = None,
    ) -> LogWriter:
        """A new log, its header on disk (its directory is the caller's to sync).

        Raises:
            OSError: the file cannot be created or written; it is removed again if it can be.
        """
        # Below 2^61, so that salt + offset is no large integer; always 19 digits, in the manifest.
        salt = (1 << 60) + (int.from_bytes(os.urandom(8), "little") >> 4)
        before = (0, 0) if predecessor is None else (predecessor.number, predecessor.end)
        head = _HEADER.pack(LOG_MAGIC, FORMAT_VERSION, _KINDS.index(kind), number, salt, *before)
        file = storage.create(path)
        try:
            file.append(head + checksum(head, 0).to_bytes(8, "little"))
            file.sync()
            return cls(
                storage,
                file,
                kind,
                number,
                salt,
                synced=HEADER_BYTES if predecessor is None else 0,  # 0: nor may its predecessor be
                marked=HEADER_BYTES,
                predecessor=predecessor,
            )
        except BaseException:
            file.close()
            with contextlib.suppress(OSError):  # the next open removes what is left over
                storage.remove(path)
            raise

    @classmethod
    def reopen(cls, storage: Storage, contents: LogContents, is_synced: bool = False) -> LogWriter:
        """Go on with a log that was read: what follows its last good record is cut off.

        What is left is synced, unless it is known to be: a process that died need not have done so.  It
        is written again first, because a sync of it may have failed.

        Raises:
            OSError: it cannot be opened, written or synced.
        """
        file = storage.open_append(contents.path, contents.end)
        durable = contents.durable
        try:
            if not is_synced:
                storage.write_again(contents.path, durable, contents._data[durable : contents.end])
                file.sync()
        except OSError:
            file.close()
            raise
        return cls(
            storage,
            file,
            contents.kind,
            contents.number,
            contents.salt,
            synced=contents.end,
            marked=contents.end if contents.ends_marked else max(contents.durable, HEADER_BYTES),
            predecessor=None,
        )

    @property
    def end(self) -> int:
        return self._file.offset

    @property
    def salt(self) -> int:
        """What its header drew at random: no other log has the same."""
        return self._salt

    @property
    def synced(self) -> int:
        """Up to where the log is known to be on disk."""
        return self._group.synced

    def append(self, payload: bytes) -> int:
        """Append a record; returns where it ends.  It has left the process, but is not synced.

        Raises:
            OSError: nothing was appended.
        """
        record = new_record()
        record.write(payload)
        return self.append_record(record)

    def own_record(self) -> BytesWriter:
        """The log's own record, emptied: a :func:`new_record` for its next ``append_record`` alone."""
        self._record.truncate(RECORD_HEAD_BYTES)
        return self._record

    def append_record(self, record: BytesWriter) -> int:
        """:meth:`append` of what was written to a :func:`new_record`, or to :meth:`own_record`."""
        file = self._file
        offset = file.offset
        marked = self._marked
        sealed = self._sealed
        sealed.truncate(0)
        if self._group.synced > marked:
            marked = self._group.synced
            self._mark(sealed, marked, offset)
            offset += MARK_BYTES
        body = self._seal(sealed, record, _PAYLOAD, offset)
        if len(body) < LARGE_APPEND_BYTES:
            sealed.write(body)
            body = b""
        elif len(body) > _LARGEST_KEPT_BYTES:
            self._record = new_record()
        data = sealed.getvalue()
        size_bytes = len(data) + len(body)
        if self._has_room:
            file.make_room(size_bytes)
        file.append(data, body)
        self._marked = marked
        self._stats.log_bytes += size_bytes
        return file.offset

    def give_turns(self, wanted: bool) -> None:
        """Whether other threads of the interpreter are to get their turn in each append."""
        self._file.gives_turns = wanted

    def _mark(self, sealed: BytesWriter, synced: int, offset: int) -> None:
        """Write the sync mark that says how far the log is on disk, as it stands at ``offset``."""
        record = new_record()
        write_i64_le(record, synced)
        sealed.write(self._seal(sealed, record, _SYNC_MARK, offset))

    def _seal(self, sealed: BytesWriter, record: BytesWriter, kind: u8, offset: int) -> bytes:
        """Write the checksum of the record at ``offset``; returns the rest: length, kind, payload."""
        length: i64 = len(record) - RECORD_HEAD_BYTES
        place: i64
        for place in range(4):
            low: int = length & 0xFF
            record[place] = low
            length >>= 8
        record[4] = kind
        body = record.getvalue()
        write_i32_le(sealed, short_checksum(body, self._salt + offset))
        return body

    def sync_through(self, end: int) -> None:
        """Return once the first ``end`` bytes are on disk; one fdatasync serves all who wait.

        Raises:
            OSError: the sync failed, now or earlier.  It is not tried again.
        """
        group = self._group
        if not group.join(end):
            return
        try:
            with group.leading:
                if group.synced < end:
                    self._sync()
        finally:
            group.pass_on()

    def _sync(self) -> None:
        """Sync all that was appended, as the one who leads."""
        if self.obsolete:
            return
        group = self._group
        group.await_company(self._sync_s)
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
        """Close the file, once a sync that runs has ended; a second call does nothing.

        With ``mark``, end it with a sync mark if all of it has been synced (and there is room).
        """
        group = self._group
        group.lead()
        try:
            with group.leading:
                self._close(mark)
        finally:
            group.pass_on()

    def _close(self, mark: bool) -> None:
        self._predecessor = None  # or logs that are never synced would hold on to all before
        end = self._file.offset
        if mark and self._group.synced == end > self._marked:
            sealed = BytesWriter()
            self._mark(sealed, end, end)
            with contextlib.suppress(OSError):
                self._file.append(sealed.getvalue())
                self._marked = end
        if not self.obsolete:
            self._file.trim()
        self._file.close()


@dataclass(frozen=True, slots=True)
class LogContents:
    """A log file that was read.

    Attributes:
        kind, number, salt, previous_number, previous_end: from its header.
        end: where its last good record ends.
        durable: up to where a sync mark says that it was on disk.
        torn_bytes: how much follows ``end`` and is neither a record nor room for more.
    """

    path: str
    kind: LogKind
    number: int
    salt: int
    previous_number: int
    previous_end: int
    end: int
    durable: int
    torn_bytes: int
    _data: bytes

    @property
    def ends_marked(self) -> bool:
        """Whether it ends with a sync mark for everything before that: all of it is on disk."""
        # No payload is as short as a mark's, so that what follows the marked place is the mark.
        return not self.torn_bytes and self.end - self.durable == MARK_BYTES

    def records(self, start: int = HEADER_BYTES) -> Iterator[tuple[int, bytes]]:
        """Offset and payload of each good record from offset ``start`` on."""
        payloads = self.payloads(start)
        while payloads.advance():
            payload = payloads.data[payloads.start : payloads.stop]
            yield payloads.offset, payload

    def payloads(self, start: int = HEADER_BYTES) -> Payloads:
        """The same where they stand, for those who read many."""
        return Payloads(self._data, start, self.end)


class Payloads:
    """Goes over the payloads of a log that was checked, without an object for each.

    Attributes:
        data: the log.
        offset: where the present record stands in it.
        start, stop: where its payload does.
    """

    __slots__ = ("_end", "data", "offset", "start", "stop")

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self.data = data
        self.offset: i64 = start
        self.start: i64 = start
        self.stop: i64 = start
        self._end = end

    def advance(self) -> bool:
        """Go to the next payload; False when there is none."""
        data = self.data
        while self.stop < self._end:
            at = self.stop
            self.offset = at
            self.start = at + RECORD_BYTES
            self.stop = _body_end(data, at)
            if data[at + 8] == _PAYLOAD:
                return True
        return False


def read_log(storage: Storage, path: str, number: int, kind: LogKind) -> LogContents | None:
    """Read and check the log at ``path``; None when its creation was cut short.

    Raises:
        CorruptionError: damage to the header, or to records that had been synced.
        UnsupportedFormatError: another format version.
        OSError: the file cannot be read.
    """
    data = storage.read_whole(path, ReadKind.LOG, MAX_LOG_BYTES)
    head = data[: HEADER_BYTES - 8]
    stored = int.from_bytes(data[HEADER_BYTES - 8 : HEADER_BYTES], "little")
    if len(data) < HEADER_BYTES or checksum(head, 0) != stored:
        if len(data) <= HEADER_BYTES:
            return None
        raise CorruptionError(path, 0, f"not a {kind} file, or its header is damaged")
    magic, version, kind_code, own, salt, previous, previous_end = _HEADER.unpack(head)
    if magic != LOG_MAGIC:
        raise CorruptionError(path, 0, f"not a {kind} file", expected=LOG_MAGIC, got=magic)
    if version != FORMAT_VERSION:
        raise UnsupportedFormatError(
            path, f"log format {version}; this release reads format {FORMAT_VERSION}"
        )
    if kind_code >= len(_KINDS) or _KINDS[kind_code] != kind or own != number:
        raise CorruptionError(
            path, 0, "header names another file", expected=(kind, number), got=(kind_code, own)
        )
    end, durable = _scan(data, salt, HEADER_BYTES)
    torn_bytes = _torn_bytes(data, end, kind)
    if torn_bytes:
        durable = max(durable, _last_mark(data, end, salt))
    while torn_bytes and durable > end:
        # A read is not atomic: a page copied early may lack what a mark copied later vouches for.
        # But all of that was written before the mark, so that a second read must have it.
        again = storage.read_whole(path, ReadKind.LOG, MAX_LOG_BYTES, end)[: durable - end]
        data = data[:end] + again + data[end + len(again) :]
        reached, mark = _scan(data, salt, end)
        if reached == end:
            raise CorruptionError(path, end, f"damaged record in a {kind} that had been synced")
        end, durable = reached, max(durable, mark)
        torn_bytes = _torn_bytes(data, end, kind)
    return LogContents(
        path, kind, own, salt, previous, previous_end, end, durable, torn_bytes, data
    )


def _torn_bytes(data: bytes, end: int, kind: LogKind) -> int:
    """How much follows the last good record, without the room for more that only a log has."""
    return max(0, len(data if kind == "manifest" else data.rstrip(b"\0")) - end)


def _scan(data: bytes, salt: int, start: int) -> tuple[int, int]:
    """Where the unbroken run of good records from ``start`` ends, and the largest sync mark in it."""
    at: i64 = start
    durable = 0
    end = _record_end(data, at, salt)
    while end >= 0:
        if data[at + 8] == _SYNC_MARK and end - at == MARK_BYTES:
            body = at + RECORD_BYTES
            durable = max(durable, int.from_bytes(data[body:end], "little"))
        at = end
        end = _record_end(data, at, salt)
    return at, durable


def _body_end(data: bytes, at: i64) -> i64:
    """Where the body of the record at ``at`` ends, by its length."""
    length: int = read_i32_le(data, at + 4)
    return at + RECORD_BYTES + (length & _MASK_32)


def _record_end(data: bytes, at: i64, salt: int) -> i64:
    """Where the record at ``at`` ends; -1 when no good one stands there."""
    if at + RECORD_BYTES > len(data):
        return -1
    end = _body_end(data, at)
    if end > len(data) or data[at + 8] > _SYNC_MARK:
        return -1
    stored: int = read_i32_le(data, at)
    checked_from = at + 4
    offset: int = at  # no machine word: the salt of an older log has 64 bits
    return end if short_checksum(data[checked_from:end], salt + offset) == stored else -1


def _last_mark(data: bytes, start: int, salt: int) -> int:
    """The largest sync mark anywhere after ``start``, where records can no longer be followed."""
    largest = 0
    at = data.find(_MARK_HEAD, start)
    while at >= 0:
        record = at - 4
        if record >= start and _record_end(data, record, salt) >= 0:
            body = record + RECORD_BYTES
            largest = max(largest, int.from_bytes(data[body : body + 8], "little"))
        at = data.find(_MARK_HEAD, at + 1)
    return largest
