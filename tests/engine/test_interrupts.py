"""An interrupt (Ctrl-C) at any place: nothing hangs, nothing is lost, nothing stays open."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import contents, fill, number_key, open_small

import lsmkv
from gates import WAIT_S, GatedStorage
from interruptions import at_each_place
from leaks import open_descriptors, our_threads
from lsmkv.background import handles
from lsmkv.background.worker import Worker
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.block_cache import PLACE_BYTES, BlockCache, CacheItem
from lsmkv.stats import Stats
from lsmkv.storage.storage import Storage
from lsmkv.storage.store_lock import lock_store
from storages import FaultyStorage
from threaded_stores import wait_until
from time_limits import in_time

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(
        sys.version_info >= (3, 14),
        reason="there Python may be interrupted between a lock and the block that it is taken for",
    ),
]


def some_slow(kinds: Iterable[str], *slow: str) -> list[Any]:
    """The kinds as parameters; slow ones have many places to interrupt."""
    return [pytest.param(kind, marks=pytest.mark.slow if kind in slow else ()) for kind in kinds]


@pytest.fixture(params=[11, pytest.param(1, marks=pytest.mark.slow)])
def stride(request: pytest.FixtureRequest) -> int:
    """The step between tried places in slow cases; 1 in a slow test."""
    return int(request.param)


def works(db: lsmkv.DB) -> Callable[[], None]:
    """A check that any store must pass after an interrupt."""

    def check() -> None:
        db.put(b"after", b"", sync=True)
        db.flush()

    return check


def fill_up(db: lsmkv.DB) -> None:
    for _ in range(2):
        db.put(b"a", b"new" * 3000)


WRITES: dict[str, Callable[[lsmkv.DB], object]] = {
    "put": partial(lsmkv.DB.put, key=b"a", value=b"new"),
    "synced": partial(lsmkv.DB.put, key=b"a", value=b"new", sync=True),
    "delete": partial(lsmkv.DB.delete, key=b"a"),
    "full": fill_up,
}


@pytest.mark.parametrize("kind", some_slow(WRITES, "full", "delete"))
def test_an_interrupted_write_is_done_or_not_and_the_store_works(path: str, kind: str) -> None:
    with open_small(path) as db:
        write = WRITES[kind]
        write(db)
        new = db.get(b"a")
        db.put(b"a", b"old")

        def check() -> None:
            works(db)()
            found = db.get(b"a")
            assert found in (b"old", new)
            db.put(b"a", b"old")

        assert at_each_place(lambda: write(db), check)
    assert contents(path) == {b"a": b"old", b"after": b""}


def test_an_interrupted_batch_is_written_as_a_whole_or_not_at_all(path: str, stride: int) -> None:
    numbers = range(30)

    def write(db: lsmkv.DB, value: bytes) -> None:
        with db.write_batch(sync=True) as batch:
            for number in numbers:
                batch.put(number_key(number), value)

    with open_small(path) as db, db.snapshot():  # with a snapshot batches keep replaced values
        write(db, b"old")

        def check() -> None:
            works(db)()
            assert len({db[number_key(number)] for number in numbers}) == 1
            write(db, b"old")

        assert at_each_place(lambda: write(db, b"new"), check, stride=stride)
    assert contents(path) == {b"after": b"", **{number_key(number): b"old" for number in numbers}}


UPKEEP: dict[str, Callable[[lsmkv.DB], object]] = {
    "flush": lambda db: db.flush(),
    "sync": lambda db: db.sync(),
    "compact": lambda db: db.compact_range(force=True),
    "settle": lambda db: db.wait_until_settled(),
    "snapshot": lambda db: db.snapshot().close(),
}


@pytest.mark.parametrize("kind", some_slow(UPKEEP, "compact", "flush"))
def test_the_store_works_after_upkeep_was_interrupted(path: str, kind: str) -> None:
    with open_small(path) as db:
        expected = fill(db, range(100))

        def work() -> None:
            db.put(b"filling", b"")
            UPKEEP[kind](db)

        assert at_each_place(work, works(db))
        assert db.memory_usage().snapshot_versions == 0
        assert dict(db.items(prefix=b"key")) == expected
    assert contents(path) == {**expected, b"filling": b"", b"after": b""}


def test_a_store_that_failed_is_resumed_after_an_interrupted_resume(path: str, stride: int) -> None:
    with open_small(path) as db:
        db.put(b"a", b"1")

        def resume() -> None:
            db._state.work_failed(OSError("mended meanwhile"))
            db.resume()

        def check() -> None:
            db.resume()
            works(db)()

        assert at_each_place(resume, check, stride=stride)
    assert contents(path) == {b"a": b"1", b"after": b""}


def test_a_cache_that_is_interrupted_knows_what_it_holds() -> None:
    cache = BlockCache(100, Stats())
    slots = cache.slots(50)
    places = iter(range(10**6))

    def put() -> None:
        for _ in range(2):
            place = next(places) % 50
            cache.get(slots, place)
            cache.put(slots, place, CacheItem(30 - PLACE_BYTES))

    def check() -> None:
        held = [place for place, item in enumerate(slots.items) if item is not None]
        assert sorted([*cache._small, *cache._main]) == held
        main = [slots.items[place] for place in cache._main]
        assert cache._main_bytes == sum(item.charge_bytes for item in main if item)
        assert cache._left_bytes == sum(cache._left.values())
        assert cache.used_bytes == 30 * len(held) <= 100

    assert at_each_place(put, check)


@pytest.mark.parametrize("count", [2, 300])
def test_a_memtable_that_is_interrupted_while_it_orders_keys_has_all_of_them(count: int) -> None:
    memtable = Memtable(1, 1)
    numbers = iter(range(10**9, 0, -7))
    keys: list[bytes] = []

    def read() -> None:
        for _ in range(count):
            keys.append(b"%09d" % next(numbers))
            memtable.put(keys[-1], b"", 1, False)
        memtable.keys_beyond(None, True, 5, False)

    def check() -> None:
        assert memtable.keys_beyond(None, True, len(keys), False) == sorted(
            key for key in keys if memtable.get(key) == b""
        )

    assert at_each_place(read, check, stride=count // 2 + 1)


def test_closing_again_ends_an_interrupted_close(path: str, stride: int) -> None:
    opened: list[lsmkv.DB] = [open_small(path)]
    before = open_descriptors()

    def close() -> None:
        opened[-1].put(b"a", b"1")
        opened[-1].close()

    def check() -> None:
        opened.pop().close()
        opened.append(open_small(path))
        assert opened[0][b"a"] == b"1"

    opened[0].put(b"a", b"1")
    assert at_each_place(close, check, stride=stride)
    opened.pop().close()
    assert not our_threads()
    assert len(open_descriptors()) < len(before)


def test_an_interrupted_opening_leaves_nothing_open(path: str, stride: int) -> None:
    with open_small(path) as db:
        fill(db, range(100))
    before = open_descriptors()
    opened: list[lsmkv.DB] = []

    def reopen() -> None:
        for db in opened:
            db.close()
        opened.clear()
        gc.collect()
        assert open_descriptors() == before
        with open_small(path) as db:
            assert len(db) == 100

    assert at_each_place(lambda: opened.append(open_small(path)), reopen, stride=4 * stride - 3)


def test_an_interrupted_opening_of_a_reader_leaves_nothing_open(path: str, stride: int) -> None:
    with open_small(path) as db:
        fill(db, range(100))
    before, watched = open_descriptors(), len(handles._watched)
    opened: list[lsmkv.DB] = []

    def check() -> None:
        for db in opened:
            db.close()
        opened.clear()
        wait_until(lambda: len(handles._watched) == watched and not our_threads())
        assert open_descriptors() == before

    def read() -> None:
        opened.append(open_small(path, read_only=True, refresh_every_s=60.0))

    assert at_each_place(read, check, stride=stride)


def assert_free(path: str) -> None:
    """The store is unlocked soon, without any help of the cyclic collector."""
    lock_store(Storage(), path, wait_s=WAIT_S).release()
    wait_until(lambda: not our_threads())


@pytest.fixture
def no_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # pytest's keeps the exceptions of finalizers, and so what these are to end.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_an_interrupt_while_a_failed_opening_is_undone_leaves_no_lock(
    path: str, stride: int
) -> None:
    """As a second interrupt would come: the first one made the opening fail."""
    with open_small(path) as db:
        fill(db, range(100))
    storage = FaultyStorage()

    def fail() -> None:
        with contextlib.suppress(OSError):
            open_small(path, storage=storage)

    for operation in ("create", "replace"):
        storage.fail(operation, times=None)
        assert at_each_place(fail, lambda: assert_free(path), stride=stride)
        storage.heal()
    assert len(contents(path)) == 100


CLOSING: dict[str, Callable[[lsmkv.DB], object]] = {
    "close": lambda db: db.close(),
    "with": lambda db: db.__exit__(),
    "drop": lambda db: None,
}


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("kind", CLOSING)
def test_a_handle_whose_close_is_interrupted_and_that_is_dropped_is_closed(
    path: str, kind: str, stride: int
) -> None:
    opened: list[lsmkv.DB] = []

    def open_it() -> None:
        opened.clear()  # the first interrupt comes before it is taken out
        assert_free(path)
        opened.append(open_small(path))
        opened[0].put(b"a", b"1")

    def close() -> None:
        CLOSING[kind](opened.pop())

    opened.append(open_small(path))
    assert at_each_place(close, open_it, stride=stride)
    opened.pop().close()
    assert contents(path) == {b"a": b"1"}


def test_a_close_goes_on_after_an_interrupt_though_the_handle_is_kept(path: str) -> None:
    storage = GatedStorage(suffix=".log", thread="lsmkv-close")
    db = open_small(path, storage=storage)
    db.put(b"a", b"1")
    storage.shut()

    def interrupt() -> None:
        assert storage.held_up.wait(WAIT_S)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        db.close()
    thread.join(WAIT_S)
    assert db.closed
    storage.open_up()
    assert_free(path)
    assert contents(path) == {b"a": b"1"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("act", ["open", "read", "close", "with", "destroy", "repair", "backup"])
def test_no_number_of_interrupts_leaves_the_store_locked(
    path: str, tmp_path: Path, count: int, act: str
) -> None:
    dice, left, gap_s = random.Random(count), 0, 0.0

    def handler(_signal: int, frame: FrameType | None) -> None:
        nonlocal left
        if left:  # one comes after the other, or a quick timer would nest these calls
            signal.setitimer(signal.ITIMER_REAL, gap_s)
        while frame is not None and frame.f_code is not interrupted.__code__:
            frame = frame.f_back
        if left and frame is not None:
            left -= 1
            raise KeyboardInterrupt

    def interrupted() -> None:
        work()

    def work() -> None:
        if act == "open":
            open_small(path)
        elif act == "read":
            open_small(path, read_only=True, refresh_every_s=60.0)
        elif act == "with":
            with open_small(path) as db:
                db.put(b"a", b"1")
        elif act == "close":
            db = open_small(path)
            db.close()
        elif act == "destroy":
            lsmkv.destroy(path)
        elif act == "repair":
            lsmkv.repair(path, in_place=True)
        else:
            with open_small(path) as db:
                db.checkpoint(tmp_path / "copy")
                lsmkv.backup(path, tmp_path / "copy")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        began = time.monotonic()
        with contextlib.suppress(lsmkv.Error, OSError):
            work()
        took_s = time.monotonic() - began
        for _ in range(100):
            gc.collect()
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            if act == "destroy":  # half of it may have been done
                shutil.rmtree(path, ignore_errors=True)
            open_small(path).close()
            left = count
            gap_s = max(5e-5, dice.random() ** 3 * 0.01)
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, dice.random() * took_s))
            with contextlib.suppress(KeyboardInterrupt, lsmkv.Error, OSError):
                interrupted()
            left = 0
            signal.setitimer(signal.ITIMER_REAL, 0)
            Path(path).mkdir(exist_ok=True)
            assert_free(path)
    finally:
        left = 0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["create", "open_append", "open_random", "lock"])
def test_an_interrupt_while_a_file_is_opened_leaves_no_descriptor(path: str, kind: str) -> None:
    storage = Storage()
    with storage.create(path) as file:
        file.append(b"contents")
    before = open_descriptors()

    def open_and_close() -> None:
        if kind == "create":
            storage.remove(path)
            storage.create(path).close()
        elif kind == "open_append":
            storage.open_append(path, 0).close()
        elif kind == "open_random":
            storage.open_random(path)  # the last reference closes it
        else:
            storage.lock(path).release()

    def check() -> None:
        gc.collect()
        assert open_descriptors() == before

    assert at_each_place(open_and_close, check)


class Rounds:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return False


def test_a_worker_does_its_work_after_an_interrupted_wake() -> None:
    workers: list[Any] = []
    rounds = Rounds()

    def start() -> None:
        workers.append(Worker("lsmkv-test", rounds, lambda error: None))
        workers[-1].wake()

    def check() -> None:
        count = rounds.count
        if workers:
            worker = workers.pop()
            worker.wake()
            worker.wait_idle()
            assert rounds.count > count
            worker.stop()

    assert at_each_place(start, check)
    assert not our_threads()


def test_a_worker_ended_by_an_exception_reports_it_and_starts_again() -> None:
    errors: list[BaseException] = []
    rounds = Rounds()

    def job() -> bool:
        if rounds() or rounds.count > 1:
            return False
        raise SystemExit

    def failed(error: BaseException) -> None:
        errors.append(error)
        if len(errors) == 1:
            raise KeyboardInterrupt  # as if another thread had set it

    worker = Worker("lsmkv-test", job, failed)
    worker.wake()
    worker.wait_idle()
    assert [type(error) for error in errors] == [SystemExit, KeyboardInterrupt]
    worker.wake()
    worker.wait_idle()
    assert rounds.count == 2
    worker.stop()
    assert threading.active_count() >= 1 and not our_threads()


class SetFromOutside(BaseException):
    """An exception that another thread sets in a worker's thread."""


