"""An interrupt (Ctrl-C) at any place: nothing hangs, nothing is lost, nothing stays open."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

import lsmkv
from conftest import contents, fill, number_key, open_small
from interruptions import at_each_place
from leaks import open_descriptors, our_threads
from lsmkv.background.worker import Worker
from lsmkv.storage import Storage

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(
        sys.version_info >= (3, 14),
        reason="there Python may be interrupted between a lock and the block that it is taken for",
    ),
]


def works(db: lsmkv.DB) -> Callable[[], None]:
    """What any store must do after an interrupt."""

    def check() -> None:
        db.put(b"after", b"", sync=True)
        db.flush()

    return check


WRITES: dict[str, Callable[[lsmkv.DB], object]] = {
    "put": lambda db: db.put(b"a", b"new"),
    "synced": lambda db: db.put(b"a", b"new", sync=True),
    "delete": lambda db: db.delete(b"a"),
    "full": lambda db: [db.put(b"a", b"new" * 3000) for _ in range(2)],
}


@pytest.mark.parametrize("kind", WRITES)
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


def test_an_interrupted_batch_is_written_as_a_whole_or_not_at_all(path: str) -> None:
    numbers = range(30)

    def write(db: lsmkv.DB, value: bytes) -> None:
        with db.write_batch(sync=True) as batch:
            for number in numbers:
                batch.put(number_key(number), value)

    with open_small(path) as db, db.snapshot():  # for which batches keep what they replace
        write(db, b"old")

        def check() -> None:
            works(db)()
            assert len({db[number_key(number)] for number in numbers}) == 1
            write(db, b"old")

        assert at_each_place(lambda: write(db, b"new"), check)
    assert contents(path) == {b"after": b"", **{number_key(number): b"old" for number in numbers}}


UPKEEP: dict[str, Callable[[lsmkv.DB], object]] = {
    "flush": lambda db: db.flush(),
    "sync": lambda db: db.sync(),
    "compact": lambda db: db.compact_range(force=True),
    "settle": lambda db: db.wait_until_settled(),
    "snapshot": lambda db: db.snapshot().close(),
}


@pytest.mark.parametrize("kind", UPKEEP)
def test_the_store_works_after_upkeep_was_interrupted(path: str, kind: str) -> None:
    with open_small(path) as db:
        expected = fill(db, range(200))

        def work() -> None:
            db.put(b"filling", b"")
            UPKEEP[kind](db)

        assert at_each_place(work, works(db))
        assert db.memory_usage().snapshot_versions == 0
        assert dict(db.items(prefix=b"key")) == expected
    assert contents(path) == {**expected, b"filling": b"", b"after": b""}


def test_a_store_that_failed_is_resumed_after_an_interrupted_resume(path: str) -> None:
    with open_small(path) as db:
        db.put(b"a", b"1")

        def resume() -> None:
            db._engine.work_failed(OSError("mended meanwhile"))
            db.resume()

        def check() -> None:
            db.resume()
            works(db)()

        assert at_each_place(resume, check)
    assert contents(path) == {b"a": b"1", b"after": b""}


def test_reads_that_are_interrupted_leave_the_cache_and_the_order_of_keys_whole(path: str) -> None:
    with open_small(path, block_cache_size_bytes=3000) as db:
        expected = fill(db, range(300))
        db.flush()
        new = iter(range(300, 10_000))
        keys = list(expected)

        def read() -> None:
            for _ in range(3):
                number = next(new)
                key = number_key(-number)
                expected[key] = b""
                db.put(key, b"")
            for key in keys[::40]:
                db.get(key)
            list(islice(db.items(), 3))

        def check() -> None:
            assert dict(db.items()) == {key: db[key] for key in expected if key in db}
            used = sum(
                item.charge_bytes
                for shelf in set(db._engine.cache._order.values())
                for item in shelf.items
                if item is not None
            )
            assert db.memory_usage().block_cache == used

        assert at_each_place(read, check)


def test_closing_again_ends_an_interrupted_close(path: str) -> None:
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
    assert at_each_place(close, check)
    opened.pop().close()
    assert not our_threads()
    assert len(open_descriptors()) < len(before)


def test_an_interrupted_opening_leaves_nothing_open(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(500))
    before = open_descriptors()

    def reopen() -> None:
        gc.collect()
        assert open_descriptors() == before
        with open_small(path) as db:
            assert len(db) == 500

    assert at_each_place(lambda: open_small(path), reopen)


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
            storage.open_random(path)  # which the last reference closes
        else:
            storage.lock(path).release()

    def check() -> None:
        gc.collect()
        assert open_descriptors() == before

    assert at_each_place(open_and_close, check)


# Workers


class Rounds:
    """A job that counts how often it runs, and has something to do once for each wake."""

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
            worker.rest()
            assert rounds.count > count
            worker.stop()

    assert at_each_place(start, check)
    assert not our_threads()


def test_a_worker_that_an_exception_has_ended_tells_it_and_starts_anew() -> None:
    errors: list[BaseException] = []
    rounds = Rounds()

    def job() -> bool:
        if rounds() or rounds.count > 1:
            return False
        raise SystemExit

    def failed(error: BaseException) -> None:
        errors.append(error)
        if len(errors) == 1:
            raise KeyboardInterrupt  # as one that another thread has set

    worker = Worker("lsmkv-test", job, failed)
    worker.wake()
    worker.rest()
    assert [type(error) for error in errors] == [SystemExit, KeyboardInterrupt]
    worker.wake()
    worker.rest()
    assert rounds.count == 2
    worker.stop()
    assert threading.active_count() >= 1 and not our_threads()
