"""Several calls of close() at once: one closes the store, the others wait for it, and none hangs."""

from __future__ import annotations

import gc
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lsmkv
import lsmkv.dbm
from gates import WAIT_S, GatedStorage
from leaks import our_threads
from lsmkv.storage.storage import RandomFile, Storage
from threaded_stores import open_store, run_all, wait_until
from time_limits import in_time

SOON_S = 0.05


class Held:
    """A store with a write, whose close the thread ``closer`` begins, and ends once it ``goes_on``."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.storage = GatedStorage(suffix=".log", thread="lsmkv-close")
        self.db = open_store(path, storage=self.storage, **options)
        self.db[b"key"] = b"value"
        self._thread = threading.Thread(target=self.db.close, name="closer", daemon=True)
        self.storage.shut()

    def begin(self) -> None:
        self._thread.start()
        assert self.storage.held_up.wait(WAIT_S)

    def go_on_soon(self) -> None:
        threading.Timer(SOON_S, self.storage.open_up).start()

    def end(self) -> None:
        self.storage.open_up()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def held(path: Path) -> Iterator[Held]:
    held = Held(path)
    held.begin()
    yield held
    held.end()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has threads of stores wait less for others; compiled code does not ask."""
    monkeypatch.setattr("lsmkv.engine.engine._PATIENCE_S", 0.01)


def assert_free(path: Path) -> None:
    """Open the store again; LockedError if it is not closed yet."""
    with lsmkv.open(path) as db:
        assert db[b"key"] == b"value"


CLOSES: dict[str, Callable[[lsmkv.DB], object]] = {
    "close": lambda db: db.close(),
    "with": lambda db: db.__exit__(),
    "dbm": lambda db: lsmkv.dbm.Database(db).close(),
}


@pytest.mark.parametrize("close", CLOSES)
def test_close_waits_for_that_of_another_thread(held: Held, close: str) -> None:
    held.go_on_soon()
    CLOSES[close](held.db)
    assert_free(held.path)


def test_close_waits_for_that_of_a_callback(path: Path) -> None:
    storage = GatedStorage(suffix=".log", thread="lsmkv-flush")

    def on_event(event: lsmkv.Event) -> None:
        db[b"more"] = b""  # so that the log has something to sync
        storage.shut()
        db.close()

    db = open_store(path, storage=storage, on_event=on_event)
    db[b"key"] = b"value"
    with suppress(lsmkv.ClosedError):
        db.flush()
    assert storage.held_up.wait(WAIT_S)
    threading.Timer(SOON_S, storage.open_up).start()
    in_time(db.close)
    assert_free(path)


@pytest.mark.parametrize("background", ["thread", "process"])
def test_a_callback_may_close_a_store_whose_close_waits_for_it(path: Path, background: str) -> None:
    inside = threading.Event()

    def on_event(event: lsmkv.Event) -> None:
        inside.set()
        wait_until(lambda: db._state.is_ending)
        db.close()

    options = {"background": background, "process_job_size_bytes": 0}
    db = open_store(path, on_event=on_event, **options)
    db[b"key"] = b"value"
    db.flush()
    assert inside.wait(WAIT_S)
    in_time(db.close)
    assert_free(path)


def test_every_thread_of_a_store_may_close_it_at_once(path: Path) -> None:
    together = threading.Barrier(3)

    def on_event(event: lsmkv.Event) -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait(WAIT_S)
        db.close()

    db = open_store(path, level0_compaction_trigger=1, on_event=on_event)

    def write() -> None:  # the flusher tells of a flush, and the compactor of a compaction
        with suppress(lsmkv.ClosedError):
            db[b"key"] = b"value"
            db.flush()
            db.wait_until_settled()

    def close() -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait(WAIT_S)
        db.close()
        together.abort()
        assert_free(path)

    run_all(write, close)


