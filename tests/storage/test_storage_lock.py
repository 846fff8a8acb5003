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

from gates import WAIT_S
from leaks import open_descriptors
from lsmkv.errors import LockedError
from lsmkv.storage.storage import Storage
from time_limits import exit_code, started


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
    with started(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_lock_held_by_another_process_names_its_pid(
    path: str, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(LockedError) as caught:
        Storage().lock(path)
    assert (caught.value.path, caught.value.pid) == (os.path.dirname(path), holder.pid)


def test_lock_is_free_after_its_holder_was_killed(path: str, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait(WAIT_S)
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
    Path(path).write_bytes(b"lsmkv process 1234567890123\n")
    lock = Storage().lock(path)
    assert Path(path).read_bytes() == b"lsmkv process %d\n" % os.getpid()
    lock.release()


@pytest.mark.parametrize(
    "content", [b"17\n", b"\x7fELF", b"lsmkv processes", bytes(100), b"x" * 5000]
)
def test_a_lock_file_of_another_program_is_not_written_to(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    lock = Storage().lock(path)
    with pytest.raises(LockedError):
        Storage().lock(path)
    lock.release()
    assert Path(path).read_bytes() == content


def test_a_lock_file_that_a_crash_cut_short_is_written_again(path: str) -> None:
    record = b"lsmkv process 123456\n"
    for length in range(len(record) + 1):
        for content in (record[:length], record[:length].ljust(len(record), b"\0")):
            Path(path).write_bytes(content)
            Storage().lock(path).release()
            assert Path(path).read_bytes() == b"lsmkv process %d\n" % os.getpid()


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
    assert exit_code(child) == 0


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
        exit_code(child)


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
