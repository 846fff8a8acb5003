"""The toy of ``examples`` after a kill, and with damaged files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
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


@pytest.mark.parametrize("work", ["flush", "compact"])
def test_a_kill_between_any_two_steps_on_disk_loses_nothing(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [0]

    def killed_before(step: Callable[..., object]) -> Callable[..., object]:
        def lived(*given: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return step(*given, **named)

        return lived

    monkeypatch.setattr(toy, "write_file", killed_before(toy.write_file))
    monkeypatch.setattr(toy.Log, "append", killed_before(toy.Log.append))
    monkeypatch.setattr(Path, "unlink", killed_before(Path.unlink))
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
        else:  # only writes that were never synced, of which nobody can tell
            assert ending in (".log", "MANIFEST-000002")
            assert found.items() < expected.items() or ending != ".log"
        shutil.rmtree(copy)
    assert raised > 20


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
    for key in (b"a", b"b", b"c"):
        store.put(key, b"value")
        ends.append(store.log.end)
    store.lock.close()
    flip(store.log.path, ends[0] + 20)
    store = open_toy(path)
    store.put(b"B", b"value")  # just as long as the record of b
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
