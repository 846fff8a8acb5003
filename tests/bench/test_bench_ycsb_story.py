"""The story of the YCSB experiment, from rows made by hand."""

from __future__ import annotations

from bench.experiments.ycsb.rows import NOT_A_TIME, Row
from bench.experiments.ycsb.story import AGREED, by_cell, ratios_of, story
from bench.experiments.ycsb.workloads import LOAD


def row(engine: str = "lsmkv", workload: str = "C", **columns: object) -> Row:
    """A flawless row of a timed repetition."""
    counts = dict.fromkeys(AGREED, 0) | {"read_count": 10, "operations": 10, "found_count": 10}
    settings: dict[str, object] = {"group": "C", "is_timed": True, "records": 20, "wrong_count": 0}
    settings |= {
        "engine_version": "1",
        "cache_size_bytes": 1,
        "write_buffer_size_bytes": 1,
        "bits_per_key": 10.0,
    }
    times: dict[str, object] = dict.fromkeys(NOT_A_TIME, 1000.0)
    counters = {"data_block_reads": None, "filter_negatives": None}
    every = {"engine": engine, "workload": workload} | counts | settings | times | counters
    return Row(**(every | columns))  # type: ignore[arg-type]


def test_counts_that_differ_between_engines_are_failures() -> None:
    rows = [row("lsmkv"), row("lmdb", scanned_entries=1)]
    assert story(rows).failures == ["C, repetition 0: scanned_entries differs: lsmkv 0, lmdb 1"]


def test_a_read_that_finds_nothing_is_a_failure() -> None:
    assert story([row(found_count=9)]).failures == [
        "lsmkv, C, repetition 0: 9 reads found a value, not 10"
    ]


def test_ratios_are_to_the_peer_of_the_highest_median_by_repetition() -> None:
    speeds = {"lsmkv": (200.0, 90.0), "lmdb": (100.0, 100.0), "sqlite": (5.0, 190.0)}
    rows = [
        row(name, repetition=number, operations_per_s=speed)
        for name, each in speeds.items()
        for number, speed in enumerate(each, 1)
    ]
    (found,) = ratios_of(by_cell(rows))
    assert (found.peer, found.each) == ("lmdb", (2.0, 0.9))


def test_the_load_of_the_first_group_stands_for_both() -> None:
    rows = [row(workload=LOAD, group="C"), row(workload=LOAD, group="E", operations_per_s=1.0)]
    assert by_cell(rows)[LOAD, "lsmkv"] == rows[:1]
