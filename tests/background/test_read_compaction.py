"""Compaction of stores whose lookups search too many runs."""

from __future__ import annotations

import _thread
import errno
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from drawn_directories import DrawnDirectory
from lsmkv.background import compactor
from lsmkv.background.pace import Pacer
from lsmkv.background.worker import Worker
from storages import FaultyStorage

RUNS: Final = 4
PATIENT: Final = lsmkv.Options(
    level0_compaction_trigger=12, level0_slowdown_trigger=24, level0_stop_trigger=100
)
ENOUGH: Final = 1 << 12  # wasted searches of a run that make such small stores compact
KEYS: Final = [b"key%03d" % number for number in range(0, 300, 2)]
ABSENT: Final = [b"key%03d" % number for number in range(1, 299, 2)]


@pytest.fixture(autouse=True)
def idle_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writers never seem busy, and few wasted searches enough."""
    monkeypatch.setattr(compactor, "_LEAST_READ_BUDGET", ENOUGH)
    monkeypatch.setattr(Pacer, "writers_are_busy", lambda self: False)


def open_read(path: Path, **options: Any) -> lsmkv.DB:
    """A store whose runs span all keys and are never too many."""
    db = lsmkv.open(path, PATIENT, **options)
    for run in range(RUNS):
        for key in KEYS:
            db.put(key, b"%d" % run)
        db.flush()
    return db


def run_counts(db: lsmkv.DB) -> list[int]:
    return [len(level.runs) for level in db.inspect().levels]


def get(db: lsmkv.DB) -> None:
    for number in range(ENOUGH // RUNS + 1):
        assert db.get(ABSENT[number % len(ABSENT)]) is None


def multi_get(db: lsmkv.DB) -> None:
    for _ in range(ENOUGH // RUNS // len(ABSENT) + 1):
        assert not any(db.multi_get(ABSENT))


def seek(db: lsmkv.DB) -> None:
    for number in range(ENOUGH // 8 // (RUNS - 1) + 1):
        start = KEYS[number % len(KEYS)]
        assert next(iter(db.keys(start=start))) == start


def get_of_a_snapshot(db: lsmkv.DB) -> None:
    with db.snapshot() as snapshot:
        for number in range(ENOUGH // RUNS + 1):
            assert snapshot.get(ABSENT[number % len(ABSENT)]) is None


@pytest.mark.parametrize("ask", [get, multi_get, seek, get_of_a_snapshot])
def test_runs_that_lookups_search_without_a_find_are_merged(
    tmp_path: Path, ask: Callable[[lsmkv.DB], None]
) -> None:
    with open_read(tmp_path) as db:
        assert run_counts(db) == [RUNS]
        ask(db)
        db.wait_until_settled()
        assert run_counts(db) == [0, 1]
        assert dict(db.items()) == dict.fromkeys(KEYS, b"%d" % (RUNS - 1))


def test_wasted_lookups_are_counted_on_after_reopening(tmp_path: Path) -> None:
    open_read(tmp_path).close()
    with lsmkv.open(tmp_path, PATIENT) as db:
        multi_get(db)
        db.wait_until_settled()
        assert db.stats().compactions == 1


@pytest.mark.parametrize("deleted", [False, True])
def test_deletions_that_a_scan_passes_count_as_wasted(tmp_path: Path, deleted: bool) -> None:
    with open_read(tmp_path, write_buffer_size_bytes=1 << 20) as db:
        db.compact_range()
        for key in KEYS[:30] if deleted else [b"key000a", b"key999"]:
            db.delete(key)
        db.flush()
        current = db._engine.readers.state.super_version
        assert current is not None
        spent: list[None] = []
        current.version.set_read_compaction_budget(9, lambda: spent.append(None))
        next(iter(db))  # asks a second run, which is 8
        assert bool(spent) == deleted


def test_runs_with_fewer_wasted_lookups_stay(tmp_path: Path) -> None:
    with open_read(tmp_path) as db:
        for _ in range((ENOUGH - 1) // RUNS // len(ABSENT)):
            db.multi_get(ABSENT)
        db.wait_until_settled()
        assert run_counts(db) == [RUNS]


def test_larger_merges_need_more_wasted_lookups(tmp_path: Path) -> None:
    with open_read(tmp_path, read_compaction_rate_bytes=1, compression="none") as db:
        db.put(b"key000", bytes(ENOUGH * 2))
        db.flush()
        multi_get(db)
        db.wait_until_settled()
        assert run_counts(db) == [RUNS + 1]


def test_lookups_found_in_the_first_run_do_not_count(tmp_path: Path) -> None:
    with open_read(tmp_path) as db:
        for _ in range(2 * ENOUGH // len(KEYS)):
            db.multi_get(KEYS)
        db.wait_until_settled()
        assert run_counts(db) == [RUNS]


def test_scans_of_one_run_do_not_count(tmp_path: Path) -> None:
    with open_read(tmp_path) as db:
        db.compact_range()
        db.put(b"other", b"")
        db.flush()
        for _ in range(ENOUGH // 8 + 1):
            assert next(islice(db.keys(stop=b"l"), 1, None)) == KEYS[1]
        db.wait_until_settled()
        assert run_counts(db) == [1, 1]


@pytest.mark.parametrize(
    "options", [{"read_compaction_rate_bytes": 0}, {"compaction": "tiered"}], ids=str
)
def test_reading_compacts_nothing_when_switched_off(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with open_read(tmp_path, **options) as db:
        multi_get(db)
        db.wait_until_settled()
        assert run_counts(db) == [RUNS]


def test_reading_compacts_nothing_while_writers_are_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_read(tmp_path) as db:
        monkeypatch.setattr(Pacer, "writers_are_busy", lambda self: True)
        multi_get(db)
        db.wait_until_settled()
        assert run_counts(db) == [RUNS]
        monkeypatch.setattr(Pacer, "writers_are_busy", lambda self: False)
        multi_get(db)
        db.wait_until_settled()
        assert run_counts(db) == [0, 1]


def test_a_disk_too_full_to_compact_for_readers_fails_no_write(tmp_path: Path) -> None:
    storage = FaultyStorage()
    with open_read(tmp_path, storage=storage) as db:
        before = storage.calls["create"]
        storage.fail("create", error=errno.ENOSPC, times=None, path_suffix=".sst")
        multi_get(db)
        db.wait_until_settled()
        tried = storage.calls["create"]
        assert tried > before
        multi_get(db)
        db.wait_until_settled()
        assert storage.calls["create"] == tried  # not again and again
        db.put(b"key", b"value")
        assert run_counts(db) == [RUNS]


def test_a_lookup_works_if_no_thread_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_read(tmp_path, read_compaction_rate_bytes=0).close()

    def refused(target: object, arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    with lsmkv.open(tmp_path, PATIENT) as db:
        monkeypatch.setattr(_thread, "start_new_thread", refused)
        multi_get(db)
        monkeypatch.undo()
        db.wait_until_settled()
        assert run_counts(db) == [0, 1]


def test_a_worker_whose_thread_cannot_start_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(target: object, arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refused)
    worker = Worker("idle", lambda: False, lambda error: None)
    with pytest.raises(RuntimeError, match="can't start"):
        worker.wake()
    assert not worker.busy


def test_a_table_with_nothing_to_merge_with_is_moved(tmp_path: Path) -> None:
    DrawnDirectory(tmp_path).draw(
        [
            "000001.sst: a c e",
            "000002.sst: a c e",
            "000003.log:",
            "MANIFEST-000004: log=3,+1@3,+2@1,seq=6",
            "CURRENT: MANIFEST-000004",
        ]
    )
    with lsmkv.open(tmp_path) as db:
        for _ in range(ENOUGH + 1):
            assert db.get(b"b") is None
        db.wait_until_settled()
        assert db.stats().tables_moved == 1
