"""The lock of a storage: against other processes, other calls, and forked children."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leaks import open_descriptors
from lsmkv.errors import LockedError
from lsmkv.storage.storage import Storage


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.sst")


HOLDER = """
import os, sys
from lsmkv.storage.storage import Storage
lock = Storage().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    if process.poll() is None:
        process.communicate()
    process.stdout.close()


def test_lock_held_by_another_process_names_its_pid(
    path: str, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(LockedError) as caught:
        Storage().lock(path)
    assert (caught.value.path, caught.value.pid) == (os.path.dirname(path), holder.pid)


def test_lock_is_free_after_its_holder_was_killed(path: str, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    Storage().lock(path).release()


def test_lock_excludes_other_calls_in_the_same_process(path: str) -> None:
    storage = Storage()
    lock = storage.lock(path)
    with pytest.raises(LockedError) as caught:
        storage.lock(path)
    assert caught.value.pid == os.getpid()
    lock.release()
    storage.lock(path).release()


def test_lock_with_an_unreadable_pid_names_none(path: str) -> None:
    lock = Storage().lock(path)
    Path(path).write_bytes(b"\xff not a number")
    with pytest.raises(LockedError) as caught:
        Storage().lock(path)
    assert caught.value.pid is None
    lock.release()


def test_lock_file_names_only_the_present_holder(path: str) -> None:
    Path(path).write_bytes(b"1234567890123 and more\n")
    lock = Storage().lock(path)
    assert Path(path).read_bytes() == b"%d\n" % os.getpid()
    lock.release()


def test_released_lock_file_stays(path: str) -> None:
    lock = Storage().lock(path)
    lock.release()
    lock.release()
    assert os.path.exists(path)


def test_lock_in_the_working_directory_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = Storage().lock("LOCK")
    with pytest.raises(LockedError) as caught:
        Storage().lock("LOCK")
    assert caught.value.path == "."
    lock.release()


def test_the_last_reference_releases_the_lock(path: str) -> None:
    lock = Storage().lock(path)
    del lock
    Storage().lock(path).release()


def in_forked_child(action: Callable[[], object]) -> None:
    """Run ``action`` in a forked child; fail if it raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("action", ["release", "exit"])
def test_lock_is_not_lost_to_a_forked_child(path: str, action: str) -> None:
    lock = Storage().lock(path)
    in_forked_child(lock.release if action == "release" else lambda: None)
    with pytest.raises(LockedError):
        Storage().lock(path)
    lock.release()


def test_release_frees_the_lock_even_while_a_forked_child_lives(path: str) -> None:
    lock = Storage().lock(path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    try:
        lock.release()
        Storage().lock(path).release()
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_failure_to_lock_leaves_no_descriptor(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError) as caught:
        Storage().lock(path)
    assert caught.value.errno == errno.ENOLCK
    del caught
    gc.collect()
    assert not any(path in link for link in open_descriptors())


def test_a_claimed_file_is_nobody_elses(path: str) -> None:
    storage = Storage()
    claimed = storage.claim(path, create=True)
    assert claimed is not None
    claimed.append(b"first")
    assert storage.claim(path) is None
    claimed.close()
    again = storage.claim(path)
    assert again is not None
    again.append(b", second")
    again.close()
    assert Path(path).read_bytes() == b"first, second"
