"""Logs that tests write, and the records read from them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lsmkv.log.reader import RECORD_BYTES, LogKind, LogReader, read_log
from lsmkv.log.writer import LogWriter
from lsmkv.storage.storage import Storage

MARK_BYTES = RECORD_BYTES + 8
PAYLOADS = [b"one", b"", b"three" * 9, bytes(range(256)), b"five"]

where_calls_are_counted = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux counts the calls of a process; others do not"
)


def create(path: Path, storage: Storage | None = None, kind: LogKind = "log") -> LogWriter:
    return LogWriter.create(storage or Storage(), str(path), 7, kind)


def read(path: Path, kind: LogKind = "log", number: int = 7) -> LogReader | None:
    return read_log(Storage(), str(path), number, kind)


def contents_of(path: Path) -> LogReader:
    contents = read(path)
    assert contents is not None
    return contents


def payloads_of(path: Path) -> list[bytes]:
    return [payload for _, payload in contents_of(path).records()]


def written(path: Path, payloads: list[bytes], *, synced_after: int | None = None) -> list[int]:
    """Write a log; return the end of each record.

    It is synced after ``synced_after`` records.
    """
    log = create(path)
    ends = []
    for count, payload in enumerate(payloads, 1):
        ends.append(log.append(payload))
        if count == synced_after:
            log.sync_through(log.end)
    log.close()
    return ends


def written_bytes(path: Path) -> int:
    """The length of a log without its room.

    The last record must not end with a zero.
    """
    return len(path.read_bytes().rstrip(b"\0"))
