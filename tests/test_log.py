"""The record log: torn tails, damage, foreign files, and one sync for many writers."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from damage import flip
from lsmkv.encoding import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.log import (
    FORMAT_VERSION,
    HEADER_BYTES,
    RECORD_BYTES,
    LogContents,
    LogKind,
    LogWriter,
    read_log,
)
from lsmkv.storage import Storage
from storages import FaultyStorage, SlowStorage

MARK_BYTES = RECORD_BYTES + 8
PAYLOADS = [b"one", b"", b"three" * 9, bytes(range(256)), b"five"]
HUNG_S = 60.0  # only stops a test that hangs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "000007.log"


def create(path: Path, storage: Storage | None = None, kind: LogKind = "log") -> LogWriter:
    return LogWriter.create(storage or Storage(), str(path), 7, kind)


def read(path: Path, kind: LogKind = "log", number: int = 7) -> LogContents | None:
    return read_log(Storage(), str(path), number, kind)


def contents_of(path: Path) -> LogContents:
    contents = read(path)
    assert contents is not None
    return contents


def payloads_of(path: Path) -> list[bytes]:
    return [payload for _, payload in contents_of(path).records()]


def written(path: Path, payloads: list[bytes], *, synced_after: int | None = None) -> list[int]:
    """Write a log; where each record ends.  ``synced_after`` records it is synced."""
    log = create(path)
    ends = []
    for count, payload in enumerate(payloads, 1):
        ends.append(log.append(payload))
        if count == synced_after:
            log.sync_through(log.end)
    log.close()
    return ends


# --- what is written is read ---------------------------------------------------------------------


def test_records_come_back_in_order(path: Path) -> None:
    written(path, PAYLOADS)
    assert payloads_of(path) == PAYLOADS


def test_offsets_are_where_the_records_start(path: Path) -> None:
    ends = written(path, PAYLOADS)
    assert [offset for offset, _ in contents_of(path).records()] == [HEADER_BYTES, *ends[:-1]]


def test_a_log_without_records_is_whole(path: Path) -> None:
    written(path, [])
    assert (contents_of(path).end, contents_of(path).torn_bytes) == (HEADER_BYTES, 0)


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


def test_an_unsynced_log_states_nothing_durable(path: Path) -> None:
    written(path, [b"a", b"b"])
    assert contents_of(path).durable == 0


def test_closing_with_a_mark_says_that_all_of_it_is_durable(path: Path) -> None:
    log = create(path)
    log.sync_through(log.append(b"record"))
    end = log.end
    log.close(mark=True)
    assert contents_of(path).durable == end


def test_closing_with_a_mark_claims_nothing_that_was_not_synced(path: Path) -> None:
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


def test_a_failed_sync_of_a_reopened_log_is_raised(path: Path) -> None:
    written(path, [b"a"])
    storage = FaultyStorage()
    storage.fail("sync")
    with pytest.raises(OSError, match="injected: sync"):
        LogWriter.reopen(storage, contents_of(path))


# --- room for more ---


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


def test_a_log_that_is_never_synced_has_no_room(path: Path) -> None:
    log = create(path)
    log.append(b"one")
    assert path.stat().st_size == log.end


def test_a_manifest_has_no_room(path: Path) -> None:
    assert synced_twice(path, kind="manifest").end == path.stat().st_size


def test_closing_takes_the_room_back(path: Path) -> None:
    log = synced_twice(path)
    log.close()
    assert path.stat().st_size == log.end


def test_room_that_cannot_be_made_is_done_without(path: Path) -> None:
    storage = FaultyStorage()
    storage.fail("truncate", error=errno.EFBIG, times=None)
    log = synced_twice(path, storage)
    assert path.stat().st_size == log.end
    assert payloads_of(path) == [b"one", b"two"]


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
    kept = end + MARK_BYTES  # which was written with the record, and is whole
    assert (payloads_of(path), contents.end) == ([b"one", b"two"], kept)
    assert contents.torn_bytes == log.end - kept
    LogWriter.reopen(Storage(), contents).close()
    assert path.stat().st_size == kept


# --- torn tails and damage -----------------------------------------------------------------------


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
    struct.pack_into("<I", data, HEADER_BYTES + 4, 1 << 31)  # its length: nothing can be followed
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


# --- headers -------------------------------------------------------------------------------------


def rewrite_header(path: Path, **fields: int | bytes) -> None:
    """Replace fields of the header, and have its checksum agree."""
    places = {"magic": (0, "8s"), "version": (8, "<I"), "kind": (12, "<I"), "number": (16, "<Q")}
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


def test_another_magic_is_an_error(path: Path) -> None:
    written(path, [])
    rewrite_header(path, magic=b"otherLOG")
    with pytest.raises(CorruptionError, match="not a log file"):
        read(path)


def test_a_newer_format_version_is_named(path: Path) -> None:
    written(path, [b"record"])
    rewrite_header(path, version=FORMAT_VERSION + 1)
    with pytest.raises(UnsupportedFormatError, match="log format 2") as caught:
        read(path)
    assert caught.value.path == str(path)


def test_a_manifest_is_no_write_ahead_log(path: Path) -> None:
    create(path, kind="manifest").close()
    with pytest.raises(CorruptionError, match="names another file"):
        read(path)


def test_a_log_under_another_number_is_an_error(path: Path) -> None:
    written(path, [])
    with pytest.raises(CorruptionError, match="names another file"):
        read(path, number=8)


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


# --- syncing -------------------------------------------------------------------------------------


class Gate:
    """Lets a test hold syncs back: what SlowStorage calls in place of sleeping.

    Each sync announces itself and then waits to be let through.
    """

    def __init__(self) -> None:
        self.open = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.count = 0

    def __call__(self, _seconds: float) -> None:
        self.count += 1
        self.arrived.release()
        assert self.open.wait(HUNG_S)


def gated(gate: Gate) -> SlowStorage:
    return SlowStorage(gate, sync_s=1.0)


def start(*targets: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(HUNG_S)
        assert not thread.is_alive()


def wait_until(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(int(HUNG_S * 1000)):
        if condition():
            return
        waiting.wait(0.001)
    raise AssertionError("it never came to that")


def test_writers_that_wait_during_a_sync_share_the_next_one(path: Path) -> None:
    gate = Gate()
    gate.open.set()
    log = create(path, gated(gate))
    gate.open.clear()
    gate.count = 0
    gate.arrived = threading.Semaphore(0)
    first = log.append(b"first")
    threads = start(lambda: log.sync_through(first))
    assert gate.arrived.acquire(timeout=HUNG_S)
    ends = [log.append(b"%d" % number) for number in range(8)]
    threads += start(*[lambda end=end: log.sync_through(end) for end in ends])
    wait_until(lambda: log._waiting == 8)
    gate.open.set()
    join(threads)
    assert gate.count == 2
    assert log.synced == log.end


def test_the_size_of_each_group_is_counted(path: Path) -> None:
    storage = Storage()
    log = create(path, storage)
    log.sync_through(log.append(b"record"))
    assert (storage.stats.log_syncs, storage.stats.group_commit_size.count) == (1, 1)


def test_what_is_on_disk_already_is_not_synced_again(path: Path) -> None:
    storage = FaultyStorage()
    log = create(path, storage)
    first = log.append(b"first")
    log.append(b"second")
    log.sync_through(log.end)
    synced = storage.calls["sync"]
    log.sync_through(first)
    assert storage.calls["sync"] == synced


def test_a_failed_sync_fails_every_waiter_and_is_not_tried_again(path: Path) -> None:
    storage = FaultyStorage()
    log = create(path, storage)
    end = log.append(b"record")
    storage.fail("sync")
    with pytest.raises(OSError, match="injected: sync"):
        log.sync_through(end)
    synced = storage.calls["sync"]
    with pytest.raises(OSError, match="earlier failure"):
        log.sync_through(end)
    with pytest.raises(OSError, match="earlier failure"):
        log.append(b"more")
    assert storage.calls["sync"] == synced


def test_syncing_a_log_first_syncs_the_one_before(path: Path, tmp_path: Path) -> None:
    storage = FaultyStorage()
    before = create(path, storage)
    before.append(b"earlier")
    log = LogWriter.create(storage, str(tmp_path / "8"), 8, "log", predecessor=before)
    log.sync_through(log.append(b"later"))
    assert before.synced == before.end


def test_an_empty_log_is_not_synced_while_the_one_before_is_not(path: Path, tmp_path: Path) -> None:
    before = create(path)
    before.append(b"earlier")
    log = LogWriter.create(Storage(), str(tmp_path / "8"), 8, "log", predecessor=before)
    log.sync_through(log.end)
    assert before.synced == before.end


def test_a_predecessor_that_cannot_be_synced_fails_the_sync(path: Path, tmp_path: Path) -> None:
    storage = FaultyStorage()
    before = create(path, storage)
    before.append(b"earlier")
    log = LogWriter.create(storage, str(tmp_path / "8"), 8, "log", predecessor=before)
    storage.fail("sync", path_suffix=".log")
    with pytest.raises(OSError, match="injected: sync"):
        log.sync_through(log.append(b"later"))
    assert log.synced < log.end


def test_an_obsolete_predecessor_needs_no_sync(path: Path, tmp_path: Path) -> None:
    storage = FaultyStorage()
    before = create(path, storage)
    before.append(b"earlier")
    log = LogWriter.create(storage, str(tmp_path / "8"), 8, "log", predecessor=before)
    before.obsolete = True
    before.close()
    storage.fail("sync", path_suffix=".log", times=None)
    log.sync_through(log.append(b"later"))
    assert log.synced == log.end


def test_whoever_waits_for_a_log_that_becomes_obsolete_is_done(path: Path) -> None:
    log = create(path)
    end = log.append(b"record")
    log.obsolete = True
    log.close()
    log.sync_through(end)


def test_logs_that_are_closed_let_go_of_those_before(path: Path, tmp_path: Path) -> None:
    before = create(path)
    log = LogWriter.create(Storage(), str(tmp_path / "8"), 8, "log", predecessor=before)
    log.obsolete = True
    log.close()
    assert log._predecessor is None


def test_closing_waits_for_the_sync_that_runs(path: Path) -> None:
    gate = Gate()
    gate.open.set()
    log = create(path, gated(gate))
    gate.open.clear()
    gate.arrived = threading.Semaphore(0)
    end = log.append(b"record")
    threads = start(lambda: log.sync_through(end))
    assert gate.arrived.acquire(timeout=HUNG_S)
    threads += start(log.close)
    gate.open.set()
    join(threads)
    assert log.synced == end


def test_closing_twice_does_nothing(path: Path) -> None:
    log = create(path)
    log.close()
    log.close()
    assert path.stat().st_size == HEADER_BYTES
