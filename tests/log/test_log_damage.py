"""Torn tails of logs are dropped; damage to synced records is an error."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from damage import flip
from log_files import PAYLOADS, contents_of, create, payloads_of, read, written
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError
from lsmkv.log.reader import HEADER_BYTES, RECORD_BYTES
from lsmkv.log.writer import LogWriter
from lsmkv.storage.storage import Storage


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


def test_a_hole_of_zeros_in_the_unsynced_tail_ends_the_log(path: Path) -> None:
    ends = written(path, [b"one", b"two", b"three"])
    data = bytearray(path.read_bytes())
    data[ends[0] : ends[1]] = bytes(ends[1] - ends[0])
    path.write_bytes(bytes(data))
    assert payloads_of(path) == [b"one"]


def test_a_damaged_sync_mark_that_no_mark_follows_ends_the_log(path: Path) -> None:
    ends = written(path, [b"one", b"two"], synced_after=1)
    flip(path, ends[0] + RECORD_BYTES)
    assert payloads_of(path) == [b"one"]


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
