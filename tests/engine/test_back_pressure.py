"""Writers that are ahead of background work are slowed down, then stopped."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import cast

import pytest

import lsmkv
from gates import WAIT_S, GatedStorage
from lsmkv.engine.writer import SLOWED_BYTES_PER_S, Throttle
from lsmkv.stats import Stats
from threaded_stores import open_store, run_all, wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def scattered(count: int) -> list[int]:
    """Shuffled numbers, whose runs overlap: no table can be just moved down."""
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    return numbers


def write_until_done(db: lsmkv.DB, done: threading.Event, count: int = 300) -> None:
    for number in scattered(count):
        db.put(b"key%05d" % number, b"v" * 1000)
    done.set()


def test_writers_stop_at_the_level_0_trigger_and_go_on_when_compaction_has_caught_up(
    path: Path,
) -> None:
    storage = GatedStorage(thread="lsmkv-compact")
    done = threading.Event()
    with open_store(path, storage=storage, level0_slowdown_trigger=3, level0_stop_trigger=4) as db:
        storage.shut()

        def watch() -> None:
            assert storage.held_up.wait(WAIT_S)
            wait_until(lambda: len(db.inspect().levels[0].runs) >= 4)
            wait_until(lambda: db.stats().write_stops > 0)
            assert not done.is_set()
            assert db.get(b"key%05d" % scattered(300)[0]) == b"v" * 1000  # reads go on
            storage.open_up()

        run_all(lambda: write_until_done(db, done), watch)
        stats = db.stats()
        assert stats.write_stops >= 1 and stats.write_stop_s > 0.0
        assert len(db) == 300


def test_writers_stop_when_too_many_memtables_wait_to_be_flushed(path: Path) -> None:
    storage = GatedStorage(thread="lsmkv-flush")
    done = threading.Event()
    with open_store(path, storage=storage, max_immutable_memtables=2) as db:
        storage.shut()

        def watch() -> None:
            wait_until(lambda: db.stats().write_stops > 0)
            assert not done.is_set()
            assert len(db.inspect().memtable_key_counts) == 3
            storage.open_up()

        run_all(lambda: write_until_done(db, done), watch)
        assert db.stats().write_stop_s > 0.0
        assert len(db) == 300


def test_writers_are_slowed_down_before_they_are_stopped(path: Path) -> None:
    storage = GatedStorage(thread="lsmkv-compact")
    with open_store(
        path, storage=storage, level0_slowdown_trigger=2, level0_stop_trigger=1000
    ) as db:
        storage.shut()
        for number in scattered(100):
            db.put(b"key%05d" % number, b"v" * 1000)
        db.flush()
        assert len(db.inspect().levels[0].runs) >= 2
        before = db.stats().write_slowdowns
        db.put(b"slow", b"v" * 40_000)
        stats = db.stats()
        assert stats.write_slowdowns == before + 1
        assert stats.write_slowdown_s > 0.0
        storage.open_up()
        db.wait_until_settled()
        db.put(b"fast", b"")
        assert db.stats().write_slowdowns == before + 1


def test_a_store_without_pressure_neither_slows_nor_stops_its_writers(path: Path) -> None:
    with lsmkv.open(path) as db:
        for number in range(1000):
            db.put(b"key%05d" % number, b"v" * 100)
        stats = db.stats()
    assert (stats.write_slowdowns, stats.write_stops) == (0, 0)
    assert (stats.write_slowdown_s, stats.write_stop_s) == (0.0, 0.0)


class NotedTicket:
    """Notes the wait that is asked for, and does not wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def acquire(self, *, timeout: float) -> bool:
        self.waits.append(timeout)
        return False


def delays(sizes_bytes: list[int]) -> list[float]:
    """The throttle's waits for writes of these sizes."""
    ticket = NotedTicket()
    throttle = Throttle(Stats())
    for size_bytes in sizes_bytes:
        throttle.delay(size_bytes, cast(threading.Lock, ticket))
    return ticket.waits


def test_a_throttled_write_waits_as_long_as_it_takes_at_the_rate() -> None:
    assert delays([SLOWED_BYTES_PER_S // 2]) == [0.5]


def test_throttled_writes_save_up_waits_that_are_too_short() -> None:
    waits = delays([1024] * 1000)
    assert len(waits) < 1000
    assert sum(waits) == pytest.approx(1000 * 1024 / SLOWED_BYTES_PER_S, abs=0.001)
