"""Opening after a crash: cuts at every byte, and what the crash left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import contents, fill, open_small

from damage import files
from gates import WAIT_S
from log_files import written_bytes
from lsmkv.encoding.entries import ABSENT
from lsmkv.engine.recovery import recover
from lsmkv.errors import CorruptionError
from lsmkv.log.batch import Operation
from lsmkv.log.reader import HEADER_BYTES, MARK_BYTES
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import log_path, new_staging_name, parse_file_name
from lsmkv.storage.storage import AppendFile, Storage
from lsmkv.tree import manifest
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import Manifest, State, VersionEdit
from storages import FaultyStorage
from torture.fuzz.encoded import encode_batch


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


def names(path: str | Path, kind: str) -> list[str]:
    return [
        name for name in sorted(os.listdir(path)) if (parse_file_name(name) or ("",))[0] == kind
    ]


def test_a_leftover_that_cannot_be_removed_is_no_obstacle(path: str) -> None:
    with open_small(path) as db:
        db[b"a"] = b"1"
    (Path(path) / "000900.sst").write_bytes(b"left by a crash")
    storage = FaultyStorage()
    storage.fail("remove", path_suffix="000900.sst", times=None)
    with open_small(path, storage=storage) as db:
        assert db[b"a"] == b"1"


def test_file_numbers_are_never_used_twice(path: str) -> None:
    seen: set[str] = set()
    for round_number in range(4):
        with open_small(path) as db:
            kept = set(os.listdir(path))
            if round_number % 2:
                with db._engine.tables.lock:
                    db._engine.tables.manifest.rewrite()
            fill(db, range(100 * round_number, 100 * round_number + 200))
            db.flush()
            fresh = {name for name in os.listdir(path) if parse_file_name(name)} - kept
            assert fresh and not fresh & seen
            seen |= fresh


CHANGES = ("create", "append", "truncate", "sync", "sync_directory", "replace", "remove")


def changes(storage: FaultyStorage) -> dict[str, int]:
    return {name: storage.calls[name] for name in CHANGES if storage.calls[name]}


@pytest.mark.parametrize("flushed", [True, False])
def test_a_store_that_was_closed_in_good_order_is_opened_and_closed_without_a_change(
    path: str, flushed: bool
) -> None:
    with open_small(path) as db:
        expected = fill(db, range(100))
        if flushed:
            db.compact_range()
    before = {name: (Path(path) / name).read_bytes() for name in os.listdir(path)}
    for _ in range(3):
        storage = FaultyStorage()
        with open_small(path, storage=storage) as db:
            assert dict(db.items()) == expected
        storage.calls["create"] -= 1  # of the existing lock file
        assert changes(storage) == {}
    assert {name: (Path(path) / name).read_bytes() for name in os.listdir(path)} == before


def test_writes_after_such_an_opening_are_there_after_a_crash(path: str, tmp_path: Path) -> None:
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        expected = fill(db, range(300))
    for turn in range(3):
        with open_small(path, write_buffer_size_bytes=1 << 20) as db:
            expected[b"turn%d" % turn] = db[b"turn%d" % turn] = b"x"
            db.sync()
            db.wait_until_settled()  # no file is removed during the copy
            copy = tmp_path / f"copy{turn}"
            shutil.copytree(path, copy)  # as a crash would leave it
            assert contents(copy) == expected
            if turn == 1:
                db.flush()
                db.wait_until_settled()
    assert contents(path) == expected


@pytest.mark.parametrize("suffix", [".log", "MANIFEST"])
@pytest.mark.parametrize("how", ["lost", "half", "more"])
def test_a_file_whose_last_mark_is_not_whole_is_synced_when_opened(
    path: str, suffix: str, how: str
) -> None:
    with open_small(path) as db:
        expected = fill(db, range(20))
    (file,) = [Path(path) / name for name in os.listdir(path) if suffix in name]
    data = file.read_bytes()
    file.write_bytes(
        {"lost": data[:-MARK_BYTES], "half": data[:-5], "more": data + b"torn record"}[how]
    )
    storage = FaultyStorage()
    with open_small(path, storage=storage) as db:
        assert dict(db.items()) == expected
        if how != "lost" or suffix == "MANIFEST":
            assert storage.calls["sync"] > 0
    assert contents(path) == expected


def test_a_long_manifest_is_replaced_by_a_new_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_LEAST_BYTES", 500)
    expected = {}
    numbers = set()
    for turn in range(60):
        with open_small(path) as db:
            expected[b"%d" % turn] = db[b"%d" % turn] = b"x"
        (name,) = names(path, "manifest")
        numbers.add(name)
        assert (Path(path) / name).stat().st_size < 10_000
    assert 1 < len(numbers) < 30
    assert contents(path) == expected


def test_an_interrupted_rotation_removes_the_new_log_and_writing_continues(path: str) -> None:
    storage = InterruptedStorage()
    expected = {}
    with open_small(path, storage=storage) as db:
        storage.armed = True
        for number in range(300):
            try:
                db.put(b"%03d" % number, b"x" * 100)
                expected[b"%03d" % number] = b"x" * 100
            except KeyboardInterrupt:
                assert not Path(storage.interrupted).exists()
        assert not storage.armed
    assert contents(path) == expected


class InterruptedStorage(Storage):
    armed = False
    interrupted = ""

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        file = _InterruptedFile(path, descriptor, offset)
        file.storage = self
        return file


class _InterruptedFile(AppendFile):
    storage: InterruptedStorage

    def _sync(self) -> None:
        """Once, the first sync of a log's header ends in an interrupt."""
        super()._sync()
        if self.storage.armed and self.path.endswith(".log") and self.offset == HEADER_BYTES:
            self.storage.armed = False
            self.storage.interrupted = self.path
            raise KeyboardInterrupt


def test_a_staging_directory_that_is_nested_too_deep_stays_and_the_store_opens(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    with open_small(path) as db:
        db[b"k"] = b"v"
    top = path / new_staging_name()
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deeper", dir_fd=folder)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    with open_small(path) as db:
        assert db[b"k"] == b"v"
    subprocess.run(["rm", "-rf", path], check=True, timeout=WAIT_S)
