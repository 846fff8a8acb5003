"""The history: each flush, compaction and move, also while they happen."""

from __future__ import annotations

from pathlib import Path

import lsmkv
from explored_stores import MANUAL, put_and_flush
from lsmkv.explore.contract import HistoryStep
from lsmkv.explore.history import HistoryReader


def steps_of(path: Path) -> list[HistoryStep]:
    with lsmkv.open(path, read_only=True) as db:
        return HistoryReader(db).poll()


def test_flushes_and_compactions_come_in_their_order(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        put_and_flush(db, 50)
        db.compact_range()
        info = db.inspect()
        steps = steps_of(tmp_path / "db")
    assert [step.kind for step in steps] == ["flush", "flush", "compaction"]
    assert sorted(steps[2].removed) == sorted(
        table.number for step in steps[:2] for table in step.added
    )
    assert steps[1].live_entries == 200 and steps[2].live_entries == 150
    assert steps[2].live_bytes == info.size_bytes


def test_written_bytes_are_those_of_the_counters(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        for start in (0, 30, 60):
            put_and_flush(db, start)
        db.compact_range()
        stats = db.stats()
        last = steps_of(tmp_path / "db")[-1]
    assert last.flushed_bytes == stats.flush_bytes
    assert last.compacted_bytes == stats.compaction_write_bytes


def test_a_table_that_only_changes_its_level_moves(tmp_path: Path) -> None:
    options = MANUAL.replace(level0_compaction_trigger=1)
    with lsmkv.open(tmp_path / "db", options) as db:
        put_and_flush(db, 0)
        db.wait_until_settled()
        moved = db.stats().tables_moved
        steps = steps_of(tmp_path / "db")
    assert moved > 0
    assert "move" in [step.kind for step in steps]
    assert [step.written_bytes for step in steps if step.kind == "move"] == [0] * moved


def test_polls_return_new_steps_only(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        reader = HistoryReader(db, is_recording=True)
        assert reader.poll() == []
        put_and_flush(db, 0)
        (first,) = reader.poll()
        assert reader.poll() == []
        put_and_flush(db, 100)
        (second,) = reader.poll()
    assert first.at_s is not None and second.at_s is not None
    assert 0 <= first.at_s <= second.at_s


def test_a_rewritten_manifest_repeats_no_step(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with lsmkv.open(path, MANUAL) as db:
        reader = HistoryReader(db, is_recording=True)
        assert reader.poll() == []
        put_and_flush(db, 0)
        assert [step.kind for step in reader.poll()] == ["flush"]
        db._engine.tables.manifest.rewrite()
        assert reader.poll() == []
        put_and_flush(db, 100)
        assert [step.kind for step in reader.poll()] == ["flush"]
        assert reader.begins_empty


def test_a_history_that_begins_late_says_so(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with lsmkv.open(path, MANUAL) as db:
        put_and_flush(db, 0)
        db._engine.tables.manifest.rewrite()
        reader = HistoryReader(db)
        (step,) = reader.poll()
        assert step.kind == "state" and step.written_bytes == 0
        assert step.live_bytes == db.inspect().size_bytes
        assert not reader.begins_empty
