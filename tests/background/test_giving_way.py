"""Background work waits for busy writers, but never makes a writer wait."""

from __future__ import annotations

import errno
import threading
from typing import Any

import pytest

import lsmkv
from gates import WAIT_S
from lsmkv.background import pace
from lsmkv.background.compactor import Compactor
from lsmkv.background.pace import Pacer
from lsmkv.read.view import SuperVersion
from storages import FaultyStorage
from threaded_stores import open_store, run_all, wait_until


@pytest.fixture(autouse=True)
def always_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writers seem busy for ever; a nap lasts until somebody waits."""
    monkeypatch.setattr(Pacer, "writers_are_busy", lambda self: True)
    monkeypatch.setattr(pace, "_NAP_S", 10 * WAIT_S)


def fill(db: lsmkv.DB, memtables: int) -> None:
    """Fill that many memtables with overlapping keys, and begin another."""
    for _ in range(memtables):
        for number in range(10):
            db.put(b"key%05d" % number, b"v" * 1000)


def is_flushing(db: lsmkv.DB) -> bool:
    return len(db.inspect().memtable_key_counts) > 1


def level0_runs(db: lsmkv.DB) -> int:
    levels = db.inspect().levels
    return len(levels[0].runs) if levels else 0


def test_a_flush_waits_for_writers_and_no_writer_waits(path: str) -> None:
    with open_store(path) as db:
        fill(db, 1)
        assert is_flushing(db)
        assert db.stats().flushes == 0


@pytest.mark.parametrize(
    "wait", [lsmkv.DB.flush, lsmkv.DB.wait_until_settled, lsmkv.DB.compact_range, lsmkv.DB.close]
)
def test_a_flush_goes_on_at_once_when_somebody_waits(path: str, wait) -> None:  # type: ignore[no-untyped-def]
    db = open_store(path)
    fill(db, 1)
    run_all(lambda: wait(db))
    if not db.closed:
        assert not is_flushing(db)
        db.close()
    with open_store(path) as db:
        assert len(db) == 10


def test_a_flush_goes_on_when_a_writer_waits_for_it(path: str) -> None:
    with open_store(path, max_immutable_memtables=1) as db:
        run_all(lambda: fill(db, 5))
        assert db.stats().flushes >= 3


def test_a_flush_goes_on_when_another_memtable_waits(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_NAP_S", 0.001)
    with open_store(path, max_immutable_memtables=64) as db:
        fill(db, 3)
        wait_until(lambda: db.stats().flushes >= 2)


def test_a_flush_goes_on_when_resume_waits_for_it(path: str) -> None:
    storage = FaultyStorage()
    with open_store(path, storage=storage) as db:
        db.put(b"before", b"1")
        storage.fail("append", error=errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            db.put(b"lost", b"1")
        run_all(db.resume)
        assert not is_flushing(db)


class CompactorNaps:
    """Counts the compactor's naps for more runs; other work does not nap."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.naps = 0
        nap = pace.Urgency.nap

        def counted(urgency: pace.Urgency) -> None:
            self.naps += threading.current_thread().name == "lsmkv-compact"
            nap(urgency)

        monkeypatch.setattr(pace, "_NAP_S", 0.001)
        monkeypatch.setattr(pace.Urgency, "nap", counted)
        monkeypatch.setattr(Pacer, "give_way", lambda self, done: None)

    def look_again(self) -> None:
        naps = self.naps
        wait_until(lambda: self.naps > naps + 1)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> CompactorNaps:
    return CompactorNaps(monkeypatch)


PATIENT: dict[str, Any] = {
    "max_immutable_memtables": 64,  # no writer waits
    "level0_compaction_trigger": 2,
    "level0_slowdown_trigger": 10,
    "level0_stop_trigger": 1000,
}


def test_level_0_gathers_runs_while_writers_are_busy(path: str, naps: CompactorNaps) -> None:
    with open_store(path, **PATIENT) as db:
        fill(db, 4)
        wait_until(lambda: level0_runs(db) == 4)
        naps.look_again()
        assert level0_runs(db) == 4


def test_gathering_and_picking_look_at_the_same_tree(
    path: str, naps: CompactorNaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_gather = Compactor._may_gather
    asked = threading.Event()

    def slow(compactor: Compactor, view: SuperVersion) -> bool:
        found = may_gather(compactor, view)
        if not asked.is_set():
            asked.set()
            wait_until(lambda: level0_runs(db) == 4)
        return found

    monkeypatch.setattr(Compactor, "_may_gather", slow)
    with open_store(path, **PATIENT) as db:
        fill(db, 1)
        assert asked.wait(WAIT_S)
        fill(db, 3)
        naps.look_again()
        assert db.stats().compactions == 0


@pytest.mark.usefixtures("naps")
def test_level_0_gathers_runs_no_further_than_half_way_to_the_slowdown(path: str) -> None:
    with open_store(path, **PATIENT) as db:
        fill(db, 6)
        wait_until(lambda: db.stats().compactions > 0)


def test_gathered_level_0_runs_are_compacted_when_somebody_waits(
    path: str, naps: CompactorNaps
) -> None:
    with open_store(path, **PATIENT) as db:
        fill(db, 4)
        wait_until(lambda: level0_runs(db) == 4)
        naps.look_again()
        run_all(db.wait_until_settled)
        assert level0_runs(db) < 2


def test_gathered_level_0_runs_do_not_hold_up_a_close(path: str, naps: CompactorNaps) -> None:
    db = open_store(path, **PATIENT)
    fill(db, 4)
    wait_until(lambda: level0_runs(db) == 4)
    naps.look_again()
    run_all(db.close)


@pytest.mark.usefixtures("naps")
@pytest.mark.parametrize("style", ["tiered", "lazy-leveled"])
def test_a_tiered_tree_gathers_no_runs_beyond_its_trigger(path: str, style: str) -> None:
    with open_store(path, **PATIENT, compaction=style) as db:
        fill(db, 2)
        wait_until(lambda: db.stats().compactions > 0)
