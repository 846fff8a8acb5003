"""Torn tails of logs, damage to synced records, and logs that grow ahead of their end."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from damage import flip
from leaks import write_calls
from log_files import (
    MARK_BYTES,
    PAYLOADS,
    contents_of,
    create,
    payloads_of,
    read,
    where_calls_are_counted,
    written,
)
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError
from lsmkv.log.reader import HEADER_BYTES, RECORD_BYTES, LogKind
from lsmkv.log.writer import LARGE_RECORD_BYTES, LogWriter
from lsmkv.storage.append_file import AppendFile
from lsmkv.storage.storage import Storage
from storages import FaultyStorage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "000007.log"


def test_cut_at_any_byte_a_log_keeps_the_whole_records_before_it(path: Path) -> None:
    ends = written(path, PAYLOADS)
    data = path.read_bytes()
    for length in range(HEADER_BYTES, len(data) + 1):
        path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends)
        assert payloads_of(path) == PAYLOADS[:whole]
        torn = data[[HEADER_BYTES, *ends][whole] : length]
        assert contents_of(path).torn_bytes == len(torn.rstrip(b"\0"))  # zeros may be room


def test_cut_inside_its_header_a_log_counts_as_never_made(path: Path) -> None:
    written(path, [])
    data = path.read_bytes()
    for length in range(HEADER_BYTES):
        path.write_bytes(data[:length])
        assert read(path) is None


def test_any_damage_to_synced_records_is_an_error_with_its_place(path: Path) -> None:
    ends = written(path, [b"one", b"two", b"three"], synced_after=2)
    data = path.read_bytes()
    starts = [HEADER_BYTES, ends[0]]
    for offset in range(HEADER_BYTES, ends[1]):
        for mask in (0x01, 0x80):
            path.write_bytes(data)
            flip(path, offset, mask)
            with pytest.raises(CorruptionError, match="damaged record") as caught:
                read(path)
            assert caught.value.path == str(path)
            assert caught.value.offset == starts[offset >= ends[0]]


def test_damage_after_the_last_sync_drops_the_record_and_all_that_follow(path: Path) -> None:
    ends = written(path, [b"one", b"two", b"three", b"four"], synced_after=1)
    data = path.read_bytes()
    for offset in range(ends[1], ends[2]):
        path.write_bytes(data)
        flip(path, offset)
        assert payloads_of(path) == [b"one", b"two"]


def test_a_mark_inside_a_torn_record_is_found_by_its_bytes(path: Path) -> None:
    log = create(path)
    log.sync_through(log.append(b"x" * 100))
    log.append(b"after")
    log.close()
    data = bytearray(path.read_bytes())
    struct.pack_into(
        "<I", data, HEADER_BYTES + 4, 1 << 31
    )  # a wrong length hides all later records
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptionError, match="damaged record"):
        read(path)


def test_a_payload_that_looks_like_a_sync_mark_is_none(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "000008.log"
    log = LogWriter.create(Storage(), str(other), 7, "log")
    log.sync_through(log.append(b"first"))
    log.append(b"second")
    log.close()
    marked = other.read_bytes()[HEADER_BYTES:]
    ends = written(path, [b"one", marked, b"three"])
    flip(path, ends[0] + RECORD_BYTES)
    assert payloads_of(path) == [b"one"]


def test_a_record_moved_to_another_place_does_not_check_out(path: Path) -> None:
    ends = written(path, [b"same", b"same"])
    data = bytearray(path.read_bytes())
    data[ends[0] : ends[1]] = data[HEADER_BYTES : ends[0]]
    path.write_bytes(bytes(data))
    assert payloads_of(path) == [b"same"]


def test_records_of_another_log_at_the_same_place_do_not_check_out(
    path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.log"
    written(path, [b"one", b"two"])
    ends = written(other, [b"ONE", b"TWO"])
    data = path.read_bytes()[: ends[0]] + other.read_bytes()[ends[0] :]
    path.write_bytes(data)
    assert payloads_of(path) == [b"one"]


def test_a_length_beyond_the_file_takes_no_memory_for_it(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    log.close()
    header = contents_of(path)
    body = struct.pack("<IB", 0xFFFF_FFFF, 0) + b"short"
    check = checksum(body, (header.salt + header.end) & (1 << 64) - 1) & 0xFFFF_FFFF
    path.write_bytes(path.read_bytes() + check.to_bytes(4, "little") + body)
    assert payloads_of(path) == [b"one"]


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
@pytest.mark.parametrize("has_room", [False, True])
def test_an_append_is_one_system_call(path: Path, has_room: bool) -> None:
    log = synced_twice(path) if has_room else create(path)
    before = payloads_of(path)
    assert [calls_of_an_append(log) for _ in range(3)] == [1, 1, 1]
    assert payloads_of(path) == [*before, *[b"more"] * 3]


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
