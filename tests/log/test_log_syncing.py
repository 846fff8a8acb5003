"""Syncs of logs: shared by writers, sticky failures, and the log before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gates import WAIT_S
from log_files import MARK_BYTES, contents_of, create
from lsmkv.log.writer import LogWriter
from lsmkv.storage.storage import Storage
from storages import FaultyStorage, SlowStorage
from threaded_stores import wait_until
from time_limits import join


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "000007.log"


class Gate:
    """Lets a test hold syncs back, as SlowStorage's ``sleep``.

    Each sync announces itself and then waits to be let through.
    """

    def __init__(self) -> None:
        self.open = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.count = 0

    def __call__(self, _seconds: float) -> None:
        self.count += 1
        self.arrived.release()
        assert self.open.wait(WAIT_S)


def start(*targets: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def held_back(path: Path) -> tuple[LogWriter, Gate]:
    """A log whose next sync waits at a gate."""
    gate = Gate()
    gate.open.set()
    log = create(path, SlowStorage(gate, sync_s=1.0))
    gate.open.clear()
    gate.count, gate.arrived = 0, threading.Semaphore(0)
    return log, gate


def test_writers_that_wait_during_a_sync_share_the_next_one(path: Path) -> None:
    log, gate = held_back(path)
    first = log.append(b"first")
    threads = start(lambda: log.sync_through(first))
    assert gate.arrived.acquire(timeout=WAIT_S)
    ends = [log.append(b"%d" % number) for number in range(8)]
    threads += start(*[lambda end=end: log.sync_through(end) for end in ends])
    wait_until(lambda: len(log._group.followers) == 8)
    gate.open.set()
    join(*threads)
    assert gate.count == 2
    assert log.synced == log.end


def test_synced_bytes_are_not_synced_again(path: Path) -> None:
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


@dataclass
class Pair:
    """A log with a record that is not synced, and a log that follows it."""

    storage: FaultyStorage
    before: LogWriter
    log: LogWriter


@pytest.fixture
def pair(path: Path, tmp_path: Path) -> Pair:
    storage = FaultyStorage()
    before = create(path, storage)
    before.append(b"earlier")
    log = LogWriter.create(storage, str(tmp_path / "8"), 8, "log", predecessor=before)
    return Pair(storage, before, log)


@pytest.mark.parametrize("is_empty", [False, True])
def test_syncing_a_log_first_syncs_the_one_before(pair: Pair, is_empty: bool) -> None:
    pair.log.sync_through(pair.log.end if is_empty else pair.log.append(b"later"))
    assert pair.before.synced == pair.before.end


def test_a_predecessor_that_cannot_be_synced_fails_the_sync(pair: Pair) -> None:
    pair.storage.fail("sync", path_suffix=".log")
    with pytest.raises(OSError, match="injected: sync"):
        pair.log.sync_through(pair.log.append(b"later"))
    assert pair.log.synced < pair.log.end


def reopened(path: Path, storage: Storage) -> LogWriter:
    """A log that was synced and closed with a mark, and opened again."""
    log = create(path)
    log.sync_through(log.append(b"record"))
    log.close(mark=True)
    return LogWriter.reopen(storage, contents_of(path), is_synced=True)


def test_a_mark_does_not_vouch_for_itself(path: Path) -> None:
    log = reopened(path, Storage())
    assert log.end - log.synced == MARK_BYTES


def test_the_mark_of_the_last_close_is_synced_before_a_log_that_follows(
    path: Path, tmp_path: Path
) -> None:
    before = reopened(path, Storage())
    log = LogWriter.create(Storage(), str(tmp_path / "8"), 8, "log", predecessor=before)
    log.sync_through(log.append(b"later"))
    assert before.synced == before.end


def test_the_mark_of_the_last_close_alone_needs_no_sync(path: Path) -> None:
    storage = FaultyStorage()
    log = reopened(path, storage)
    log.sync_through(log.records_end)
    assert storage.calls["sync"] == 0
    log.append(b"more")
    log.sync_through(log.records_end)
    assert log.synced == log.end


def test_an_obsolete_predecessor_needs_no_sync(pair: Pair) -> None:
    pair.before.obsolete = True
    pair.before.close()
    pair.storage.fail("sync", path_suffix=".log", times=None)
    pair.log.sync_through(pair.log.append(b"later"))
    assert pair.log.synced == pair.log.end


def test_closed_logs_release_their_predecessors(pair: Pair) -> None:
    pair.log.obsolete = True
    pair.log.close()
    assert pair.log._predecessor is None


def test_closing_waits_for_the_sync_that_runs(path: Path) -> None:
    log, gate = held_back(path)
    end = log.append(b"record")
    threads = start(lambda: log.sync_through(end))
    assert gate.arrived.acquire(timeout=WAIT_S)
    threads += start(log.close)
    wait_until(lambda: len(log._group.followers) == 1)  # otherwise it might come too late
    gate.open.set()
    join(*threads)
    assert log.synced == end


# Waiting for the writers of the last sync


def open_with_group(path: Path, group_size: int, sync_s: float) -> tuple[LogWriter, Storage]:
    """A log whose last sync served ``group_size`` writers in ``sync_s``."""
    storage = Storage()
    log = create(path, storage)
    log._group.group_size, log._sync_s = group_size, sync_s
    return log, storage


def test_a_sync_waits_for_the_writers_of_the_one_before(path: Path) -> None:
    log, storage = open_with_group(path, 3, 2 * WAIT_S)
    ends = [log.append(b"%d" % number) for number in range(3)]
    join(*start(*[lambda end=end: log.sync_through(end) for end in ends]))
    assert storage.stats.log_syncs == 1
    assert storage.stats.group_commit_size.maximum == 3


def test_a_sync_waits_at_most_one_sync_for_missing_writers(path: Path) -> None:
    log, storage = open_with_group(path, 2, 0.001)
    log.sync_through(log.append(b"record"))
    assert log.synced == log.end
    assert storage.stats.group_commit_size.maximum == 1


def test_after_a_useless_wait_syncs_do_not_wait(path: Path) -> None:
    log, storage = open_with_group(path, 2, 0.001)
    log.sync_through(log.append(b"record"))
    for _ in range(16):
        log._group.group_size, log._sync_s = 2, 2 * WAIT_S
        join(*start(lambda: log.sync_through(log.append(b"record"))))
    assert storage.stats.log_syncs == 17


def test_a_writer_alone_never_waits(path: Path) -> None:
    log = create(path)
    for _ in range(3):
        log._sync_s = 2 * WAIT_S
        join(*start(lambda: log.sync_through(log.append(b"record"))))
    assert log.synced == log.end


class Noted:
    """A leader's lock: notes the number of awaited writers, and does not wait."""

    def __init__(self, log: LogWriter) -> None:
        self.log = log
        self.found: list[int] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout >= 0:
            self.found.append(self.log._group.group_size)
        return False


