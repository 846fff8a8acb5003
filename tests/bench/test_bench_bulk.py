"""Ways to load many entries: the same entries get there, and the story is that of the rows."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import lsmkv
from bench.experiments.bulk.experiment import EXPERIMENT
from bench.experiments.bulk.measure import load, pairs
from bench.experiments.bulk.rows import Row
from bench.experiments.bulk.story import failures, story
from bench.experiments.bulk.tables import BULK, PUTS, medians, times
from bench.experiments.bulk.tasks import WAYS, Task
from bench.harness.experiment import Results, run
from bench.harness.records import repeatable
from headlines import assert_headline

ROW = Row(
    way=BULK,
    repetition=0,
    entries=20_000_000,
    value_bytes=100,
    seed=1,
    seconds=2.0,
    pairs_s=1.0,
    cpu_s=3.0,
    peak_memory_bytes=1 << 20,
    table_bytes=1000,
    written_bytes=1010,
    counted_bytes=1000,
)


def slower(seconds: float, repetition: int = 0) -> Row:
    return dataclasses.replace(ROW, way=PUTS, seconds=seconds, repetition=repetition)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith("rocksdb")])
def test_every_way_loads_the_same_entries(tmp_path: Path, way: str) -> None:
    task = Task(1000, 0, WAYS, 7)
    row = load(task, way, str(tmp_path))
    with lsmkv.open(tmp_path / "store", read_only=True) as db:
        assert dict(db) == dict(pairs(task, range(1000)))
    assert row.table_bytes == sum(file.stat().st_size for file in tmp_path.glob("store/*.sst"))
    if os.path.exists("/proc/self/io"):
        assert row.written_bytes is not None
        assert row.written_bytes >= row.table_bytes


@pytest.mark.slow
def test_all_ways_run_and_keep_their_promises() -> None:
    arguments = ["--out", "unused", "--entries", "20000", "--repetitions", "2"]
    results: Results[Row] = run(EXPERIMENT, arguments)
    assert {row.way for row in results.rows} >= {way for way in WAYS if "rocksdb" not in way}
    assert failures(results.rows) == []
    counts = repeatable(results.rows)
    assert len(counts) == len(results.rows)
    told = story(results.rows)
    assert told.tables[0].to_markdown().count("\n") > len(WAYS)


def test_ratios_are_taken_within_repetitions() -> None:
    rows = [ROW, dataclasses.replace(ROW, repetition=1, seconds=4.0), slower(8.0), slower(12.0, 1)]
    found = times(rows, PUTS, BULK)
    assert found is not None
    assert (found.least, found.median, found.most) == (3.0, 3.5, 4.0)
    assert [row.seconds for row in medians(rows)] == [3.0, 10.0]


def test_a_load_that_is_too_slow_or_writes_too_much_fails() -> None:
    assert failures([ROW, slower(7.0)]) == []
    assert "2.50 times as long" in failures([ROW, slower(5.0)])[0]
    assert "1.200 bytes" in failures([dataclasses.replace(ROW, written_bytes=1200)])[0]
    few = [dataclasses.replace(row, entries=1000) for row in (ROW, slower(5.0))]
    assert failures(few) == []


def test_the_report_begins_with_a_number() -> None:
    assert_headline(story([ROW, slower(6.0)]))
