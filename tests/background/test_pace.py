"""Background work naps for busy writers, unless somebody waits for it, or waits for itself."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmkv
from gates import WAIT_S
from lsmkv.background import pace
from lsmkv.background.pace import BUSY_WRITES_PER_S, Pacer, Starvation, Urgency
from lsmkv.stats import Stats
from lsmkv.storage.storage import AppendFile, Storage
from threaded_stores import run_all
from time_limits import in_time

WRITE_BYTES = 100


class World(Pacer):
    """A clock, and writers that write while background work naps."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.stats = Stats()
        self.naps = 0
        self.writes_per_nap = 500
        self.naps_of_writers: float = math.inf  # the writers stop after so many naps
        self.urgent_after: float = math.inf  # work is urgent after so many naps
        with self.clock():
            super().__init__(self.stats, Urgency())

    def clock(self) -> AbstractContextManager[object]:
        return mock.patch.object(pace, "monotonic", lambda: self.now_s)

    def write(self, count: int) -> None:
        self.stats.writes += count
        self.stats.log_bytes += count * WRITE_BYTES

    def nap(self) -> None:
        self.naps += 1
        assert self.naps < 100_000, "it sleeps for good"
        self.now_s += 0.005
        if self.naps <= self.naps_of_writers:
            self.write(self.writes_per_nap)

    def is_urgent(self) -> bool:
        return self.naps >= self.urgent_after

    def make_busy(self) -> None:
        self.write(10_000)
        self.now_s += 0.1
        assert self.writers_are_busy()

    def begin(self, total: int, writes: int, first: int = 0) -> None:
        """Begin work that may take as long as so many writes."""
        self.start(total=total, allowance_bytes=writes * WRITE_BYTES, first=first)


@pytest.fixture
def idle() -> Iterator[World]:
    world = World()
    with world.clock():
        yield world


@pytest.fixture
def world(idle: World) -> World:
    idle.make_busy()
    return idle


def test_work_behind_does_not_nap(world: World) -> None:
    world.begin(total=1000, writes=10_000)
    world.write(3000)
    world.give_way(done=300)
    assert world.naps == 0


def test_work_done_in_one_step_waits_until_it_is_due(world: World) -> None:
    world.begin(total=1000, writes=10_000, first=200)
    world.give_way(done=0)
    assert world.naps == 4


@pytest.mark.parametrize("naps", [0, 2])
def test_urgent_work_does_not_nap(world: World, naps: int) -> None:
    world.urgent_after = naps
    world.begin(total=1000, writes=10_000)
    world.give_way(done=900)
    assert world.naps == naps


def test_work_goes_on_soon_after_writers_have_stopped(world: World) -> None:
    world.naps_of_writers = 3
    before_s = world.now_s
    world.begin(total=1000, writes=10_000)
    world.give_way(done=900)
    assert world.naps > 3
    assert world.now_s - before_s < 0.2


def test_work_never_naps_for_idle_writers(idle: World) -> None:
    idle.begin(total=1000, writes=10_000)
    for done in range(1000):
        idle.give_way(done)
        idle.now_s += 0.01
    assert idle.naps == 0


def test_work_goes_on_for_a_while_once_it_has_begun(world: World) -> None:
    world.begin(total=1000, writes=10_000)
    world.give_way(done=0)
    world.give_way(done=900)
    assert world.naps == 0
    world.now_s += 0.01
    world.give_way(done=900)
    assert world.naps > 0


@given(
    steps=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2000)), max_size=30),
    allowance=st.integers(0, 10_000),
    first=st.integers(0, 500),
    writes_per_nap=st.integers(100, 5000),
)
def test_work_is_no_further_ahead_than_writers_are_and_never_sleeps_past_its_time(
    steps: list[tuple[int, int]], allowance: int, first: int, writes_per_nap: int
) -> None:
    world = World()
    with world.clock():
        world.make_busy()
        world.writes_per_nap = writes_per_nap
        total = first + sum(count for count, _ in steps)
        world.begin(total=total, writes=allowance, first=first)
        start, done = world.stats.writes, 0
        for count, written in steps:
            naps, before = world.naps, world.stats.writes - start
            world.give_way(done)
            now = world.stats.writes - start
            assert (first + done) * allowance <= now * total
            if world.naps > naps:
                assert before < allowance
                assert now < allowance + writes_per_nap
            done += count
            world.write(written)
            world.now_s += 0.01