@pytest.mark.parametrize("writes", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_exceptions_that_are_set_in_workers_stop_the_store_or_do_no_harm(
    path: str, writes: int
) -> None:
    """Nothing hangs, and a store that has stopped can be resumed."""
    expected = {}
    dice = random.Random(1)
    with open_small(path, level0_compaction_trigger=2) as db:
        db.put(b"first", b"")
        db.flush()

        def work() -> None:
            for number in range(writes):
                with contextlib.suppress(lsmkv.BackgroundError):
                    db.put(number_key(number % 40), b"%d" % number * 100)
                    expected[number_key(number % 40)] = b"%d" % number * 100
                    for thread in our_threads():
                        time.sleep(dice.random() * 0.003)
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SetFromOutside)
                        )
                    db.flush()
                resume()

        def resume() -> None:
            while db._state.failure is not None:
                with contextlib.suppress(lsmkv.BackgroundError):
                    db.resume()

        def last_ones() -> None:
            """A worker that waits meets what was set in it once something wakes it."""
            for _ in our_threads():
                with contextlib.suppress(lsmkv.BackgroundError):
                    db.put(b"last", b"")  # it is refused if the store has stopped again meanwhile
                    expected[b"last"] = b""
                    db.flush()
                    db.wait_until_settled()
                resume()

        in_time(work)
        in_time(last_ones)
        in_time(works(db))
        expected |= {b"first": b"", b"after": b""}
        assert dict(db) == expected
        in_time(db.close)
    assert contents(path) == expected
