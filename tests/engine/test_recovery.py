"""Opening after a crash: torn logs, closed logs, and chains of logs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import contents, open_small

from damage import files, flip
from log_files import written_bytes
from lsmkv.encoding.entries import ABSENT
from lsmkv.engine.recovery import recover
from lsmkv.errors import CorruptionError
from lsmkv.log.batch import Operation, encode_batch
from lsmkv.log.reader import HEADER_BYTES, RECORD_BYTES
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import log_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import Manifest, State, VersionEdit
from storages import FaultyStorage

# --- stores made by hand -------------------------------------------------------------------------


@dataclass
class Handmade:
    """A store of logs only, written record by record."""

    path: Path
    storage: Storage = field(default_factory=Storage)
    logs: list[LogWriter] = field(default_factory=list)
    next_seq: int = 1

    def start_log(self, number: int, predecessor: LogWriter | None = None) -> LogWriter:
        self.path.mkdir(exist_ok=True)
        path = log_path(str(self.path), number)
        log = LogWriter.create(self.storage, path, number, "log", predecessor)
        self.logs.append(log)
        return log

    def put(self, *keys: bytes, seq: int | None = None) -> int:
        """Append one batch of puts to the newest log; return its end."""
        operations: list[Operation] = [(key, b"value of " + key) for key in keys]
        first = self.next_seq if seq is None else seq
        self.next_seq = first + len(operations)
        return self.logs[-1].append(encode_batch(first, operations))

    def sync(self) -> None:
        self.logs[-1].sync_through(self.logs[-1].end)

    def finish(self, *, closed: bool = False) -> None:
        """Write manifest and CURRENT, as after a crash or a close."""
        state = State(Levels(), max(log.number for log in self.logs) + 1, 0, self.logs[0].number)
        manifest = Manifest(self.storage, str(self.path), state)
        manifest.rewrite()
        if closed:
            self.sync()
            last = self.logs[-1]
            manifest.append(VersionEdit(closed_log=(last.number, last.end)))
        manifest.close()
        for log in self.logs:
            log.close(mark=closed and log is self.logs[-1])

    def log(self, number: int) -> Path:
        return Path(log_path(str(self.path), number))

    def keys(self) -> list[bytes]:
        return list(contents(self.path))


@pytest.fixture
def store(tmp_path: Path) -> Handmade:
    return Handmade(tmp_path / "store")


def two_logs(store: Handmade, *, synced: bool) -> int:
    """Make two logs of two keys each, and return where b starts.

    Keys a and b are in log 1, c and d in log 2.  With ``synced`` a sync separates c and d.
    """
    store.start_log(1)
    start_of_b = store.put(b"a")
    store.put(b"b")
    store.start_log(2, store.logs[0])
    store.put(b"c")
    if synced:
        store.sync()
    store.put(b"d")
    store.finish()
    return start_of_b


# --- the last log --------------------------------------------------------------------------------


def test_cut_at_any_byte_the_log_gives_the_whole_records_before_it(store: Handmade) -> None:
    store.start_log(1)
    ends = [store.put(b"a"), store.put(b"b", b"bb", b"bbb"), store.put(b"c")]
    store.finish()
    expected = {
        0: [],
        1: [b"a"],
        2: [b"a", b"b", b"bb", b"bbb"],
        3: [b"a", b"b", b"bb", b"bbb", b"c"],
    }
    data = store.log(1).read_bytes()
    for length in range(HEADER_BYTES, len(data) + 1):
        store.log(1).write_bytes(data[:length])
        found = recover(Storage(), str(store.path))
        assert (
            found.memtables[0].keys_beyond(None, True, 9, False)
            == expected[sum(end <= length for end in ends)]
        )


def test_a_torn_tail_is_dropped_and_writing_goes_on_behind_it(store: Handmade) -> None:
    store.start_log(1)
    store.put(b"a")
    store.put(b"b")
    store.finish()
    os.truncate(store.log(1), store.log(1).stat().st_size - 1)
    with open_small(store.path) as db:
        db.put(b"c", b"1")
    assert store.keys() == [b"a", b"c"]


def test_bytes_of_a_dropped_tail_never_come_back(store: Handmade) -> None:
    store.start_log(1)
    end = store.put(b"a")
    store.put(b"b")
    store.put(b"c")
    store.finish()
    flip(store.log(1), end + RECORD_BYTES)
    assert store.keys() == [b"a"]
    with open_small(store.path) as db:
        db.put(b"bb", b"x" * 20)
    assert store.keys() == [b"a", b"bb"]


def test_damage_to_a_synced_record_is_an_error_with_its_place(store: Handmade) -> None:
    store.start_log(1)
    end = store.put(b"a")
    store.put(b"b")
    store.sync()
    store.put(b"c")
    store.finish()
    flip(store.log(1), end + RECORD_BYTES)
    with pytest.raises(CorruptionError, match="had been synced") as caught:
        open_small(store.path)
    assert (caught.value.path, caught.value.offset) == (str(store.log(1)), end)


def test_damage_after_the_last_sync_keeps_the_prefix(store: Handmade) -> None:
    store.start_log(1)
    store.put(b"a")
    store.sync()
    end = store.put(b"b")
    store.put(b"c")
    store.put(b"d")
    store.finish()
    flip(store.log(1), end + RECORD_BYTES)
    assert store.keys() == [b"a", b"b"]


def test_a_failed_opening_changes_nothing(store: Handmade) -> None:
    store.start_log(1)
    store.put(b"a")
    store.sync()
    store.put(b"b")
    store.finish()
    flip(store.log(1), HEADER_BYTES + RECORD_BYTES)
    before = {path.name: path.read_bytes() for path in store.path.iterdir()}
    with pytest.raises(CorruptionError):
        open_small(store.path)
    (store.path / "LOCK").unlink()
    assert {path.name: path.read_bytes() for path in store.path.iterdir()} == before


def test_a_write_missing_between_two_records_is_an_error(store: Handmade) -> None:
    store.start_log(1)
    end = store.put(b"a")
    store.put(b"c", seq=3)
    store.finish()
    with pytest.raises(CorruptionError, match="a write is missing") as caught:
        open_small(store.path)
    assert (caught.value.offset, caught.value.expected, caught.value.got) == (end, 2, 3)


def test_a_write_that_stands_twice_is_an_error(store: Handmade) -> None:
    store.start_log(1)
    store.put(b"a")
    store.put(b"b", seq=1)
    store.finish()
    with pytest.raises(CorruptionError, match="a write is missing"):
        open_small(store.path)


# --- stores closed in good order -----------------------------------------------------------------


def test_a_closed_log_cut_short_at_a_record_is_an_error(store: Handmade) -> None:
    store.start_log(1)
    end = store.put(b"a")
    store.put(b"b")
    store.finish(closed=True)
    os.truncate(store.log(1), end)
    with pytest.raises(CorruptionError, match="where it was closed") as caught:
        open_small(store.path)
    assert (caught.value.path, caught.value.offset) == (str(store.log(1)), end)


def test_cut_anywhere_before_its_final_mark_a_closed_log_is_an_error(store: Handmade) -> None:
    store.start_log(1)
    store.put(b"a")
    end = store.put(b"b")
    store.finish(closed=True)
    data = store.log(1).read_bytes()
    for length in range(end):
        store.log(1).write_bytes(data[:length])
        with pytest.raises(CorruptionError):
            recover(Storage(), str(store.path))


def test_a_closed_log_may_lack_its_final_mark(store: Handmade) -> None:
    store.start_log(1)
    end = store.put(b"a")
    store.finish(closed=True)
    data = store.log(1).read_bytes()
    for length in range(end, len(data)):
        store.log(1).write_bytes(data[:length])
        assert recover(Storage(), str(store.path)).memtables[0].get(b"a") is not ABSENT


def test_a_missing_log_that_the_store_was_closed_with_is_an_error(store: Handmade) -> None:
    two_logs(store, synced=False)
    closed = Handmade(store.path.with_name("closed"))
    closed.start_log(1)
    closed.put(b"a")
    closed.start_log(2, closed.logs[0])
    closed.put(b"b")
    closed.finish(closed=True)
    closed.log(2).unlink()
    with pytest.raises(CorruptionError, match="closed with is missing") as caught:
        open_small(closed.path)
    assert caught.value.path == str(closed.log(2))


def test_a_closed_log_whose_predecessor_lost_its_end_is_an_error(store: Handmade) -> None:
    store.start_log(1)
    end = store.put(b"a")
    store.put(b"b")
    store.start_log(2, store.logs[0])
    store.finish(closed=True)
    os.truncate(store.log(1), end)
    with pytest.raises(CorruptionError, match="closed with is missing"):
        open_small(store.path)


def test_a_store_reopened_after_closing_may_be_torn_again(path: str) -> None:
    with open_small(path) as db:
        db[b"a"] = b"1"
    storage = FaultyStorage()
    db = open_small(path, storage=storage)
    db[b"b"] = b"2"
    storage.fail("sync", times=None)
    with pytest.raises(OSError, match="injected: sync"):
        db.close()
    (log,) = files(Path(path), ".log")
    os.truncate(log, written_bytes(log) - 1)
    assert list(contents(path)) == [b"a"]


# --- chains of logs ------------------------------------------------------------------------------


def test_logs_are_read_one_after_the_other(store: Handmade) -> None:
    two_logs(store, synced=True)
    assert store.keys() == [b"a", b"b", b"c", b"d"]


def test_a_log_that_follows_a_lost_unsynced_end_is_dropped(store: Handmade) -> None:
    start_of_b = two_logs(store, synced=False)
    os.truncate(store.log(1), start_of_b)
    assert store.keys() == [b"a"]


def test_a_dropped_log_is_removed_before_anything_is_written(store: Handmade) -> None:
    start_of_b = two_logs(store, synced=False)
    os.truncate(store.log(1), start_of_b)
    open_small(store.path).close()
    assert not store.log(2).exists()
    with open_small(store.path) as db:
        db[b"e"] = b"1"
    assert store.keys() == [b"a", b"e"]


def test_a_lost_end_that_a_later_log_knows_was_synced_is_an_error(store: Handmade) -> None:
    start_of_b = two_logs(store, synced=True)
    os.truncate(store.log(1), start_of_b)
    with pytest.raises(CorruptionError, match="records are missing") as caught:
        open_small(store.path)
    assert (caught.value.path, caught.value.offset) == (str(store.log(1)), start_of_b)


def test_damage_before_a_synced_log_is_an_error(store: Handmade) -> None:
    start_of_b = two_logs(store, synced=True)
    flip(store.log(1), start_of_b + RECORD_BYTES)
    with pytest.raises(CorruptionError, match="records are missing"):
        open_small(store.path)


def test_a_missing_first_log_is_an_error(store: Handmade) -> None:
    two_logs(store, synced=False)
    store.log(1).unlink()
    with pytest.raises(CorruptionError, match="is missing") as caught:
        open_small(store.path)
    assert caught.value.path == str(store.log(1))


def test_a_log_missing_from_the_middle_is_an_error(store: Handmade) -> None:
    for number in (1, 2, 3):
        store.start_log(number, store.logs[-1] if store.logs else None)
        store.put(b"%d" % number)
    store.finish()
    store.log(2).unlink()
    with pytest.raises(CorruptionError, match="it follows log 2, which is missing") as caught:
        open_small(store.path)
    assert caught.value.path == str(store.log(3))


def test_a_first_log_without_a_whole_header_is_an_error(store: Handmade) -> None:
    store.start_log(1)
    store.finish()
    os.truncate(store.log(1), HEADER_BYTES - 1)
    with pytest.raises(CorruptionError, match="cut short inside its header") as caught:
        open_small(store.path)
    assert (caught.value.path, caught.value.offset) == (str(store.log(1)), 0)


def test_a_last_log_torn_inside_its_header_was_never_written_to(store: Handmade) -> None:
    store.start_log(1)
    store.put(b"a")
    store.start_log(2, store.logs[0])
    store.finish()
    data = store.log(2).read_bytes()
    for length in range(HEADER_BYTES):
        store.log(2).write_bytes(data[:length])
        found = recover(Storage(), str(store.path))
        assert [log.number for log in found.logs] == [1]


def test_a_middle_log_torn_inside_its_header_is_an_error(store: Handmade) -> None:
    for number in (1, 2, 3):
        store.start_log(number, store.logs[-1] if store.logs else None)
        store.put(b"%d" % number)
    store.sync()
    store.finish()
    os.truncate(store.log(2), HEADER_BYTES - 1)
    with pytest.raises(CorruptionError, match="it follows log 2, which is missing"):
        open_small(store.path)


@pytest.mark.parametrize("length", [0, HEADER_BYTES - 1, HEADER_BYTES])
def test_a_log_abandoned_during_its_creation_is_skipped(store: Handmade, length: int) -> None:
    before = store.start_log(1)
    store.put(b"a")
    store.start_log(2, before)
    store.start_log(3, before)
    store.put(b"b")
    store.finish()
    os.truncate(store.log(2), length)
    assert store.keys() == [b"a", b"b"]


@pytest.mark.parametrize("is_followed", [False, True])
def test_an_abandoned_log_is_skipped_even_if_the_one_before_was_continued(
    store: Handmade, is_followed: bool
) -> None:
    before = store.start_log(1)
    store.put(b"a")
    given_up = store.start_log(2, before)
    store.logs.remove(given_up)
    store.put(b"b")
    if is_followed:
        store.start_log(3, before)
        store.put(b"c")
    store.finish()
    given_up.close()
    assert store.keys() == [b"a", b"b", b"c"][: 2 + is_followed]


def test_a_log_that_belongs_to_another_store_is_an_error(store: Handmade, tmp_path: Path) -> None:
    two_logs(store, synced=True)
    other = Handmade(tmp_path / "other")
    other.start_log(1)
    other.put(b"aaa")
    other.start_log(2, other.logs[0])
    other.put(b"zzz")
    other.finish()
    store.log(2).write_bytes(other.log(2).read_bytes())
    with pytest.raises(CorruptionError):
        open_small(store.path)
