"""The record log and the chain of logs: what is written is read, and foreign headers are refused."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from damage import flip
from log_files import MARK_BYTES, contents_of, create, payloads_of, read, written
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.log.chain import ClosedLog, log_numbers, read_chain, trusted_logs
from lsmkv.log.reader import FORMAT_VERSION, HEADER_BYTES, RECORD_BYTES, LogReader, read_log
from lsmkv.log.writer import LogWriter
from lsmkv.storage.storage import Storage
from storages import FaultyStorage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "000007.log"


# --- what is written is read ---------------------------------------------------------------------


def test_the_header_names_the_log_before_and_its_end(path: Path, tmp_path: Path) -> None:
    before = create(path)
    before.append(b"record")
    following = LogWriter.create(Storage(), str(tmp_path / "8"), 8, "log", predecessor=before)
    following.close()
    contents = read(tmp_path / "8", number=8)
    assert contents is not None
    assert (contents.previous_number, contents.previous_end) == (7, before.end)


def test_a_sync_mark_stands_before_the_first_record_after_a_sync(path: Path) -> None:
    ends = written(path, [b"a", b"b", b"c"], synced_after=1)
    assert ends[1] - ends[0] == MARK_BYTES + RECORD_BYTES + 1
    assert ends[2] - ends[1] == RECORD_BYTES + 1
    assert contents_of(path).durable == ends[0]


def test_a_closing_mark_states_that_the_whole_log_is_durable(path: Path) -> None:
    log = create(path)
    log.sync_through(log.append(b"record"))
    end = log.end
    log.close(mark=True)
    assert contents_of(path).durable == end


def own_append(log: LogWriter, payload: bytes) -> None:
    record = log.own_record()
    record.write(payload)
    log.append_record(record)


def test_the_reused_record_buffer_keeps_nothing_of_the_last_record(path: Path) -> None:
    log = create(path)
    payloads = [b"x" * length for length in (300, 1, 0, 100_000, 70, 20_000, 5)]
    for payload in payloads:
        own_append(log, payload)
    assert payloads_of(path) == payloads


def test_the_reused_record_buffer_keeps_nothing_of_an_abandoned_record(path: Path) -> None:
    log = create(path)
    log.own_record().write(b"given up")
    own_append(log, b"record")
    assert payloads_of(path) == [b"record"]


def test_a_log_keeps_no_memory_for_a_large_record(path: Path) -> None:
    log = create(path)
    payload = bytes(8 << 20)
    tracemalloc.start()
    try:
        own_append(log, payload)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_closing_mark_claims_only_synced_bytes(path: Path) -> None:
    log = create(path)
    log.append(b"record")
    log.close(mark=True)
    assert contents_of(path).durable == 0


def test_a_final_mark_that_cannot_be_written_is_left_out(path: Path) -> None:
    storage = FaultyStorage()
    log = create(path, storage)
    log.sync_through(log.append(b"record"))
    storage.fail("append", error=errno.ENOSPC)
    log.close(mark=True)
    assert payloads_of(path) == [b"record"]


def test_a_reopened_log_goes_on_after_its_last_record(path: Path) -> None:
    written(path, [b"a", b"b"])
    log = LogWriter.reopen(Storage(), contents_of(path))
    log.append(b"c")
    log.close()
    assert payloads_of(path) == [b"a", b"b", b"c"]


def test_reopening_cuts_off_a_torn_tail(path: Path) -> None:
    ends = written(path, [b"a", b"b"])
    path.write_bytes(path.read_bytes()[:-1])
    LogWriter.reopen(Storage(), contents_of(path)).close()
    assert path.stat().st_size == ends[0]


def test_reopening_syncs_what_a_dead_process_left_unsynced(path: Path) -> None:
    written(path, [b"a"])
    storage = FaultyStorage()
    log = LogWriter.reopen(storage, contents_of(path))
    assert (storage.calls["sync"], log.synced) == (1, log.end)


# --- headers -------------------------------------------------------------------------------------


def rewrite_header(path: Path, **fields: int) -> None:
    """Replace fields of the header, and correct its checksum."""
    places = {"version": (8, "<I"), "kind": (12, "<I"), "number": (16, "<Q")}
    data = bytearray(path.read_bytes())
    for name, value in fields.items():
        offset, form = places[name]
        struct.pack_into(form, data, offset, value)
    struct.pack_into("<Q", data, HEADER_BYTES - 8, checksum(bytes(data[: HEADER_BYTES - 8]), 0))
    path.write_bytes(bytes(data))


def test_any_damage_to_the_header_is_an_error(path: Path) -> None:
    written(path, [b"record"])
    data = path.read_bytes()
    for offset in range(HEADER_BYTES):
        path.write_bytes(data)
        flip(path, offset)
        with pytest.raises(CorruptionError, match="header is damaged") as caught:
            read(path)
        assert (caught.value.path, caught.value.offset) == (str(path), 0)


def test_a_foreign_file_is_an_error(path: Path) -> None:
    path.write_bytes(b"notes on this and that\n" * 10)
    with pytest.raises(CorruptionError, match="not a log file"):
        read(path)


def test_a_newer_format_version_is_named(path: Path) -> None:
    written(path, [b"record"])
    rewrite_header(path, version=FORMAT_VERSION + 1)
    with pytest.raises(UnsupportedFormatError, match="log format 2") as caught:
        read(path)
    assert caught.value.path == str(path)


def test_a_log_under_another_number_is_an_error(path: Path) -> None:
    written(path, [])
    with pytest.raises(CorruptionError, match="names another file"):
        read(path, number=8)
    path.unlink()
    create(path, kind="manifest").close()
    with pytest.raises(CorruptionError, match="names another file"):
        read(path)


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_log_that_cannot_be_made_is_removed(path: Path, operation: str) -> None:
    storage = FaultyStorage()
    storage.fail(operation)
    with pytest.raises(OSError, match=f"injected: {operation}"):
        create(path, storage)
    assert not path.exists()


def test_the_cause_is_raised_even_if_a_log_that_was_not_made_cannot_be_removed(path: Path) -> None:
    storage = FaultyStorage()
    storage.fail("sync", error=errno.ENOSPC)
    storage.fail("remove", error=errno.EROFS)
    with pytest.raises(OSError, match="injected: sync") as caught:
        create(path, storage)
    assert caught.value.errno == errno.ENOSPC


def test_the_header_is_synced_before_the_log_is_handed_out(path: Path) -> None:
    storage = FaultyStorage()
    create(path, storage).close()
    assert storage.calls["sync"] == 1


@dataclass
class Logs:
    directory: Path
    writers: dict[int, LogWriter] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)

    def add(self, number: int, after: int = 0, *, records: int = 2) -> LogWriter:
        path = str(self.path(number))
        log = LogWriter.create(self.storage, path, number, "log", self.writers.get(after))
        self.writers[number] = log
        for _ in range(records):
            log.append(b"a record of some length")
            log.sync_through(log.end)
        return log

    def path(self, number: int) -> Path:
        return self.directory / f"{number:06}.log"


def three(logs: Logs) -> None:
    logs.add(1)
    logs.add(2, 1)
    logs.add(3, 2)


def damage_below_a_mark(logs: Logs) -> None:
    three(logs)
    for log in logs.writers.values():
        log.close()
    flip(logs.path(2), HEADER_BYTES + 9)


def damaged_header(logs: Logs) -> None:
    three(logs)
    flip(logs.path(2), 20)


def missing_first(logs: Logs) -> None:
    three(logs)
    logs.path(1).unlink()


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_the_records_before_damage_are_read(logs: Logs) -> None:
    logs.add(1, records=3).close()
    whole_log = read_log(logs.storage, str(logs.path(1)), 1, "log")
    assert whole_log is not None
    offsets = [offset for offset, _ in whole_log.records()]
    flip(logs.path(1), offsets[1] + 9)
    (log,) = read_chain(logs.storage, str(logs.directory), [1], 1, ClosedLog())
    assert isinstance(log.error, CorruptionError)
    assert log.contents is not None
    assert [offset for offset, _ in log.contents.records()] == offsets[:1]


@pytest.mark.parametrize("make", [damaged_header, damage_below_a_mark, missing_first])
def test_an_error_that_is_dropped_keeps_no_log_in_memory(
    logs: Logs, make: Callable[[Logs], None]
) -> None:
    make(logs)
    numbers = log_numbers(os.listdir(logs.directory), 1)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(CorruptionError):
            trusted_logs(logs.storage, str(logs.directory), numbers, 1, ClosedLog())
        kept = [found for found in gc.get_objects() if isinstance(found, LogReader)]
        assert not [log for log in kept if log.path.startswith(str(logs.directory))]
    finally:
        gc.enable()