def test_the_group_is_the_writers_that_waited_together(path: Path) -> None:
    log, gate = held_back(path)
    noted = Noted(log)
    log._group._group_complete = noted  # type: ignore[assignment]
    threads = start(lambda: log.sync_through(log.append(b"first")))
    assert gate.arrived.acquire(timeout=WAIT_S)
    threads += start(*[lambda: log.sync_through(log.append(b"more"))] * 4)
    wait_until(lambda: len(log._group.followers) == 4)
    gate.open.set()
    join(*threads)
    assert noted.found == [5]  # four waited while one was served
    assert (log._group.group_size, log._group.followers) == (4, [])


def test_every_writer_is_counted_once(path: Path) -> None:
    log, storage = open_with_group(path, 1, 0.0)

    turn = threading.Lock()

    def write() -> None:
        for _ in range(50):
            with turn:
                end = log.append(b"record")
            log.sync_through(end)

    join(*start(*[write] * 8))
    assert log._group.followers == []
    sizes = storage.stats.group_commit_size
    assert storage.stats.log_syncs == sizes.count <= sizes.total <= 400


class Interrupted:
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            raise KeyboardInterrupt
        return False


def test_an_interrupt_while_it_waits_for_others_leaves_the_log_as_it_was(path: Path) -> None:
    log, _ = open_with_group(path, 2, 2 * WAIT_S)
    here = log._group._group_complete
    log._group._group_complete = Interrupted()  # type: ignore[assignment]
    end = log.append(b"record")
    with pytest.raises(KeyboardInterrupt):
        log.sync_through(end)
    assert log.synced < end
    log._group._group_complete, log._group.group_size = here, 1
    join(*start(lambda: log.sync_through(end)))
    assert log.synced == end
