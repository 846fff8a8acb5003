"""Opening after a crash: what no text in ``testdata`` shows, above all cuts at every byte."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import contents, open_small

from damage import files
from log_files import written_bytes
from lsmkv.encoding.entries import ABSENT
from lsmkv.engine.recovery import recover
from lsmkv.errors import CorruptionError
from lsmkv.log.batch import Operation
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import log_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import Manifest, State, VersionEdit
from storages import FaultyStorage
from torture.fuzz.encoded import encode_batch

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

    def put(self, *keys: bytes) -> int:
        """Append one batch of puts to the newest log; return its end."""
        operations: list[Operation] = [(key, b"value of " + key) for key in keys]
        first = self.next_seq
        self.next_seq += len(operations)
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


# --- stores closed in good order -----------------------------------------------------------------


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
    store.start_log(1)
    store.put(b"a")
    store.put(b"b")
    store.start_log(2, store.logs[0])
    store.put(b"c")
    store.sync()
    store.put(b"d")
    store.finish()
    other = Handmade(tmp_path / "other")
    other.start_log(1)
    other.put(b"aaa")
    other.start_log(2, other.logs[0])
    other.put(b"zzz")
    other.finish()
    store.log(2).write_bytes(other.log(2).read_bytes())
    with pytest.raises(CorruptionError):
        open_small(store.path)
