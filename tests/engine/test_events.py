"""What a store tells ``on_event``: which events, from which thread, under no lock."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import lsmkv
from event_stores import SMALL, fill, within_a_minute
from gates import WAIT_S, GatedStorage
from lsmkv import (
    BackgroundFailed,
    CompactionEnded,
    Event,
    FlushEnded,
    Ingested,
    Refreshed,
    Resumed,
    WriteStalled,
)
from lsmkv.background.events import EventTeller, OnEvent
from storages import FaultyStorage
from threaded_stores import run_all, wait_until
from time_limits import join


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: list[str] = []

    def __call__(self, event: Event) -> None:
        self.threads.append(threading.current_thread().name)
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]

    def threads_of(self, kind: type[Event]) -> set[str]:
        return {
            thread
            for thread, event in zip(self.threads, self.events, strict=True)
            if type(event) is kind
        }


@pytest.fixture
def heard() -> Heard:
    return Heard()


# --- which events there are -----------------------------------------------------------------------


@pytest.mark.parametrize("background", ["thread", "process"])
def test_flushes_and_compactions_tell_what_the_counters_count(
    path: str, heard: Heard, background: str
) -> None:
    options = {**SMALL, "background": background, "process_job_size_bytes": 0}
    with lsmkv.open(path, on_event=heard, **options) as db:
        fill(db)
        db.flush()
        db.compact_range()
        db.wait_until_settled()
        stats = db.stats()
    flushes, compactions = heard.of(FlushEnded), heard.of(CompactionEnded)
    assert len(flushes) == stats.flushes > 3
    assert sum(event.size_bytes for event in flushes) == stats.flush_bytes
    merged = [event for event in compactions if not event.moved]
    assert len(merged) == stats.compactions > 0
    assert sum(event.output_bytes for event in merged) == stats.compaction_write_bytes
    assert sum(event.output_tables for event in compactions if event.moved) == stats.tables_moved
    assert {event.path for event in heard.events} == {path}
    assert heard.threads_of(FlushEnded) == {"lsmkv-flush"}
    assert heard.threads_of(CompactionEnded) <= {"lsmkv-compact", "lsmkv-range"}


def test_a_write_that_waits_tells_why_in_its_own_thread(path: str, heard: Heard) -> None:
    storage = GatedStorage(thread="lsmkv-flush")
    with lsmkv.open(path, storage=storage, on_event=heard, **SMALL) as db:
        storage.shut()
        opener = threading.Timer(0.05, storage.open_up)
        opener.start()
        within_a_minute(lambda: fill(db, 200))
        join(opener)
        assert len(heard.of(WriteStalled)) == db.stats().write_stops > 0
    assert heard.of(WriteStalled)[0].reason == "flush"
    assert heard.threads_of(WriteStalled) == {"writer"}


@pytest.mark.parametrize("slept_s", [0.5, 1.5])
def test_a_slowdown_is_told_if_it_takes_a_second(
    path: str, heard: Heard, monkeypatch: pytest.MonkeyPatch, slept_s: float
) -> None:
    with lsmkv.open(path, on_event=heard) as db:
        db._state.is_crowded, db._engine.writer._throttle._owed_s = True, 0.001
        clock = itertools.count(0.0, slept_s)
        monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
        db[b"a"] = b"1"
        monkeypatch.undo()
    assert heard.events == ([WriteStalled(path, "slowdown", 1.5)] if slept_s > 1 else [])


def test_a_refresh_that_finds_writes_is_told_and_another_is_not(path: str, heard: Heard) -> None:
    with lsmkv.open(path) as writer, lsmkv.open(path, read_only=True, on_event=heard) as reader:
        reader.refresh()
        assert heard.events == []
        writer.update({b"a": b"1", b"b": b"2"})
        reader.refresh()
        reader.refresh()
    assert heard.events == [Refreshed(path, 2)]


def test_a_handle_that_follows_by_itself_tells_its_refreshes(path: str) -> None:
    came = threading.Event()
    with (
        lsmkv.open(path) as writer,
        lsmkv.open(path, read_only=True, refresh_every_s=0.01, on_event=lambda event: came.set()),
    ):
        writer[b"a"] = b"1"
        assert came.wait(WAIT_S)


# --- failures -------------------------------------------------------------------------------------


def test_a_failed_flush_is_told_once_with_its_cause_and_so_is_resuming(
    path: str, heard: Heard
) -> None:
    storage = FaultyStorage()
    with lsmkv.open(path, storage=storage, on_event=heard) as db:
        db[b"a"] = b"1"
        storage.fail("create", path_suffix=".sst")
        with pytest.raises(lsmkv.BackgroundError) as caught:
            db.flush()
        with pytest.raises(lsmkv.BackgroundError):
            db[b"b"] = b"2"
        db._engine.background.wait_idle()
        (event,) = heard.of(BackgroundFailed)
        assert event.error is caught.value.__cause__
        assert heard.threads_of(BackgroundFailed) == {"lsmkv-flush"}
        db.resume()
        assert heard.of(Resumed) == [Resumed(path)]
        db._engine.background.wait_idle()
        assert [event.entries for event in heard.of(FlushEnded)] == [1, 0]  # resuming starts a log


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_failed_log_write_is_told_to_its_writer_before_the_error(
    path: str, operation: str
) -> None:
    seen: list[Any] = []

    def on_event(event: Event) -> None:
        db.snapshot().close()  # needs the mutex
        seen.append((type(event), db.get(b"a"), threading.current_thread().name))

    storage = FaultyStorage()
    with lsmkv.open(path, storage=storage, on_event=on_event) as db:
        db.put(b"a", b"1", sync=True)
        for write in (write_one, write_batch):
            storage.fail(operation, path_suffix=".log")
            with pytest.raises(OSError):
                within_a_minute(lambda write=write: write(db))  # type: ignore[misc]
            assert seen.pop() == (BackgroundFailed, b"1", "writer")
            storage.heal()
            db.resume()
            db._engine.background.wait_idle()  # the flusher may tell after resume() has returned
            assert Resumed in {kind for kind, _, _ in seen} <= {Resumed, FlushEnded}
            seen.clear()


def write_one(db: lsmkv.DB) -> None:
    db.put(b"b", b"2", sync=True)


def write_batch(db: lsmkv.DB) -> None:
    with db.write_batch(sync=True) as batch:
        batch.put(b"b", b"2")


# --- callbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", ["thread", "process"])
def test_a_callback_may_use_the_store_even_when_its_writes_have_to_wait(
    path: str, background: str
) -> None:
    """Also in the thread whose work they wait for, and while an ingest holds writers."""
    told: list[Event] = []

    def on_event(event: Event) -> None:
        told.append(event)
        db.stats()
        assert db.get(b"00001") or len(told) < 3
        for number in range(8):
            db.put(b"told/%d" % number, os.urandom(250))
        with db.snapshot() as snapshot:
            assert next(iter(snapshot), b"") is not None

    options = {**SMALL, "background": background, "process_job_size_bytes": 0}
    with lsmkv.open(path, on_event=on_event, **options) as db:
        within_a_minute(lambda: fill(db))
        within_a_minute(lambda: db.bulk_load((b"x%04d" % number, b"v") for number in range(500)))
        within_a_minute(lambda: db.compact_range(force=True))
        assert b"told/7" in db and b"x0499" in db
        within_a_minute(db.close)
    assert {FlushEnded, CompactionEnded, Ingested} <= {type(event) for event in told}


def test_an_exception_of_a_callback_is_logged_and_dropped(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def on_event(event: Event) -> None:
        raise SystemExit("from the callback")

    with lsmkv.open(path, on_event=on_event) as db:
        db[b"a"] = b"1"
        db.flush()
        db.wait_until_settled()
        db[b"b"] = b"2"
        db.flush()
        db.wait_until_settled()
        assert db.stats().flushes == 2
    found = [record for record in caplog.records if record.exc_info]
    assert [record.levelname for record in found] == ["ERROR", "ERROR"]
    assert "flushed a memtable" in found[0].getMessage()
    assert "from the callback" in str(found[0].exc_info)


def test_a_callback_may_not_wait_for_background_work(path: str) -> None:
    errors: list[str] = []

    def on_event(event: Event) -> None:
        calls: list[Callable[[], object]] = [
            db.flush,
            db.compact_range,
            db.wait_until_settled,
            db.resume,
            lambda: db.bulk_load({b"x": b"y"}),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="inside on_event") as caught:
                call()
            errors.append(str(caught.value).partition("(")[0])

    with lsmkv.open(path, on_event=on_event) as db:
        db[b"a"] = b"1"
        db.flush()
        db.wait_until_settled()
    assert errors == ["flush", "compact_range", "wait_until_settled", "resume", "ingest"]


def test_a_callback_may_close_the_store(path: str) -> None:
    closed = threading.Event()

    def on_event(event: Event) -> None:
        db.close()
        closed.set()

    db = lsmkv.open(path, on_event=on_event)
    db[b"a"] = b"1"
    with pytest.raises(lsmkv.ClosedError):
        for _ in range(100):
            db.flush()
            db[b"a"] = b"2"
            closed.wait(1)
    assert closed.wait(WAIT_S)
    assert db.closed
    with lsmkv.open(path) as db:
        assert b"a" in db


def test_closing_waits_for_a_callback_which_may_go_on_using_the_store(path: str) -> None:
    inside = threading.Event()
    seen: list[bytes | None] = []

    def on_event(event: Event) -> None:
        inside.set()
        wait_until(lambda: db._state.is_ending)
        seen.append(db.get(b"a"))

    with lsmkv.open(path, on_event=on_event) as db:
        db[b"a"] = b"1"
        db.flush()
        assert inside.wait(WAIT_S)
    assert seen == [b"1"]


def test_a_callback_may_pop_what_a_pop_that_waited_has_left(path: str) -> None:
    popped: list[bytes] = []

    def on_event(event: Event) -> None:
        if isinstance(event, WriteStalled):
            popped.append(db.popitem()[0])

    storage = GatedStorage(thread="lsmkv-flush")
    with lsmkv.open(path, storage=storage, on_event=on_event, **SMALL) as db:
        for number in range(1000):
            db.put(b"%05d" % number, b"")
        popped.clear()
        storage.shut()
        opener = threading.Timer(0.05, storage.open_up)
        opener.start()
        within_a_minute(lambda: [db.popitem() for _ in range(500)])
        join(opener)
    assert popped


def test_a_callback_may_pop_while_pops_of_other_threads_wait_for_room(path: str) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, FlushEnded):
            pop()

    def pop() -> None:
        with contextlib.suppress(KeyError):
            db.popitem()

    def put_all() -> None:
        for number in range(400):
            db.put(b"%06d" % number, b"x" * 300)

    def pop_all() -> None:
        for _ in range(400):
            pop()

    def work() -> None:
        run_all(put_all, put_all, pop_all)
        db.close()

    db = lsmkv.open(
        path, on_event=on_event, write_buffer_size_bytes=4096, max_immutable_memtables=1
    )
    within_a_minute(work)


def test_events_that_a_callback_causes_come_after_it_has_returned() -> None:
    teller: EventTeller
    order: list[object] = []

    def on_event(event: Event) -> None:
        order.append(event)
        if event == Resumed("1"):
            teller.note(Resumed("2"))
            teller.note(WriteStalled("3", "flush", 0.1))  # only logged, or one caused the next
            teller.tell()
            order.append("returned")

    teller = EventTeller(on_event)
    teller.note(Resumed("1"))
    teller.note(WriteStalled("0", "flush", 0.1))
    teller.tell()
    assert order == [Resumed("1"), "returned", WriteStalled("0", "flush", 0.1), Resumed("2")]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_is_raised_from_a_callback_in_the_programs_thread(
    kind: type[BaseException],
) -> None:
    def on_event(event: Event) -> None:
        raise kind

    teller = EventTeller(on_event)
    teller.note(Resumed("store"))
    with pytest.raises(kind):
        teller.tell()
    assert not teller.is_telling


def test_a_write_that_waited_is_not_done_when_the_callback_ends_the_program(path: str) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, WriteStalled) and event.reason != "slowdown":
            raise SystemExit

    key = b""
    with lsmkv.open(path, on_event=on_event, **SMALL) as db:
        with pytest.raises(SystemExit):
            for number in range(100_000):
                key = b"%06d" % number
                db.put(key, os.urandom(250))
        assert key not in db
        assert b"%06d" % (int(key) - 1) in db


@pytest.mark.parametrize("wrong", [1, "print"])
def test_what_cannot_be_called_is_refused(path: str, wrong: OnEvent) -> None:
    with pytest.raises(TypeError, match="on_event is a function"):
        lsmkv.open(path, on_event=wrong)
    assert not os.path.exists(path)
