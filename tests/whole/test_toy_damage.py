"""The toy of ``examples`` after a kill, and with damaged files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import lsmkv
import toy
import toy_bytes
from damage import cut, flip
from gates import WAIT_S
from time_limits import started
from toy_stores import open_toy, read_all

WRITER = """
import sys, pathlib, toy
store = toy.Store(pathlib.Path(sys.argv[1]))
for number in range(1_000_000):
    store.put(b"%07d" % number, b"v" * (number % 50))
    print(number, flush=True)
    if number % 100 == 99:
        store.flush()
    if number % 700 == 699:
        store.compact()
"""


@pytest.mark.parametrize("acknowledged", [1, 95, 350, 705])
def test_a_killed_process_loses_nothing_that_it_acknowledged(
    acknowledged: int, tmp_path: Path
) -> None:
    path, environment = tmp_path / "db", {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path)]
    with started(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        writer.wait(WAIT_S)
    count = acknowledged + rest.count("\n")
    store = open_toy(path)
    found = dict(store.scan())
    assert count <= len(found) <= count + 1
    assert found == {b"%07d" % number: b"v" * (number % 50) for number in range(len(found))}
    store.close()
    with lsmkv.open(path, read_only=True) as db:
        assert dict(db.items()) == found
        assert db.verify().problems == ()


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps on disk the toy may take, before one kills it."""
    left = [1000]

    def killed_before(step: Callable[..., object]) -> Callable[..., object]:
        def lived(*given: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return step(*given, **named)

        return lived

    monkeypatch.setattr(toy, "write_file", killed_before(toy.write_file))
    monkeypatch.setattr(toy.Log, "append", killed_before(toy.Log.append))
    monkeypatch.setattr(Path, "rename", killed_before(Path.rename))
    monkeypatch.setattr(Path, "unlink", killed_before(Path.unlink))
    return left


def test_a_store_whose_creation_was_killed_is_made_by_the_next_opening(
    tmp_path: Path, left: list[int]
) -> None:
    for steps in range(20):
        path = tmp_path / f"{steps}"
        left[0] = steps
        try:
            open_toy(path).close()
        except Killed:
            ended = False
        else:
            ended = True
        left[0] = 1000
        again = shutil.copytree(path, tmp_path / f"{steps} by lsmkv")
        with lsmkv.open(again) as db:
            assert dict(db.items()) == {}
        store = open_toy(path)
        store.put(b"a", b"1")
        store.close()
        assert read_all(path) == {b"a": b"1"}
        if ended:
            break
    assert ended
    assert steps > 6


def test_a_store_that_lost_its_current_is_never_made_anew(tmp_path: Path) -> None:
    store = open_toy(tmp_path / "db")
    store.put(b"a", b"1")
    store.close()
    (tmp_path / "db" / "CURRENT").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()}
    with pytest.raises(toy_bytes.RefusedError, match=r"000001\.log is there"):
        open_toy(tmp_path / "db")
    assert {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()} == before


@pytest.mark.parametrize("work", ["flush", "compact"])
def test_a_kill_between_any_two_steps_on_disk_loses_nothing(
    work: str, tmp_path: Path, left: list[int]
) -> None:
    for steps in range(20):
        path = tmp_path / f"{steps}"
        left[0] = 1000
        store = open_toy(path)
        for number in range(100):
            store.put(b"%d" % number, b"old")
        store.flush()
        for number in range(50):
            store.put(b"%d" % number, b"new" if number else None)
        left[0] = steps
        try:
            getattr(store, work)()
        except Killed:
            ended = False
        else:
            ended = True
        left[0] = 1000
        store.lock.close()
        expected = {b"%d" % number: b"new" if number < 50 else b"old" for number in range(1, 100)}
        again = shutil.copytree(path, tmp_path / f"{steps} by lsmkv")
        with lsmkv.open(again) as db:
            assert dict(db.items()) == expected
            assert db.verify().problems == ()
        store = open_toy(path)
        assert dict(store.scan()) == expected
        store.close()
        if ended:
            break
    assert ended
    assert steps > 3


def damaged_store(path: Path) -> None:
    """One table of several blocks, and a log with a synced part."""
    store = open_toy(path)
    for number in range(300):
        store.put(b"%05d" % number, bytes(50))
    store.flush()
    for number in range(20):
        store.put(b"more%d" % number, b"value", sync=number == 10)
    store.lock.close()


