"""Opening after a crash: what the crash left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import contents, fill, open_small

from damage import files
from gates import WAIT_S
from log_files import written_bytes
from lsmkv.encoding.entries import ABSENT
from lsmkv.engine.recovery import recover
from lsmkv.errors import CorruptionError
from lsmkv.log.reader import HEADER_BYTES, MARK_BYTES
from lsmkv.storage.file_names import new_staging_name, parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree import manifest
from storages import FaultyStorage


def test_a_closed_log_must_be_whole_but_for_its_final_mark(path: str) -> None:
    with open_small(path) as db:
        db[b"a"] = b"1"
        db[b"b"] = b"2"
    (log,) = files(Path(path), ".log")
    data = log.read_bytes()
    for length in range(len(data)):
        log.write_bytes(data[:length])
        if length < len(data) - MARK_BYTES:
            with pytest.raises(CorruptionError):
                recover(Storage(), path)
        else:
            assert recover(Storage(), path).memtables[0].get(b"b") is not ABSENT


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


class InterruptedStorage(FaultyStorage):
    """Once, the first sync of a log's header ends in an interrupt."""

    armed = False
    interrupted = ""

    def check(self, operation: str, *paths: str) -> int | None:
        is_header = operation == "sync" and os.path.getsize(paths[0]) == HEADER_BYTES
        if self.armed and is_header and paths[0].endswith(".log"):
            self.armed, self.interrupted = False, paths[0]
            raise KeyboardInterrupt
        return super().check(operation, *paths)


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
