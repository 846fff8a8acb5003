"""``DB.ingest``: tables from outside become part of the store, all or none."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from functools import partial
from pathlib import Path

import pytest
from conftest import open_small

import lsmkv
from lsmkv.encoding.expiry import Clock, Moment
from lsmkv.inspection.explain import explain_lookup
from lsmkv.salvage.repair import repair
from outside_tables import numbered, write_table
from storages import FaultyStorage
from threaded_stores import run_all
from time_limits import join


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


# --- what readers see ---


def test_explain_tells_the_sequence_number_of_the_ingest(db: lsmkv.DB, tmp_path: Path) -> None:
    db[b"x"] = b"y"
    snapshot = db.snapshot()
    db.ingest([write_table(tmp_path / "t", {b"k": b"v"})])
    step = next(step for step in db.explain(b"k").runs if step.outcome == "found")
    assert step.seq == snapshot.sequence_number + 1
    engine = db._engine
    current, now = engine.state.require_open(), Moment(Clock())
    earlier = explain_lookup(current, b"k", snapshot.sequence_number, now)
    assert earlier.outcome == "absent"


# --- places ---


def test_a_table_that_overlaps_goes_on_top(db: lsmkv.DB, tmp_path: Path) -> None:
    db.ingest([write_table(tmp_path / "a", numbered(0, 100))])
    report = db.ingest(
        [
            write_table(tmp_path / "b", numbered(50, 60)),
            write_table(tmp_path / "c", numbered(100, 109)),
        ]
    )
    assert report.levels == {0: 1, 1: 1}


# --- the files ---


def test_files_are_copied_without_move(db: lsmkv.DB, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", numbered(0, 100))
    before = path.read_bytes()
    db.ingest([path])
    assert path.read_bytes() == before
    db.ingest([path])
    assert dict(db) == numbered(0, 100)


def test_move_takes_the_file_without_copying(db: lsmkv.DB, tmp_path: Path, store: Path) -> None:
    path = write_table(tmp_path / "t", numbered(0, 100))
    number = path.stat().st_ino
    db.ingest([path], move=True)
    assert not path.exists()
    assert number in {file.stat().st_ino for file in store.glob("*.sst")}
    assert dict(db) == numbered(0, 100)
    assert db.verify().ok


def test_move_copies_a_file_with_another_name(db: lsmkv.DB, tmp_path: Path) -> None:
    path, other = write_table(tmp_path / "t", numbered(0, 100)), tmp_path / "other"
    os.link(path, other)
    before = other.read_bytes()
    db.ingest([path], move=True)
    assert not path.exists()
    assert other.read_bytes() == before


def test_move_copies_a_table_without_room_at_its_end(db: lsmkv.DB, tmp_path: Path) -> None:
    key = b"k" * 3000  # twice in the properties, which then exceed a page
    path = write_table(tmp_path / "t", {key: b"1", key + b"l": b"2"})
    db.ingest([path], move=True)
    assert not path.exists()
    assert len(db) == 2
    assert db.verify().ok


def test_what_move_could_not_remove_is_told_after_the_commit(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.table", numbered(0, 100))
    other = write_table(tmp_path / "b.table", numbered(100, 200))
    storage = FaultyStorage()
    storage.fail("remove", error=errno.EPERM, path_suffix=".table", times=None)
    with open_small(tmp_path / "store", storage=storage) as db:
        with pytest.warns(RuntimeWarning, match="could not be removed"):
            db.ingest([path], move=True)
        with warnings.catch_warnings(), pytest.raises(RuntimeWarning):
            warnings.simplefilter("error")
            db.ingest([other], move=True)
        assert dict(db) == numbered(0, 200)


def test_ingests_in_several_threads_all_take_place(tmp_path: Path, db: lsmkv.DB) -> None:
    tables = {f"t{part}": numbered(part * 100, part * 100 + 100) for part in range(8)}
    paths = [write_table(tmp_path / name, entries) for name, entries in tables.items()]
    run_all(*[partial(db.ingest, [path]) for path in paths])
    assert dict(db) == numbered(0, 800)
    assert db.verify().ok


# --- salvage ---


@pytest.mark.parametrize("damage", ["a block", "the end"])
def test_whole_blocks_of_a_damaged_one_are_salvaged(
    tmp_path: Path, store: Path, damage: str
) -> None:
    with open_small(store, read_compaction_rate_bytes=0) as db:
        db.update({b"%05d" % number: b"old" for number in range(0, 1000, 100)})
        db.flush()
        db.ingest([write_table(tmp_path / "t", numbered(0, 1000), block_size_bytes=512)])
    path = max(store.glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(path.read_bytes())
    if damage == "a block":
        data[50] ^= 1
    else:
        del data[-90:]
    path.write_bytes(data)
    repair(store, in_place=True)
    with open_small(store) as db:
        left = dict(db)
    assert left[b"00900"] == b"outside"
    assert len(left) > 900 if damage == "a block" else len(left) == 1000


# --- beside others ---


def test_writers_snapshots_and_compactions_go_on_meanwhile(tmp_path: Path, store: Path) -> None:
    """Each writer writes its own keys; each ingest raises all of the shared ones by one."""
    stop = threading.Event()
    problems: list[str] = []
    rounds = 7

    def shared(turn: int) -> dict[bytes, bytes | None]:
        return {b"shared%04d" % number: b"%d" % turn for number in range(200)}

    with open_small(store, read_compaction_rate_bytes=0) as db:
        db.ingest([write_table(tmp_path / "t", shared(0))])

        def write(name: bytes) -> None:
            count = 0
            while not stop.is_set():
                with db.write_batch() as batch:
                    for number in range(20):
                        batch[name + b"%04d" % number] = b"%d" % count
                count += 1
                db[name + b"last"] = b"%d" % count
                if db[name + b"last"] != b"%d" % count:
                    problems.append("a write is not there")

        def read() -> None:
            while not stop.is_set():
                with db.snapshot() as snapshot:
                    seen = {value for _, value in snapshot.items(prefix=b"shared")}
                    if len(seen) != 1:
                        problems.append(f"a snapshot sees {seen}")
                    again = {snapshot[b"shared%04d" % number] for number in range(0, 200, 40)}
                    if again != seen:
                        problems.append(f"lookups of a snapshot find {again}, scans {seen}")

        def compact() -> None:
            while not stop.is_set():
                db.compact_range(b"shared", b"shared01", force=True)

        targets = [lambda: write(b"x"), lambda: write(b"t"), read, compact]
        threads = [threading.Thread(target=target) for target in targets]
        for thread in threads:
            thread.start()
        try:
            for turn in range(1, rounds):
                db.ingest([write_table(tmp_path / f"t{turn}", shared(turn))], move=turn % 2 == 0)
                if db[b"shared0100"] != b"%d" % turn:
                    problems.append("an ingest is not there")
        finally:
            stop.set()
            join(*threads)
        assert problems == []
        expected = dict(db)
        assert db.verify().ok
    with open_small(store) as db:
        assert dict(db) == expected
        assert db[b"shared0000"] == b"%d" % (rounds - 1)


def test_counters_tell_tables_and_bytes(db: lsmkv.DB, tmp_path: Path) -> None:
    report = db.ingest([write_table(tmp_path / "t", numbered(0, 100))])
    stats = db.stats()
    assert (stats.ingested_tables, stats.ingested_bytes) == (1, report.size_bytes)
