"""Reads and checks one log file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from librt.strings import read_i32_le
from mypy_extensions import i64

from lsmkv.encoding.checksums import checksum, short_checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.storage.storage import RandomFile, ReadKind, Storage

FORMAT_VERSION: Final = 1
LOG_MAGIC: Final = b"lsmkvLOG"
HEADER: Final = struct.Struct("<8sIIQQQQ")
HEADER_BYTES: Final = 56
RECORD_BYTES: Final = 9
PAYLOAD: Final = 0
SYNC_MARK: Final = 1
MARK_HEAD: Final = struct.pack("<IB", 8, SYNC_MARK)  # length and kind
MARK_BYTES: Final = RECORD_BYTES + 8
_MASK_32: Final = 0xFFFF_FFFF
MAX_LOG_BYTES: Final = 16 << 30  # larger files are refused instead of being read into memory
_LEAST_STEP_BYTES: Final = 4096  # a log's growth is read in steps: as much again,
_STEP_BYTES: Final = 64 * 1024  # from here on no more than that, or a 16th of what was read
LogKind = Literal["log", "manifest"]
KINDS: Final[tuple[LogKind, ...]] = ("log", "manifest")


@dataclass(frozen=True, slots=True)
class LogReader:
    """A log file that was read; the first fields are from its header."""

    path: str
    kind: LogKind
    number: int
    salt: int
    previous_number: int
    previous_end: int
    end: int = HEADER_BYTES  # where its last good record ends
    durable: int = 0  # the highest offset in a sync mark: everything before it was on disk
    torn_bytes: int = 0  # bytes after ``end`` that are no record, without a log's room
    size: int = 0  # the length of the file when it was read
    base: int = 0  # where the bytes that it holds begin; payloads before that were read earlier
    # anchor_at, anchor: offset and first bytes of its last good record; the checksum among them tells
    # the record from any other.
    anchor_at: int = HEADER_BYTES - 8
    anchor: bytes = b""
    _data: bytes = b""

    @property
    def ends_marked(self) -> bool:
        """Whether it ends with a sync mark for everything before the mark."""
        # Every write batch is longer than a mark, so the record behind ``durable`` is the mark.
        return not self.torn_bytes and self.end - self.durable == MARK_BYTES

    def records(self, start: int = HEADER_BYTES) -> Iterator[tuple[int, bytes]]:
        """Offset and payload of each good record from ``start`` on."""
        payloads = self.payloads(start)
        while payloads.advance():
            payload = payloads.data[payloads.start : payloads.stop]
            yield payloads.offset, payload

    def piece(self, offset: int, length: int) -> bytes:
        """Bytes of the file as they are."""
        return self._data[offset : offset + length]

    def payloads(self, start: int = HEADER_BYTES) -> Payloads:
        return Payloads(self._data, max(0, start - self.base), self.end - self.base, self.base)

    def without_data(self) -> LogReader:
        """The part that :func:`read_more` needs."""
        return replace(self, base=self.end, _data=b"")


class Payloads:
    """A cursor over payloads: ``data[start:stop]`` of the record at ``offset`` of the file."""

    def __init__(self, data: bytes, start: i64, end: i64, base: i64) -> None:
        self.data = data
        self.offset: i64 = base + start
        self.start: i64 = start
        self.stop: i64 = start
        self._base = base
        self._end = end

    def advance(self) -> bool:
        """Move to the next payload; False when there is none."""
        data = self.data
        while self.stop < self._end:
            at = self.stop
            self.offset = self._base + at
            self.start = at + RECORD_BYTES
            self.stop = _body_end(data, at)
            if data[at + 8] == PAYLOAD:
                return True
        return False


def read_log(
    storage: Storage, path: str, number: int, kind: LogKind, *, stop: int = MAX_LOG_BYTES
) -> LogReader | None:
    """Read and check a log; None when its creation was cut short.

    Raises CorruptionError for damage to the header, or to records that had been synced.  With that
    error's offset as ``stop``, a second call reads the good records before the damage.
    """
    data = storage.read_whole(path, ReadKind.LOG, MAX_LOG_BYTES)[:stop]
    head = data[: HEADER_BYTES - 8]
    stored = int.from_bytes(data[HEADER_BYTES - 8 : HEADER_BYTES], "little")
    if len(data) < HEADER_BYTES or checksum(head, 0) != stored:
        if len(data) <= HEADER_BYTES:
            return None
        raise CorruptionError(path, 0, f"not a {kind} file, or its header is damaged")
    magic, version, kind_code, own, salt, previous, previous_end = HEADER.unpack(head)
    if magic != LOG_MAGIC:
        raise CorruptionError(path, 0, f"not a {kind} file", expected=LOG_MAGIC, got=magic)
    if version != FORMAT_VERSION:
        reason = f"log format {version}; this release reads format {FORMAT_VERSION}"
        raise UnsupportedFormatError(path, reason)
    if kind_code >= len(KINDS) or KINDS[kind_code] != kind or own != number:
        reason, got = "header names another file", (kind_code, own)
        raise CorruptionError(path, 0, reason, expected=(kind, number), got=got)
    anchor = data[HEADER_BYTES - 8 : HEADER_BYTES]
    header = LogReader(path, kind, own, salt, previous, previous_end, anchor=anchor)
    return _continued(storage, header, data)


def read_more(storage: Storage, known: LogReader) -> LogReader:
    """Read the records behind ``known``; costs about the bytes that were added.

    Where nothing was, that is the head of its last record, and what may be the head of the next: a log
    has room behind its records, which is written through memory, so neither length nor time of the file
    tell.  Torn and damaged records are those of :func:`read_log`.  CorruptionError, too, if the log does
    not hold what it held.
    """
    with storage.open_buffered(known.path) as file:
        at, anchor = known.anchor_at, known.anchor
        if file.size < known.end or file.pread(at, len(anchor), ReadKind.LOG) != anchor:
            raise CorruptionError(
                known.path, at, f"a {known.kind} lost a record that was read before"
            )
        return _continued(storage, known, _added(file, known), file.size)


def _added(file: RandomFile, known: LogReader) -> bytes:
    """The bytes behind ``known``, without most of the log's room."""
    data = b""
    end = 0
    step = RECORD_BYTES
    seed = known.salt + known.end
    left = file.size - known.end
    while len(data) < left:
        data += file.pread(known.end + len(data), min(step, left - len(data)), ReadKind.LOG)
        end, _, _ = _scan(data, seed, end)
        step = max(_LEAST_STEP_BYTES, min(len(data), _STEP_BYTES), len(data) // 16)
        # A log grows only for a record.  So if it did, and none is here, some bytes were lost.
        has_grown_for_this = end > 0 or file.size == known.size
        is_room = len(data) - end >= RECORD_BYTES and not data[end:].strip(b"\0")
        if known.kind == "log" and has_grown_for_this and is_room:
            break
    return data


def _continued(storage: Storage, known: LogReader, data: bytes, size: int = -1) -> LogReader:
    """``known`` with the good records of ``data``."""
    path, kind, base = known.path, known.kind, known.base
    seed = known.salt + base
    end, durable, last = _scan(data, seed, known.end - base)
    torn_bytes = _torn_bytes(data, end, kind)
    if torn_bytes:
        durable = max(durable, _last_mark(data, end, seed))
    while torn_bytes and durable > base + end:
        # A read beside a writer is not atomic: a page copied early may lack records that a mark,
        # copied later, vouches for.  They were written before the mark, so a second read has them.
        at = base + end
        again = storage.read_whole(path, ReadKind.LOG, MAX_LOG_BYTES, at)[: durable - at]
        data = data[:end] + again + data[end + len(again) :]
        reached, mark, newest = _scan(data, seed, end)
        if reached == end:
            raise CorruptionError(path, at, f"damaged record in a {kind} that had been synced")
        end, durable, last = reached, max(durable, mark), newest
        torn_bytes = _torn_bytes(data, end, kind)
    anchor_at, anchor = known.anchor_at, known.anchor
    if last >= 0:
        anchor_at, anchor = base + last, data[last : last + RECORD_BYTES]
    return replace(
        known,
        end=base + end,
        durable=max(known.durable, durable),
        torn_bytes=torn_bytes,
        size=size if size >= 0 else len(data),
        anchor_at=anchor_at,
        anchor=anchor,
        _data=data,
    )


def _scan(data: bytes, seed: int, start: int) -> tuple[int, int, int]:
    """Read the good records from ``start`` on.

    ``seed`` is the log's salt, plus the offset in the file where ``data`` begins.

    Returns:
        Where they end, their largest sync mark, and where the last of them begins (-1: there is none).
    """
    at: i64 = start
    last: i64 = -1
    durable = 0
    end = _record_end(data, at, seed)
    while end >= 0:
        if data[at + 8] == SYNC_MARK and end - at == MARK_BYTES:
            body = at + RECORD_BYTES
            durable = max(durable, int.from_bytes(data[body:end], "little"))
        last = at
        at = end
        end = _record_end(data, at, seed)
    return at, durable, last


def _body_end(data: bytes, at: i64) -> i64:
    length: int = read_i32_le(data, at + 4)
    return at + RECORD_BYTES + (length & _MASK_32)


def _record_end(data: bytes, at: i64, seed: int) -> i64:
    """Where the record at ``at`` ends; -1 if there is no good record."""
    if at + RECORD_BYTES > len(data):
        return -1
    end = _body_end(data, at)
    if end > len(data) or data[at + 8] > SYNC_MARK:
        return -1
    stored: int = read_i32_le(data, at)
    checked_from = at + 4
    offset: int = at  # not i64: salts drawn by early versions have 64 bits
    return end if short_checksum(data[checked_from:end], seed + offset) == stored else -1


def _last_mark(data: bytes, start: int, seed: int) -> int:
    """The largest sync mark after ``start``, found without following records."""
    largest = 0
    at = data.find(MARK_HEAD, start)
    while at >= 0:
        record = at - 4
        if record >= start and _record_end(data, record, seed) >= 0:
            body = record + RECORD_BYTES
            largest = max(largest, int.from_bytes(data[body : body + 8], "little"))
        at = data.find(MARK_HEAD, at + 1)
    return largest


def _torn_bytes(data: bytes, end: int, kind: LogKind) -> int:
    return max(0, len(data if kind == "manifest" else data.rstrip(b"\0")) - end)
