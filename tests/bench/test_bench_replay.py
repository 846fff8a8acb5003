"""A trace on real trees: answers are the trace's, and counts of reads agree to the last one."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from bench.experiments.replay.experiment import ENGINES, EXPERIMENT, missing
from bench.experiments.replay.rows import Row
from bench.experiments.replay.story import failures, story
from bench.harness.experiment import run

pytestmark = pytest.mark.slow  # every engine replays the trace


def write_trace(path: Path) -> None:
    """A made trace of all operations, whose entries flush four times."""
    draw = random.Random(4)
    keys = [f"user{draw.randrange(10**6):06d}" for _ in range(800)]
    lines = []
    for number in range(4000):
        key, other = draw.choice(keys), draw.choice(keys)
        first, last = sorted((key, other))
        ranges = f"delete-range {first} {last}" if number % 1000 == 999 else f"scan {key} 30"
        kinds = {
            f"put {key} {draw.randrange(20, 400)} {draw.choice((0, 20))}": 30, f"delete {key}": 5,
            f"get {key}": 20, f"get {key}x": 20, f"multi-get {key} {other} {key}x": 10, ranges: 5,
            f"scan-reverse {key} 30": 5, f"time {1000 + number // 40}": 5,
        }  # fmt: skip
        lines += draw.choices(list(kinds), list(kinds.values()))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    path = tmp_path_factory.mktemp("replay") / "trace.txt"
    write_trace(path)
    options = [
        "--out",
        "unused",
        "--windows",
        "2",
        "--policies",
        "auto,bloom",
        "--buffer-kib",
        "64",
    ]
    return run(EXPERIMENT, [str(path), *options]).rows


def test_all_answers_are_right_and_all_counts_of_reads_agree_to_the_last(rows: list[Row]) -> None:
    assert missing() == []
    assert [(row.engine, row.window) for row in rows if row.policy != "bloom"] == [
        (engine, window) for engine in ENGINES for window in (0, 1)
    ]
    assert failures(rows) == []
    for row in rows:
        assert row.outside_reads is not None, "no C compiler"
        assert (row.outside_reads > 0) == (row.engine != "lmdb") == (not row.maps)
        assert (row.lookup_block_reads is None) == (row.engine in ("leveldb", "lmdb"))


def test_every_engine_does_the_same_operations_in_the_same_memory(rows: list[Row]) -> None:
    asked = (
        "operations",
        "puts",
        "absent_lookups",
        "present_lookups",
        "multi_gets",
        "scanned_entries",
    )
    for window in (0, 1):
        same = [row for row in rows if row.window == window]
        assert len({tuple(getattr(row, name) for name in asked) for row in same}) == 1
        assert all(getattr(same[0], name) > 20 for name in asked)
        assert {row.metadata_bytes + row.cache_bytes for row in same} == {same[0].memory_bytes}


def test_a_count_that_differs_and_a_wrong_answer_fail_the_command(rows: list[Row]) -> None:
    (told,) = failures([dataclasses.replace(rows[0], outside_reads=1)])
    assert "but an outsider counts 1" in told
    (told,) = failures([dataclasses.replace(rows[0], lookup_block_reads=1)])
    assert "but the store counts 1" in told
    (told,) = failures([dataclasses.replace(rows[1], wrong_answers=2)])
    assert "window 2: 2 answers differ" in told


def test_the_headline_has_the_best_of_ours_and_of_the_others(rows: list[Row]) -> None:
    told = story(rows).headline
    assert told.startswith("Lookups and scans of trace.txt read ") and " times in lsmkv " in told
    assert len(told.split()) <= 25 and "lmdb" not in told


def test_without_a_file_a_sample_is_made_and_replayed(tmp_path: Path) -> None:
    found = run(
        EXPERIMENT, ["--quick", "--engine", "lsmkv", "--out", str(tmp_path), "--windows", "1"]
    )
    assert {row.format for row in found.rows} == {"twitter"}
    assert (tmp_path / "sample.csv").read_text().count("\n") == found.rows[0].operations