@pytest.mark.parametrize(("factor", "busy"), [(0.9, False), (1.1, True)])
def test_writers_are_busy_from_a_rate_on(idle: World, factor: float, busy: bool) -> None:
    idle.write(int(BUSY_WRITES_PER_S * factor))
    idle.now_s += 1.0
    assert idle.writers_are_busy() is busy


def test_writers_that_pause_for_a_fresh_log_are_busy_still(world: World) -> None:
    world.now_s += 0.02
    assert world.writers_are_busy()


def test_a_nap_ends_when_somebody_comes_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_NAP_S", 10 * WAIT_S)
    urgency = Urgency()
    resume = threading.Event()

    def wait() -> None:
        urgency.begin(1)
        assert resume.wait(WAIT_S)

    def sleep() -> None:
        urgency.nap()
        resume.set()

    run_all(sleep, wait)


def test_work_is_urgent_until_the_last_waiter_is_served() -> None:
    urgency = Urgency()
    urgency.begin(1)
    urgency.begin(2)
    pacer = Pacer(Stats(), urgency)
    urgency.waiting.pop(1, None)
    assert pacer.is_urgent()
    urgency.waiting.pop(2, None)
    assert not pacer.is_urgent()


@pytest.mark.parametrize(
    ("passed_s", "own_s", "others_s", "is_starved"),
    [
        (0.2, 0.04, 0.15, True),  # a fifth of a core, and others took the rest
        (0.2, 0.06, 0.14, False),  # over a quarter
        (0.2, 0.04, 0.05, False),  # it waits for the disk: nobody computes
        (0.05, 0.0, 0.05, False),  # too early to say
    ],
)
def test_a_thread_is_starved_if_others_leave_it_less_than_a_quarter_of_a_core(
    monkeypatch: pytest.MonkeyPatch,
    passed_s: float,
    own_s: float,
    others_s: float,
    is_starved: bool,
) -> None:
    clocks = {"monotonic": 100.0, "thread_time": 1.0, "process_time": 2.0}
    for name in clocks:
        monkeypatch.setattr(pace, name, lambda name=name: clocks[name])
    watch = Starvation()
    clocks["monotonic"] += passed_s
    clocks["thread_time"] += own_s
    clocks["process_time"] += own_s + others_s
    assert watch.is_found() is is_starved
    if passed_s >= 0.1:
        assert not watch.is_found(), "what was seen counts once"


class CollectingStorage(Storage):
    """Runs a finalizer, which writes until it may not, in the middle of a flush."""

    def __init__(self) -> None:
        super().__init__()
        self.db: lsmkv.DB | None = None
        self.error: RuntimeError | None = None

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        db, name = self.db, threading.current_thread().name
        if db is not None and ".sst" in path and name == "lsmkv-flush":
            self.db = None
            with pytest.raises(RuntimeError) as caught:
                for number in range(1000):
                    db.put(b"finalized%d" % number, b"x" * 100)
            self.error = caught.value
        return super()._append_file(path, descriptor, offset)


def test_a_write_that_would_wait_for_its_own_job_is_an_error(path: str) -> None:
    storage = CollectingStorage()

    def use() -> None:
        with lsmkv.open(
            path, storage=storage, write_buffer_size_bytes=4096, max_immutable_memtables=1
        ) as db:
            storage.db = db
            number = 0
            while storage.error is None:
                db.put(b"%06d" % number, b"x" * 100)
                number += 1
                assert number < 100_000
            db.put(b"after", b"")
            assert db.get(b"after") == b""
            assert db.get(b"000000") == b"x" * 100

    in_time(use)
    assert "inside a flush or compaction" in str(storage.error)
