"""Logs that grow ahead of their end: when they take room, and that it does no harm."""

from __future__ import annotations

import errno
import mmap
import threading
from pathlib import Path

import pytest

import lsmkv
from gates import WAIT_S, GatedStorage
from leaks import write_calls
from log_files import MARK_BYTES, contents_of, create, payloads_of, where_logs_are_mapped
from lsmkv.log.log_set import LogSet
from lsmkv.log.reader import RECORD_BYTES, LogKind
from lsmkv.log.writer import LogWriter
from lsmkv.storage.append_file import LARGE_APPEND_BYTES, AppendFile
from lsmkv.storage.storage import Storage
from storages import FaultyStorage
from threaded_stores import open_store
from time_limits import join


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


def test_a_log_that_is_never_synced_has_room_too(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    assert path.stat().st_size > log.end


@where_logs_are_mapped
def test_room_is_taken_on_disk(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    found = path.stat()
    assert found.st_blocks * 512 >= found.st_size > log.end


def test_bytes_written_to_the_room_are_in_the_file_at_once(path: Path) -> None:
    log = create(path)
    for payload in (b"one", b"two"):
        end = log.append(payload)
        assert path.read_bytes()[:end].endswith(payload)


@where_logs_are_mapped
@pytest.mark.parametrize("turns", [False, True])
def test_an_append_to_the_room_is_a_system_call_only_to_release_the_gil(
    path: Path, turns: bool
) -> None:
    log = create(path)
    log.append(b"one")
    log.release_gil(turns)
    before = write_calls()
    for _ in range(100):
        log.append(b"more")
    assert write_calls() - before == (100 if turns else 0)
    assert payloads_of(path) == [b"one", *[b"more"] * 100]


def calls_of_an_append(log: LogWriter, payload: bytes = b"more") -> int:
    before = write_calls()
    log.append(payload)
    return write_calls() - before


def calls_for_new_room(log: LogWriter, path: Path) -> int:
    """Write calls of the first append that needs more room."""
    log.append(bytes(path.stat().st_size - log.end - RECORD_BYTES - MARK_BYTES))
    return calls_of_an_append(log, bytes(2 * MARK_BYTES))


@where_logs_are_mapped
def test_zeros_are_written_to_room_in_one_call(path: Path) -> None:
    log = create(path)
    assert [calls_of_an_append(log) for _ in range(3)] == [1, 0, 0]
    assert path.read_bytes()[log.end :] == bytes(path.stat().st_size - log.end)


@where_logs_are_mapped
def test_appends_to_room_in_large_pages_are_calls_once_syncs_come_often(path: Path) -> None:
    log = create(path)
    log.sync_through(log.append(b"one"))
    assert calls_of_an_append(log) == 0
    log.sync_through(log.end)
    assert [calls_of_an_append(log) for _ in range(3)] == [1, 1, 1]
    assert payloads_of(path) == [b"one", *[b"more"] * 4]


@where_logs_are_mapped
def test_where_syncs_come_often_zeros_are_written_page_by_page(path: Path) -> None:
    log = synced_twice(path)
    for _ in range(3):
        before = path.stat().st_size
        calls = calls_for_new_room(log, path)
        added = path.stat().st_size - before
        assert calls == -(-added // mmap.PAGESIZE)
        assert path.read_bytes()[log.end :] == bytes(path.stat().st_size - log.end)
        log.sync_through(log.end)
        assert calls_of_an_append(log) == 0


@where_logs_are_mapped
def test_zeros_are_written_in_one_call_again_once_syncs_have_ceased(path: Path) -> None:
    log = synced_twice(path)
    calls: list[int] = []
    while log.end < 4 << 20:
        calls.append(calls_for_new_room(log, path))
    assert calls[0] > 1
    assert calls[-1] == 1


LARGE = bytes(LARGE_APPEND_BYTES)


@where_logs_are_mapped
def test_a_large_append_is_a_system_call(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    assert calls_of_an_append(log, LARGE) == 1
    assert calls_of_an_append(log, LARGE[2 * RECORD_BYTES :]) == 0
    assert payloads_of(path) == [b"one", LARGE, LARGE[2 * RECORD_BYTES :]]


@where_logs_are_mapped
def test_room_for_a_large_append_needs_no_zeros(path: Path) -> None:
    log = create(path)
    assert calls_of_an_append(log, LARGE) == 1
    assert path.stat().st_size > log.end
    assert calls_of_an_append(log) == 0
    assert payloads_of(path) == [LARGE, b"more"]


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


def test_syncs_that_are_far_apart_leave_appends_without_calls(path: Path) -> None:
    log = synced_twice(path)
    for _ in range(2):
        log.append(bytes(1 << 20))
        log.append(b"more")
        log.sync_through(log.end)
        assert calls_of_an_append(log) == 0


def test_a_large_record_needs_no_room(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    length = path.stat().st_size
    log.append(bytes(2 << 20))
    assert path.stat().st_size == log.end > length
    log.append(b"two")
    assert path.stat().st_size > log.end
    assert payloads_of(path) == [b"one", bytes(2 << 20), b"two"]


def where_mapped(path: Path) -> list[str]:
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in maps if str(path) in line]


@where_logs_are_mapped
@pytest.mark.parametrize("obsolete", [False, True])
def test_a_closed_log_is_unmapped(path: Path, obsolete: bool) -> None:
    log = create(path)
    log.append(b"one")
    log.obsolete = obsolete
    assert where_mapped(path)
    log.close()
    assert not where_mapped(path)


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


class _UnfilledStorage(Storage):
    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _UnfilledFile(path, descriptor, offset)


class _UnfilledFile(AppendFile):
    def _fill(self, start: int, length: int, step: int) -> None:
        raise OSError(errno.ENOSPC, "no zeros can be written")


@where_logs_are_mapped
def test_room_that_no_zeros_can_be_written_to_stays(path: Path) -> None:
    log = synced_twice(path, _UnfilledStorage())
    assert path.stat().st_size > log.end
    log.append(b"three")
    assert payloads_of(path) == [b"one", b"two", b"three"]
    assert not where_mapped(path)
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


@where_logs_are_mapped
def test_a_new_log_releases_the_gil_like_the_one_before(tmp_path: Path) -> None:
    logs = LogSet(Storage(), str(tmp_path))
    logs.create(1)
    logs.release_gil(True)
    logs.follow(logs.prepare(2))
    logs.current.append(b"one")
    before = write_calls()
    logs.current.append(b"two")
    assert write_calls() == before + 1
    logs.close()


def calls_of_a_put(db: lsmkv.DB) -> int:
    before = write_calls()
    db.put(b"key", b"value")
    return write_calls() - before


@where_logs_are_mapped
def test_a_put_is_a_system_call_while_a_thread_flushes(tmp_path: Path) -> None:
    storage = GatedStorage()
    with open_store(tmp_path / "store", storage=storage) as db:
        db.put(b"key", b"value")
        assert calls_of_a_put(db) == 0
        storage.shut()
        flush = threading.Thread(target=db.flush)
        flush.start()
        assert storage.held_up.wait(WAIT_S)
        db.put(b"key", b"value")  # which makes room in the fresh log
        assert calls_of_a_put(db) == 1
        storage.open_up()
        join(flush)
        db.wait_until_settled()
        assert calls_of_a_put(db) == 0