@pytest.mark.usefixtures("impatient")
def test_callbacks_of_two_stores_may_close_the_other(tmp_path: Path) -> None:
    together = threading.Barrier(2)
    stores: list[lsmkv.DB] = []

    def open_one(number: int) -> lsmkv.DB:
        def on_event(event: lsmkv.Event) -> None:
            together.wait(WAIT_S)
            stores[1 - number].close()

        return open_store(tmp_path / str(number), on_event=on_event)

    def use(db: lsmkv.DB) -> None:
        db[b"key"] = b"value"
        with suppress(lsmkv.ClosedError):
            db.flush()
        wait_until(lambda: db._state.is_ending)
        db.close()
        assert_free(Path(db.path))

    stores += [open_one(0), open_one(1)]
    run_all(lambda: use(stores[0]), lambda: use(stores[1]))


def test_the_threads_of_a_read_only_store_may_close_it(path: Path) -> None:
    """That which refreshes it, and that of the log, beside the program's."""
    handled = threading.Event()

    class Closing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            db.close()
            handled.set()

    logger, handler = logging.getLogger("lsmkv"), Closing()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    try:
        with open_store(path) as writer:
            db = lsmkv.open(
                path, read_only=True, refresh_every_s=0.01, on_event=lambda event: db.close()
            )
            writer[b"key"] = b"value"
            assert handled.wait(WAIT_S)
            in_time(db.close)
        wait_until(lambda: not our_threads())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


# Finalizers, signal handlers, interrupts, failures


@pytest.fixture
def at_alarm() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Has a function called soon by a signal handler."""
    before = signal.getsignal(signal.SIGALRM)

    def soon(action: Callable[[], object]) -> None:
        signal.signal(signal.SIGALRM, lambda number, frame: action())
        signal.setitimer(signal.ITIMER_REAL, SOON_S)

    yield soon
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_inside_a_close_does_not_wait_for_it(
    path: Path, at_alarm: Callable[[Callable[[], object]], None]
) -> None:
    storage = GatedStorage(suffix=".log", thread=threading.current_thread().name)
    db = open_store(path, storage=storage)
    db[b"key"] = b"value"
    storage.shut()

    def handle() -> None:
        db.close()
        storage.open_up()

    at_alarm(handle)
    db.close()
    assert_free(path)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_ends_the_wait_for_another_close(
    held: Held, at_alarm: Callable[[Callable[[], object]], None]
) -> None:
    at_alarm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        held.db.close()
    held.go_on_soon()
    held.db.close()
    assert_free(held.path)


def test_a_waiting_close_finishes_one_that_an_interrupt_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_store(path)
    db[b"key"] = b"value"
    began, goes_on = threading.Event(), threading.Event()
    stop = db._engine.background.stop

    def interrupted() -> None:
        if began.is_set():
            stop()
            return
        began.set()
        assert goes_on.wait(WAIT_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(db._engine.background, "stop", interrupted)

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            db.close()

    def second() -> None:
        assert began.wait(WAIT_S)
        threading.Timer(SOON_S, goes_on.set).start()
        db.close()
        assert_free(path)

    run_all(first, second)


class Garbage:
    """What only the collector frees, and what closes a store then."""

    def __init__(self, db: lsmkv.DB) -> None:
        self._db = db
        self._me = self

    def __del__(self) -> None:
        self._db.close()


@pytest.mark.usefixtures("impatient")
def test_a_finalizer_in_a_job_leaves_closing_to_another_thread(path: Path) -> None:
    """The job holds locks, and must go on before the store can be closed."""
    collected = threading.Event()

    class Collecting(Storage):
        def _random_file(self, *arguments: Any) -> RandomFile:
            if threading.current_thread().name == "lsmkv-flush" and not collected.is_set():
                Garbage(db)
                gc.collect()
                collected.set()
            return super()._random_file(*arguments)

    db = open_store(path, storage=Collecting())
    db[b"key"] = b"value"
    with suppress(lsmkv.ClosedError):
        in_time(db.flush)
    assert collected.wait(WAIT_S)
    in_time(db.close)
    assert_free(path)