@pytest.mark.parametrize("ending", [".sst", ".log", "CURRENT", "MANIFEST-000002"])
def test_a_changed_byte_raises_path_and_offset(ending: str, tmp_path: Path) -> None:
    damaged_store(tmp_path / "db")
    expected = read_all(tmp_path / "db")
    (name,) = [path.name for path in (tmp_path / "db").iterdir() if path.name.endswith(ending)]
    size = (tmp_path / "db" / name).stat().st_size
    raised = 0
    for offset in [*range(0, size, max(1, size // 60)), *range(max(0, size - 72), size, 5)]:
        copy = shutil.copytree(tmp_path / "db", tmp_path / "copy")
        flip(copy / name, offset)
        try:
            found = read_all(copy)
        except toy_bytes.CorruptionError as error:
            assert error.path.parent == copy
            assert 0 <= error.offset <= size
            raised += 1
        else:  # writes that were never synced, of which nobody can tell; or the copy of a filter
            assert ending in (".log", "MANIFEST-000002", ".sst")
            assert found.items() < expected.items() or ending != ".log"
            assert found == expected or ending != ".sst"
        shutil.rmtree(copy)
    assert raised > 20


def test_a_block_is_read_whatever_became_of_the_filter_beside_it(tmp_path: Path) -> None:
    damaged_store(tmp_path / "db")
    expected, (path,) = read_all(tmp_path / "db"), (tmp_path / "db").glob("*.sst")
    store = open_toy(tmp_path / "db")
    flip(path, store.tables[0].tail.lines[1].start - 33)  # before the trailer of 32 bytes
    assert {key: store.get(key) for key in expected} == expected
    store.close()


@pytest.mark.parametrize("ending", [".sst", ".log"])
def test_a_file_that_was_cut_raises_path_and_offset(ending: str, tmp_path: Path) -> None:
    damaged_store(tmp_path / "db")
    open_toy(tmp_path / "db").close()  # which notes where the log ends
    (name,) = [path.name for path in (tmp_path / "db").iterdir() if path.name.endswith(ending)]
    size = (tmp_path / "db" / name).stat().st_size
    for length in [*range(0, size, max(1, size // 60)), size - 1]:
        copy = shutil.copytree(tmp_path / "db", tmp_path / "copy")
        cut(copy / name, length)
        with pytest.raises(toy_bytes.CorruptionError) as caught:
            read_all(copy)
        assert caught.value.path == copy / name
        assert 0 <= caught.value.offset <= length
        shutil.rmtree(copy)


def test_a_torn_tail_is_dropped_and_what_follows_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = open_toy(path)
    for number in range(10):
        store.put(b"%d" % number, b"value")
    store.lock.close()
    cut(store.log.path, store.log.end - 3)
    store = open_toy(path)
    store.put(b"new", b"value")
    store.lock.close()
    expected = [*(b"%d" % number for number in range(9)), b"new"]
    assert list(read_all(path)) == expected
    with lsmkv.open(path) as db:
        assert list(db.items()) == [(key, b"value") for key in expected]


def test_a_record_behind_a_torn_one_never_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = open_toy(path)
    ends = []
    for key, value in ((b"a", b"value"), (b"b", b"value" + bytes(17)), (b"c", b"value")):
        store.put(key, value)
        ends.append(store.log.end)
    store.lock.close()
    flip(store.log.path, ends[0] + 20)
    store = open_toy(path)
    store.put(b"B", b"value")  # with the mark before it just as long as the record of b
    store.lock.close()
    assert store.log.end == ends[1]
    assert list(read_all(path)) == [b"B", b"a"]


@pytest.mark.parametrize("synced", [False, True])
def test_a_log_behind_a_lost_tail_is_dropped_unless_it_was_synced(
    synced: bool, tmp_path: Path
) -> None:
    path = tmp_path / "db"
    store = open_toy(path)
    store.put(b"a", b"1")
    store.put(b"b", b"2")
    first, store.log = store.log, toy.new_log(path / "000003.log", toy.WRITES, store.log)
    store.put(b"c", b"3", sync=synced)
    store.put(b"d", b"4")
    store.lock.close()
    cut(first.path, first.end - 1)
    if synced:
        with pytest.raises(toy_bytes.CorruptionError, match=r"000003\.log"):
            open_toy(path)
        with pytest.raises(lsmkv.CorruptionError):
            lsmkv.open(path)
    else:
        with lsmkv.open(path, read_only=True) as db:
            assert dict(db) == {b"a": b"1"}
        assert read_all(path) == {b"a": b"1"}
        assert not (path / "000003.log").exists()


def test_damage_before_a_sync_mark_is_told_from_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = open_toy(path)
    store.put(b"a", b"1", sync=True)
    store.put(b"b", b"2")
    store.lock.close()
    flip(store.log.path, 70)
    with pytest.raises(toy_bytes.CorruptionError) as caught:
        open_toy(path)
    assert (caught.value.path, caught.value.offset) == (store.log.path, 56)


def test_a_synced_write_is_guarded_by_a_mark_after_a_reopening_too(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = open_toy(path)
    store.put(b"a", b"1", sync=True)
    store.lock.close()
    store = open_toy(path)
    store.put(b"b", b"2")
    store.lock.close()
    flip(store.log.path, 70)
    with pytest.raises(toy_bytes.CorruptionError, match="offset 56: a record is damaged"):
        open_toy(path)
    with pytest.raises(lsmkv.CorruptionError):
        lsmkv.open(path)


def test_an_opening_that_fails_removes_no_table(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = open_toy(path)
    store.put(b"a", b"1")
    store.compact()
    first = store.tables[0].path
    store.put(b"b", b"2")
    store.compact()
    store.lock.close()
    flip(store.manifest.path, store.manifest.end - 1)  # this cannot be told from a torn tail
    (table,) = path.glob("*.sst")
    with pytest.raises(toy_bytes.CorruptionError, match="this table is missing") as caught:
        open_toy(path)
    assert caught.value.path == first
    assert table.exists()


@pytest.mark.parametrize("is_closed", [False, True])
def test_after_an_error_of_the_disk_no_write_is_taken_and_none_that_was_is_lost(
    is_closed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, fsync, pwrite = [0], os.fsync, os.pwrite

    def failing_fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("the disk is out of order")
        fsync(descriptor)

    def short_pwrite(descriptor: int, data: bytes, offset: int) -> int:
        left[0] -= 1
        return pwrite(descriptor, data[: 20 if left[0] == 0 else None], offset)

    monkeypatch.setattr(os, "fsync", failing_fsync)
    monkeypatch.setattr(os, "pwrite", short_pwrite)
    for steps in range(1, 100):
        path, kept, refused = tmp_path / f"{steps}", set[bytes](), list[str]()
        left[0] = 0
        store = open_toy(path)
        left[0] = steps
        for number in range(6):
            try:
                if number in (2, 3):
                    store.flush()
                if number == 4:
                    store.compact()
                store.put(b"%d" % number, b"", sync=True)
                kept.add(b"%d" % number)
            except OSError:
                pass
            except toy_bytes.RefusedError as error:
                refused.append(str(error))
        with suppress(OSError):
            store.close() if is_closed else store.lock.close()
        ended, left[0] = left[0] > 0, 0
        again = shutil.copytree(path, tmp_path / f"{steps} by lsmkv")
        assert read_all(path).keys() >= kept
        with lsmkv.open(again) as db:
            assert set(db) >= kept
        assert all(f"{path}: a write failed" in said for said in refused)
        if ended:
            break
    assert ended
    assert steps > 30


class Power:
    """What a power failure leaves: bytes of files and names in directories, as of their last sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[int, bytes] = {}
        self.names: dict[int, dict[str, int]] = {}
        self.sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.note)

    def note(self, descriptor: int) -> None:
        path, inode = Path(os.readlink(f"/proc/self/fd/{descriptor}")), os.fstat(descriptor).st_ino
        if path.is_dir():
            self.names[inode] = {each.name: each.stat().st_ino for each in path.iterdir()}
        else:
            self.files[inode] = path.read_bytes()

    def fails(self, root: Path, into: Path) -> None:
        """Copy to ``into`` what is left of ``root``."""
        into.mkdir()
        for name, inode in self.names.get(root.stat().st_ino, {}).items():
            (into / name).mkdir()
            for file, of_file in self.names.get(inode, {}).items():
                (into / name / file).write_bytes(self.files.get(of_file, b""))


def test_what_was_synced_outlives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power, root = Power(monkeypatch), tmp_path / "root"
    root.mkdir()
    store = open_toy(root / "db")
    for number in range(12):
        store.put(b"%d" % number, b"unsynced")
        if number == 4:
            store.flush()
        if number == 8:
            store.compact()
        if number in (2, 6, 10):
            store.lock.close()  # a kill
            store = open_toy(root / "db")
        store.put(b"%d" % number, b"synced", sync=True)
        power.fails(root, tmp_path / f"{number}")
        found = read_all(tmp_path / f"{number}" / "db")
        assert found == {b"%d" % each: b"synced" for each in range(number + 1)}
    store.close()
