"""Logs that grow ahead of their end: when they take room, and that it does no harm."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from leaks import write_calls
from log_files import MARK_BYTES, contents_of, create, payloads_of, where_calls_are_counted
from lsmkv.log.reader import LogKind
from lsmkv.log.writer import LARGE_RECORD_BYTES, LogWriter
from lsmkv.storage.append_file import AppendFile
from lsmkv.storage.storage import Storage
from storages import FaultyStorage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "000007.log"


def synced_twice(path: Path, storage: Storage | None = None, kind: LogKind = "log") -> LogWriter:
    log = create(path, storage, kind)
    for payload in (b"one", b"two"):
        log.sync_through(log.append(payload))
    return log


def test_a_log_that_is_synced_again_and_again_has_room_for_more(path: Path) -> None:
    log = synced_twice(path)
    length = path.stat().st_size
    assert length > log.end
    assert path.read_bytes()[log.end :] == bytes(length - log.end)
    contents = contents_of(path)
    assert (payloads_of(path), contents.end, contents.torn_bytes) == ([b"one", b"two"], log.end, 0)
    log.sync_through(log.append(b"three"))
    assert path.stat().st_size == length


def test_more_room_is_made_when_it_is_used_up(path: Path) -> None:
    log = synced_twice(path)
    payloads = [b"%04d" % number * 250 for number in range(100)]
    for payload in payloads:
        log.sync_through(log.append(payload))
        assert log.end <= path.stat().st_size <= 2 * log.end + 32 * 1024
    assert payloads_of(path) == [b"one", b"two", *payloads]


def test_a_log_that_is_not_synced_has_no_room(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    assert path.stat().st_size == log.end


def calls_of_an_append(log: LogWriter) -> int:
    before = write_calls()
    log.append(b"more")
    return write_calls() - before


@where_calls_are_counted
def test_an_append_is_one_system_call(path: Path) -> None:
    log = create(path)
    assert [calls_of_an_append(log) for _ in range(3)] == [1, 1, 1]
    assert payloads_of(path) == [b"more"] * 3


@where_calls_are_counted
def test_an_append_to_the_room_is_one_system_call(path: Path) -> None:
    log = synced_twice(path)
    assert [calls_of_an_append(log) for _ in range(3)] == [1, 1, 1]
    assert payloads_of(path) == [b"one", b"two", *[b"more"] * 3]


@where_calls_are_counted
def test_a_log_is_never_mapped_into_memory(path: Path) -> None:
    log = synced_twice(path)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert path.stat().st_size > log.end and str(path) not in maps


def test_no_more_room_is_made_once_syncs_have_ceased(path: Path) -> None:
    log = synced_twice(path)
    for _ in range(1 << 9):
        log.append(bytes(1 << 12))
    assert path.stat().st_size == log.end


def test_room_is_made_again_once_syncs_come_again(path: Path) -> None:
    log = synced_twice(path)
    log.append(bytes(2 << 20))
    for payload in (b"three", b"four", b"five"):
        log.sync_through(log.append(payload))
    assert path.stat().st_size > log.end


LARGE = bytes(LARGE_RECORD_BYTES)


@pytest.mark.parametrize("written", [0, 1])
def test_a_large_append_that_fails_is_undone(path: Path, written: int) -> None:
    storage = FaultyStorage()
    log = create(path, storage)
    log.append(b"one")
    storage.fail("append", after=written)
    with pytest.raises(OSError, match="injected: append"):
        log.append(LARGE)
    log.append(b"two")
    assert (payloads_of(path), contents_of(path).torn_bytes) == ([b"one", b"two"], 0)


def test_a_large_record_needs_no_room(path: Path) -> None:
    log = synced_twice(path)
    log.sync_through(log.append(bytes(1 << 16)))
    assert path.stat().st_size == log.end
    log.append(b"four")
    assert path.stat().st_size > log.end
    assert payloads_of(path) == [b"one", b"two", bytes(1 << 16), b"four"]


def test_a_manifest_has_no_room(path: Path) -> None:
    assert synced_twice(path, kind="manifest").end == path.stat().st_size


def test_closing_takes_the_room_back(path: Path) -> None:
    log = synced_twice(path)
    log.close()
    assert path.stat().st_size == log.end


def test_a_log_works_if_no_room_can_be_made(path: Path) -> None:
    storage = FaultyStorage()
    storage.fail("truncate", error=errno.EFBIG, times=None)
    log = synced_twice(path, storage)
    assert path.stat().st_size == log.end
    assert payloads_of(path) == [b"one", b"two"]


class _HalfFilledStorage(Storage):
    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _HalfFilledFile(path, descriptor, offset)


class _HalfFilledFile(AppendFile):
    def _extend(self, start: int, length: int) -> None:
        super()._extend(start, (start + length) // 2)
        raise OSError(errno.ENOSPC, "the rest does not fit")


def test_room_that_fits_in_part_is_used_and_taken_back(path: Path) -> None:
    log = synced_twice(path, _HalfFilledStorage())
    assert path.stat().st_size > log.end
    log.append(b"three")
    assert payloads_of(path) == [b"one", b"two", b"three"]
    log.close()
    assert path.stat().st_size == log.end


def test_room_that_cannot_be_taken_back_stays(path: Path) -> None:
    storage = FaultyStorage()
    log = synced_twice(path, storage)
    storage.fail("truncate", times=None)
    log.close(mark=True)
    assert path.stat().st_size > log.end
    contents = contents_of(path)
    assert contents.ends_marked and payloads_of(path) == [b"one", b"two"]


def test_an_append_that_fails_in_the_room_is_undone(path: Path) -> None:
    storage = FaultyStorage()
    log = synced_twice(path, storage)
    storage.fail("append", short_write=12)
    storage.fail("append", error=errno.ENOSPC, after=1)
    with pytest.raises(OSError, match="injected: append"):
        log.append(b"lost")
    log.sync_through(log.append(b"three"))
    assert (payloads_of(path), contents_of(path).torn_bytes) == ([b"one", b"two", b"three"], 0)


def test_a_record_torn_in_the_room_is_dropped(path: Path) -> None:
    log = synced_twice(path)
    end = log.end
    log.append(b"three" * 300)
    data = bytearray(path.read_bytes())
    data[end + 100 : log.end - 100] = bytes(log.end - end - 200)
    path.write_bytes(bytes(data))
    contents = contents_of(path)
    kept = end + MARK_BYTES  # which was written whole with the record
    assert (payloads_of(path), contents.end) == ([b"one", b"two"], kept)
    assert contents.torn_bytes == log.end - kept
    LogWriter.reopen(Storage(), contents).close()
    assert path.stat().st_size == kept
