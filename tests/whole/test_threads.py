"""One handle and many threads: models, iterators, snapshots, flush, pins."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKGROUNDS

import lsmkv
from leaks import open_descriptors
from threaded_stores import Background, filled, open_store, run_all
from torture.framework.part import Scale
from torture.load import threads
from torture.load.scenario import SMALL, Job

# Of tests that differ in how tables are read, and not in who writes them.
PROCESS_IS_SLOW = pytest.mark.parametrize(
    "background",
    [BACKGROUNDS[0], pytest.param(BACKGROUNDS[1], marks=pytest.mark.slow)],
    ids=["thread", "process"],
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


# --- reading and writing ---


@pytest.mark.parametrize(
    ("background", "changes"),
    [
        ("thread", {}),
        ("thread", {"compaction": "tiered", "filter_residency": "cached"}),
        ("process", {"compaction": "lazy-leveled"}),
        pytest.param("process", {"filter_residency": "cached"}, marks=pytest.mark.slow),
    ],
)
def test_threads_see_whole_writes_in_the_order_they_were_made(
    background: str, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lookups, scans, cursors and snapshots of three threads, beside three that write, and upkeep."""
    monkeypatch.setattr(threads, "SMALL", SMALL.replace(**changes))
    job = Job(background, 1, tmp_path, 1.0, Scale.CI)
    threads.run(job)
    assert min(job.counts[what] for what in ("flushes", "compactions", "writes", "upkeep")) > 0


def test_synced_writes_of_many_threads_are_all_made(path: Path) -> None:
    with open_store(path) as db:

        def write(number: int) -> None:
            for count in range(50):
                db.put(b"%d/%d" % (number, count), b"v", sync=True)

        run_all(*[lambda number=number: write(number) for number in range(6)])
        assert len(db) == db.stats().writes == 300


# --- iterators and snapshots over flushes and compactions ---


def rewrite_everything(db: lsmkv.DB) -> None:
    """Replace every file of the store by new ones."""
    for number in range(0, 3000, 2):
        db.put(b"key%05d" % number, b"new")
        db.delete(b"key%05d" % (number + 1))
    db.compact_range()
    db.wait_until_settled()


@PROCESS_IS_SLOW
def test_iterators_views_and_cursors_go_on_over_flush_and_compaction(
    path: Path, background: Background
) -> None:
    with open_store(path, **background) as db:
        model, cursor = filled(db), db.cursor()
        view = db.items(start=b"key00100", stop=b"key02000")
        within = [item for item in sorted(model.items()) if b"key00100" <= item[0] < b"key02000"]
        assert list(view) == within
        assert cursor.seek(b"key01500")
        upwards, downwards = iter(db.items()), reversed(db.items())
        found_up = [next(upwards) for _ in range(700)]
        found_down = [next(downwards) for _ in range(700)]
        rewrite_everything(db)
        assert found_up + list(upwards) == sorted(model.items())
        assert found_down + list(downwards) == sorted(model.items(), reverse=True)
        assert list(view) == within
        assert len(view) == len(within) and within[5] in view
        assert cursor.item == (b"key01500", b"old 1500")
        for _ in range(800):
            assert cursor.next()
        assert cursor.item == (b"key02300", b"old 2300")
        for _ in range(1600):
            assert cursor.prev()
        assert cursor.item == (b"key00700", b"old 700")
        cursor.close()


@PROCESS_IS_SLOW
def test_tables_an_iterator_reads_have_no_names_any_more_and_are_closed_when_it_ends(
    path: Path, background: Background
) -> None:
    with open_store(path, **background) as db:
        filled(db)
        db.flush()
        db.wait_until_settled()
        iterator = iter(db.items())
        next(iterator)
        rewrite_everything(db)
        live = {info.file_name for info in db.inspect().tables()}
        assert {file.name for file in path.glob("*.sst")} == live
        open_before = len(open_descriptors())
        del iterator
        gc.collect()
        assert len(open_descriptors()) < open_before


# --- flush ---


@PROCESS_IS_SLOW
def test_flush_returns_when_what_was_written_before_is_in_tables(
    path: Path, background: Background
) -> None:
    with open_store(path, **background) as db:

        def work(number: int) -> None:
            for count in range(20):
                key = b"%d/%03d" % (number, count)
                db.put(key, b"value")
                db.flush()
                assert any(info.smallest <= key <= info.largest for info in db.inspect().tables())

        run_all(*[lambda number=number: work(number) for number in range(4)])


def test_compact_range_by_many_threads_at_once(path: Path, background: Background) -> None:
    with open_store(path, **background) as db:
        model = filled(db)
        run_all(*[db.compact_range] * 4, db.flush, db.wait_until_settled)
        assert dict(db) == model


# --- pins ---


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "dropped"])
def test_a_snapshot_may_be_ended_by_another_thread(path: Path, is_closed: bool) -> None:
    with open_store(path) as db:
        db.put(b"key", b"old")
        held = [db.snapshot()]
        db.put(b"key", b"new")
        run_all(held[0].close if is_closed else held.clear)
        gc.collect()
        db.compact_range()
        assert db.inspect().entry_count == 1


def test_a_pin_caught_in_a_cycle_is_released_by_the_collector_of_any_thread(path: Path) -> None:
    with open_store(path) as db:
        db.put(b"key", b"old")
        cycle: list[object] = [iter(db.items()), db.snapshot()]
        cycle.append(cycle)
        next(cycle[0])  # type: ignore[call-overload]  # the iterator has begun
        db.put(b"key", b"new")
        del cycle
        run_all(gc.collect)
        db.compact_range()
        assert db.inspect().entry_count == 1


def test_snapshots_taken_and_closed_by_many_threads_leave_no_pin_behind(path: Path) -> None:
    with open_store(path) as db:

        def work(number: int) -> None:
            for count in range(200):
                with db.snapshot() as snapshot:
                    db.put(b"%d" % number, b"%d" % count)
                    assert snapshot.get(b"%d" % number) == (b"%d" % (count - 1) if count else None)

        run_all(*[lambda number=number: work(number) for number in range(4)])
        db.compact_range()
        assert db.inspect().entry_count == 4
