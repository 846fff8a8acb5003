"""Opening a store for writing while another handle has it: the wait, its end, its interrupt."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import open_small

import lsmkv
from commands import fail, succeed
from gates import WAIT_S
from leaks import open_descriptors
from lsmkv.runtime import Opened
from lsmkv.storage import store_lock
from lsmkv.storage.storage import Storage
from other_processes import HOLDER, line_of, process


class Looking(Storage):
    def __init__(self) -> None:
        super().__init__()
        self.was_refused = threading.Event()

    def lock(self, path: str) -> Any:
        try:
            return super().lock(path)
        except lsmkv.LockedError:
            self.was_refused.set()
            raise


def open_waiting(path: str, wait_s: float, storage: Storage) -> lsmkv.DB:
    return lsmkv.open(path, wait_s=wait_s, storage=storage)


@pytest.mark.parametrize("wait_s", [WAIT_S, math.inf])
def test_an_opening_waits_until_another_process_closes_the_store(path: str, wait_s: float) -> None:
    storage = Looking()
    found: list[bytes | None] = []

    def wait_and_read() -> None:
        with open_waiting(path, wait_s, storage) as db:
            found.append(db.get(b"key"))

    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        waiting = threading.Thread(target=wait_and_read)
        waiting.start()
        assert storage.was_refused.wait(WAIT_S)
        holder.communicate("\n", timeout=WAIT_S)
        waiting.join(WAIT_S)
    assert found == [b"value"]


def test_an_opening_waits_for_a_handle_of_its_own_process(path: str) -> None:
    storage = Looking()
    db = open_small(path)
    opened: list[lsmkv.DB] = []
    waiting = threading.Thread(target=lambda: opened.append(open_waiting(path, WAIT_S, storage)))
    waiting.start()
    assert storage.was_refused.wait(WAIT_S)
    db.close()
    waiting.join(WAIT_S)
    opened[0].close()


@pytest.mark.parametrize("wait_s", [0, 0.0, 0.03])
def test_the_error_comes_after_the_wait(path: str, wait_s: float) -> None:
    with open_small(path), pytest.raises(lsmkv.LockedError) as caught:
        began = time.monotonic()
        try:
            lsmkv.open(path, wait_s=wait_s)
        finally:
            waited = time.monotonic() - began
    assert waited >= wait_s
    assert caught.value.pid == os.getpid()


def test_who_opens_a_store_again_comes_after_those_who_wait(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock, "_LONG_WAIT_S", WAIT_S)  # a busy machine may stop the first
    order: list[str] = []
    db = open_small(path)
    storage = Looking()

    def wait() -> None:
        with open_waiting(path, WAIT_S, storage):
            order.append("first")

    for _ in range(10):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert storage.was_refused.wait(WAIT_S)
        db.close()
        db = open_waiting(path, WAIT_S, Storage())
        order.append("again")
        waiting.join(WAIT_S)
        storage.was_refused.clear()  # not before: it may have been refused again meanwhile
    db.close()
    assert order == ["first", "again"] * 10


def test_a_stopped_process_that_waits_keeps_nobody_from_the_lock(path: str) -> None:
    db = open_small(path)
    with process(WAITER, path) as waiter:
        assert line_of(waiter) == "refused"
        waiter.send_signal(signal.SIGSTOP)
        db.close()
        open_waiting(path, WAIT_S, Storage()).close()


def test_a_wait_that_ends_leaves_no_descriptor_and_no_place(path: str) -> None:
    with open_small(path):
        before = open_descriptors()
        for _ in range(3):
            with pytest.raises(lsmkv.LockedError):
                lsmkv.open(path, wait_s=0.01)
        assert open_descriptors() == before
        place = Storage().first_place(path)
        assert place is not None
        place.release()


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_directory_that_cannot_be_locked_has_no_first(
    path: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    open_waiting(path, WAIT_S, Storage()).close()
    with open_small(path), pytest.raises(lsmkv.LockedError):
        lsmkv.open(path, wait_s=0.01)


def test_a_reader_does_not_wait(path: str) -> None:
    with open_small(path), lsmkv.open(path, read_only=True, wait_s=math.inf) as reader:
        assert reader.read_only


WAITER = """
from lsmkv.storage.storage import Storage

class Telling(Storage):
    def lock(self, path):
        try:
            return super().lock(path)
        except lsmkv.LockedError:
            print("refused", flush=True)
            raise

try:
    lsmkv.open(sys.argv[1], wait_s=1000, storage=Telling())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_ends_the_wait(path: str) -> None:
    with open_small(path) as db, process(WAITER, path) as waiter:
        assert line_of(waiter) == "refused"
        waiter.send_signal(signal.SIGINT)
        output, errors = waiter.communicate(timeout=WAIT_S)
        assert waiter.returncode == 0, errors
        assert output.endswith("interrupted\n")
        db[b"key"] = b"value"
    open_small(path).close()


@pytest.mark.parametrize("wait_s", [-1, -0.1, math.nan, True, "1", None])
def test_a_wrong_wait_is_refused(path: str, wait_s: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="wait_s"):
        lsmkv.open(path, wait_s=wait_s)
    assert not Path(path).exists()


def test_the_lock_of_a_file_that_was_removed_meanwhile_is_not_taken(path: str) -> None:
    class Late(Storage):
        """Its holder destroys the store between the opening of the lock's file and the lock."""

        times = 0

        def _open_regular(self, path: str, flags: int) -> tuple[Opened, int]:
            opened = super()._open_regular(path, flags)
            self.times += 1
            if self.times == 1:
                os.unlink(path)
            return opened

    file = f"{path}-LOCK"
    storage = Late()
    with storage.lock(file):
        assert storage.times == 2
        with pytest.raises(lsmkv.LockedError):
            Storage().lock(file)


COMMANDS = [
    ["put", "STORE", "key", "new"],
    ["delete", "STORE", "key"],
    ["compact", "STORE"],
    ["load", "STORE", "FILE"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_commands_that_write_may_wait(
    path: str, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tmp_path / "entries.jsonl"
    entries.write_text('{"key": "loaded", "value": "1"}\n')
    names = {"STORE": path, "FILE": str(entries)}
    given = [names.get(word, word) for word in command]
    db = open_small(path)
    db[b"key"] = b"value"
    assert "is open for writing" in fail(*given)
    assert "is open for writing" in fail(*given, "--wait", "0.01")
    refused = Storage.lock
    looks: list[str] = []

    def lock(storage: Storage, path: str) -> Any:
        looks.append(path)
        if len(looks) == 3:
            db.close()
        return refused(storage, path)

    monkeypatch.setattr(Storage, "lock", lock)
    succeed(*given, "--wait", "60")
    assert len(looks) == 3


def test_a_wait_below_zero_is_a_wrong_use(path: str) -> None:
    assert "--wait" in fail("put", path, "key", "value", "--wait", "-1", code=2)
