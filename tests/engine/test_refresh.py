"""Refreshing a read-only handle: what it shows, what it reads, and what it keeps in memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, open_small

import lsmkv
from leaks import open_descriptors
from lsmkv.log.reader import RECORD_BYTES
from lsmkv.memtable.memtable import Memtable

PEEK_BYTES = 2 * RECORD_BYTES
"""What a refresh reads of a log with room: the head of the last record, and the place of the next."""

MIB = 1 << 20


@contextmanager
def writer_and_reader(path: str, **options: Any) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    with open_small(path, **options) as writer, open_small(path, read_only=True) as reader:
        yield writer, reader


def log_bytes_read(db: lsmkv.DB) -> int:
    before = db.stats().log_read_bytes
    db.refresh()
    return db.stats().log_read_bytes - before


def state_of(db: lsmkv.DB) -> tuple[int, dict[bytes, bytes]]:
    with db.snapshot() as snapshot:
        return snapshot.sequence_number, dict(snapshot.items())


def memtables_of(db: lsmkv.DB) -> tuple[Memtable, ...]:
    return db._state.require_open().memtables


def newest_log(path: str) -> Path:
    return max(Path(path).glob("*.log"))


# What it returns


def test_refresh_says_whether_anything_is_new(path: str) -> None:
    with writer_and_reader(path) as (writer, reader):
        assert reader.refresh() is False
        writer[b"key"] = b"value"
        assert writer.refresh() is False
        assert reader.refresh() is True
        assert reader.refresh() is False
        assert reader[b"key"] == b"value"


def test_a_flush_and_a_compaction_bring_nothing_new(path: str) -> None:
    with writer_and_reader(path) as (writer, reader):
        contents = fill(writer, range(300))
        assert reader.refresh() is True
        writer.flush()
        writer.compact_range()
        assert reader.refresh() is False
        assert dict(reader.items()) == contents
        assert all(memtable.is_empty for memtable in memtables_of(reader))


# What it reads


def test_a_refresh_with_nothing_new_reads_two_heads_of_records(path: str) -> None:
    with writer_and_reader(path) as (writer, reader):
        fill(writer, range(100))
        reader.refresh()
        assert [log_bytes_read(reader) for _ in range(3)] == [RECORD_BYTES] * 3  # no room behind
        for _ in range(2):
            writer.put(b"key", b"value", sync=True)  # which makes room
        reader.refresh()
        assert [log_bytes_read(reader) for _ in range(3)] == [PEEK_BYTES] * 3


def process_reads() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
def test_a_log_of_64_mib_that_gains_1_mib_costs_1_mib(path: str) -> None:
    with open_small(path, write_buffer_size_bytes=256 * MIB) as writer:
        for number in range(256):
            writer.put(b"old%06d" % number, bytes(64) * 4096)  # zeros, as in the room
        with lsmkv.open(path, read_only=True) as reader:
            assert reader.stats().log_read_bytes > 64 * MIB
            for number in range(1024):
                writer.put(b"new%06d" % number, b"v" * 1000)
            before = process_reads()
            counted = log_bytes_read(reader)
            assert MIB * 0.9 < counted < MIB * 1.25
            assert process_reads() - before < MIB * 1.25
            before = process_reads()
            assert log_bytes_read(reader) <= PEEK_BYTES
            assert process_reads() - before < 1000  # with the counters themselves
            assert reader[b"new000777"] == b"v" * 1000


def test_a_compaction_makes_no_reader_read_the_log_again(path: str) -> None:
    with open_small(path, write_buffer_size_bytes=MIB) as writer:
        fill(writer, range(500))
        writer.flush()
        fill(writer, range(500), seed=2)
        writer.flush()
        with open_small(path, read_only=True) as reader:
            fill(writer, range(1000, 6000))
            reader.refresh()
            levels = reader.inspect().levels
            engine = writer._engine
            engine.background.compactor.compact_range(None, None, True)  # without a flush
            assert log_bytes_read(reader) < 3000  # edits of the manifest
            assert reader.inspect().levels != levels
            assert state_of(reader) == state_of(writer)


def test_a_flushed_log_is_not_read_again(path: str) -> None:
    with writer_and_reader(path, write_buffer_size_bytes=MIB) as (writer, reader):
        fill(writer, range(5000))
        reader.refresh()
        writer.flush()
        writer[b"last"] = b"value"
        assert (
            log_bytes_read(reader) < 32 * 1024
        )  # a new log, with its room, and the manifest's edits
        assert state_of(reader) == state_of(writer)


# What it keeps


def test_many_refreshes_leave_few_memtables(path: str) -> None:
    with writer_and_reader(path, write_buffer_size_bytes=8 * MIB) as (writer, reader):
        most = 0
        for number in range(700):
            writer.put(b"%06d" % (number * 7919 % 500), b"%d" % number * 500)
            reader.refresh()
            most = max(most, len(memtables_of(reader)))
        assert most <= 6
        assert reader.memory_usage().memtable_bytes == writer.memory_usage().memtable_bytes
        assert state_of(reader) == state_of(writer)


def test_what_was_begun_before_stays_as_it_was(path: str) -> None:
    with writer_and_reader(path, write_buffer_size_bytes=MIB) as (writer, reader):
        contents = fill(writer, range(300))
        reader.refresh()
        snapshot, cursor, view, rest = (
            reader.snapshot(),
            reader.cursor(),
            reader.items(),
            iter(reader.items()),
        )
        begun = [next(rest)]
        assert cursor.first()
        for number in range(100):
            writer.put(b"key%06d" % number, b"changed")
            writer.delete(b"key%06d" % (number + 150))
            reader.refresh()
        assert dict(snapshot.items()) == dict(view) == dict(begun + list(rest)) == contents
        assert snapshot.multi_get(list(contents)) == list(contents.values())
        keys = [cursor.key]
        while cursor.next():
            keys.append(cursor.key)
        assert keys == list(contents)
        assert state_of(reader) == state_of(writer)


def test_a_closed_handle_keeps_no_table_open(path: str) -> None:
    def open_files() -> int:
        # Not the logs: the writer may still close the one that was flushed.
        found = (descriptor for descriptor in open_descriptors() if path in descriptor)
        return sum(descriptor.endswith(".sst") for descriptor in found)

    with open_small(path) as writer:
        fill(writer, range(300))
        writer.flush()
        reader = open_small(path, read_only=True)
        writer.put(b"key", b"value")
        reader.refresh()
        opened = open_files()
        tables = len(list(reader._state.require_open().version.tables()))
        assert tables > 0
        reader.close()
        assert open_files() == opened - tables


# Torn, damaged and taken back records


@pytest.fixture
def crashed(path: str, tmp_path: Path) -> str:
    """A store whose writer died after 100 writes; its log has room."""
    copy = str(tmp_path / "crashed")
    with open_small(path) as writer:
        fill(writer, range(100))
        writer.wait_until_settled()  # no file is removed during the copy
        shutil.copytree(path, copy)
    return copy


def record_after(log: Path, end: int, tmp_path: Path) -> bytes:
    """The record that a writer would write at ``end`` of the log of a crashed store."""
    other = tmp_path / "other"
    shutil.copytree(log.parent, other)
    with open_small(other) as writer:
        writer.put(b"late", b"value")
        found = max(other.glob("*.log")).read_bytes()[end:]
    return found.rstrip(b"\0")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_half_written_record_is_not_there_until_it_is_whole(
    crashed: str, tmp_path: Path, share: float
) -> None:
    log = newest_log(crashed)
    end = len(log.read_bytes().rstrip(b"\0"))
    record = record_after(log, end, tmp_path)
    with open_small(crashed, read_only=True) as reader, log.open("r+b") as file:
        file.seek(end)
        file.write(record[: int(len(record) * share)])
        file.flush()
        assert reader.refresh() is False
        assert b"late" not in reader
        file.seek(end)
        file.write(record)
        file.flush()
        assert reader.refresh() is True
        assert reader[b"late"] == b"value"


def test_a_torn_record_that_the_next_writer_cuts_off_never_shows(
    crashed: str, tmp_path: Path
) -> None:
    log = newest_log(crashed)
    end = len(log.read_bytes().rstrip(b"\0"))
    with open_small(crashed, read_only=True) as reader:
        with log.open("r+b") as file:
            file.seek(end)
            file.write(b"torn" * 100)
        assert reader.refresh() is False
        with open_small(crashed) as writer:
            writer.put(b"after", b"value")
            assert reader.refresh() is True
            assert state_of(reader) == state_of(writer)


def test_a_record_that_its_writer_took_back_does_not_stay(crashed: str, tmp_path: Path) -> None:
    log = newest_log(crashed)
    before = log.read_bytes()
    end = len(before.rstrip(b"\0"))
    record = record_after(log, end, tmp_path)
    with open_small(crashed, read_only=True) as reader:
        log.write_bytes(before[:end] + record + before[end + len(record) :])
        assert reader.refresh() is True
        assert b"late" in reader
        log.write_bytes(before)
        assert reader.refresh() is True
        assert b"late" not in reader
        assert state_of(reader)[0] == 100


@pytest.mark.parametrize(("place", "damage"), [(20, b"?"), (0, bytes(4096))])
def test_damage_below_a_sync_mark_is_an_error_and_the_handle_shows_what_it_did(
    path: str, tmp_path: Path, place: int, damage: bytes
) -> None:
    copy = tmp_path / "copy"
    with open_small(path, write_buffer_size_bytes=MIB) as writer:
        contents = fill(writer, range(50))
        shutil.copytree(path, copy)
        everything = {**contents, **fill(writer, range(50, 1500))}
        writer.sync()
        writer.put(b"later", b"value")
        whole = newest_log(path).read_bytes()
    log = newest_log(str(copy))
    start = len(log.read_bytes().rstrip(b"\0")) + place
    with open_small(copy, read_only=True) as reader:
        log.write_bytes(whole[:start] + damage + whole[start + len(damage) :])
        for _ in range(2):
            with pytest.raises(lsmkv.CorruptionError, match="had been synced"):
                reader.refresh()
            assert dict(reader.items()) == contents
        log.write_bytes(whole)
        assert reader.refresh() is True
        assert dict(reader.items()) == {**everything, b"later": b"value"}
