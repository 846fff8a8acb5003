"""The comparison of engines: its arithmetic, its processes, and a tiny whole run."""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.engines import base
from bench.engines.base import engines
from bench.experiments.peers.experiment import EXPERIMENT, tasks
from bench.experiments.peers.measure import Measured, measure
from bench.experiments.peers.outcome import (
    Outcome,
    median_outcome,
    steps,
    timed,
    with_latencies,
)
from bench.experiments.peers.phases import LIMITED, PHASES
from bench.experiments.peers.rows import Row
from bench.experiments.peers.story import disagreements, story
from bench.experiments.peers.tables import number
from bench.experiments.peers.tasks import Task
from bench.harness import records
from bench.harness.experiment import DEFAULT_SEED, Plan, Results, run, write
from bench.harness.process_meter import Meter
from bench.harness.ratios import FEWEST, Figures, Spread, median_interval
from lsmkv.options import MIB

TINY = ("--entries", "300", "--repetitions", "2", "--passes", "2", "--engines", "lsmkv,sqlite")

PLUGIN = """
from bench.engines.base import Engine, register
from bench.engines.lsmkv_engine import Lsmkv

class Renamed(Lsmkv):
    name = "renamed"

class Absent(Engine):
    name = "absent"
    distribution = module = "no_such_library_at_all"

    def open(self, directory, settings):
        raise AssertionError("it is not installed")

register(Renamed())
register(Absent())
"""


@dataclass(frozen=True)
class Figure:
    """The columns that the arithmetic needs."""

    engine: str
    phase: str
    repetition: int
    value: float | None


def figures(phase: str, **by_engine: list[float | None]) -> list[Figure]:
    return [
        Figure(engine, phase, repetition, value)
        for engine, values in by_engine.items()
        for repetition, value in enumerate(values)
    ]


def compared(rows: list[Figure]) -> Figures[Figure]:
    return Figures(rows, lambda row: row.value)


# Arithmetic


def test_a_ratio_is_taken_within_each_repetition() -> None:
    rows = figures("get", lsmkv=[1.0, 10.0, 2.0], rocksdb=[2.0, 30.0, 2.0])
    (ratio,) = compared(rows).ratios()
    # The ratio of the two medians would be 1.
    assert (ratio.peer, ratio.ratio) == ("rocksdb", Spread(2.0, 1.0, 3.0))


def test_the_best_peer_is_the_one_with_the_lowest_median() -> None:
    rows = figures("get", lsmkv=[1.0] * 3, rocksdb=[0.1, 5.0, 5.0], lmdb=[4.0, 4.0, 9.0])
    (ratio,) = compared(rows).ratios()
    assert ratio.peer == "lmdb"


def test_there_is_a_ratio_to_each_peer() -> None:
    rows = figures("get", lsmkv=[1.0, 2.0], rocksdb=[0.5, 5.0], lmdb=[4.0, 4.0])
    found = compared(rows)
    ratios = {peer: found.ratio_to("get", peer) for peer in ("rocksdb", "lmdb", "sqlite")}
    assert {peer: ratio and ratio.each for peer, ratio in ratios.items()} == {
        "rocksdb": (0.5, 2.5),
        "lmdb": (4.0, 2.0),
        "sqlite": None,
    }


def test_each_phase_has_its_own_best_peer() -> None:
    rows = figures("get", lsmkv=[1.0], rocksdb=[2.0], lmdb=[3.0])
    rows += figures("put", lsmkv=[1.0], rocksdb=[3.0], lmdb=[2.0])
    assert [(r.phase, r.peer) for r in compared(rows).ratios()] == [
        ("get", "rocksdb"),
        ("put", "lmdb"),
    ]


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        ([1.1, 2.0, 1.5, 1.2, 1.1, 1.3], "ahead"),
        ([0.5, 0.9, 0.8, 0.7, 0.9, 0.9], "behind"),
        ([0.9, 1.1, 1.1, 1.1, 1.1, 1.1], "level"),
        ([1.0] * 6, "level"),
        ([2.0] * 5, "no verdict"),
        ([0.5] + [2.0] * 8, "ahead"),  # one of nine may differ
        ([0.5] * 2 + [2.0] * 7, "level"),
    ],
)
def test_the_verdict_is_level_whenever_the_interval_includes_1(
    theirs: list[float | None], verdict: str
) -> None:
    (ratio,) = compared(figures("get", lsmkv=[1.0] * len(theirs), rocksdb=theirs)).ratios()
    assert ratio.verdict == verdict


@pytest.mark.parametrize("count", [6, 9, 12, 15, 30])
def test_the_interval_holds_the_median_in_at_least_95_of_100_cases(count: int) -> None:
    draw = random.Random(count)
    held = 0
    for _ in range(2000):
        low, high = median_interval(draw.lognormvariate(0.0, 1.0) for _ in range(count))
        held += low <= 1.0 <= high
    assert held / 2000 > 0.94  # at least 0.95, but for three standard deviations of chance


def test_the_median_outcome_leaves_out_passes_without_a_figure() -> None:
    passes = [
        Outcome(operations=4, seconds=seconds, cpu_s=0.0, result_count=4, os_read_bytes=read)
        for seconds, read in ((3.0, 7), (1.0, None), (2.0, None))
    ]
    found = median_outcome(passes)
    assert (found.seconds, found.os_read_bytes, found.disk_bytes) == (2.0, 7, None)


def test_passes_that_find_different_things_are_refused() -> None:
    passes = [Outcome(operations=4, seconds=1.0, cpu_s=0.0, result_count=n) for n in (4, 3)]
    with pytest.raises(ValueError, match=r"result_count differs between passes: \[4, 3\]"):
        median_outcome(passes)


def test_without_lsmkv_or_without_a_peer_there_is_no_ratio() -> None:
    assert compared(figures("get", rocksdb=[1.0], lmdb=[2.0])).ratios() == []
    assert compared(figures("get", lsmkv=[1.0])).ratios() == []


def test_rows_without_a_figure_are_left_out() -> None:
    found = compared(figures("get", lsmkv=[1.0, 2.0], rocksdb=[None, 4.0], lmdb=[None, None]))
    assert found.spread("get", "lmdb") is None
    assert found.ratios()[0].ratio == Spread(2.0, 2.0, 2.0)


def test_figures_of_zero_make_no_ratio() -> None:
    assert compared(figures("reads", lsmkv=[0.0, 0.0], rocksdb=[1.0, 2.0])).ratios() == []


def test_latencies_are_percentiles_by_nearest_rank_in_microseconds() -> None:
    outcome = with_latencies(timed(Meter(), 1000, 0), [1000 * number for number in range(1000)])
    found = (outcome.latency_us_p50, outcome.latency_us_p99, outcome.latency_us_p999)
    assert found == (500, 990, 999)


def test_steps_lie_between_readings_of_a_clock() -> None:
    assert steps([10, 15, 15, 40]) == [5, 0, 25]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.99949, "0.999"), (0.99996, "1.00"), (9.999, "10.0"), (99.96, "100"), (999.7, "1.00k")],
)
def test_figures_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


# Rows made up


def row(engine: str, phase: str = "readrandom", repetition: int = 0, us: float = 1.0) -> Row:
    content: dict[str, Any] = dict.fromkeys(column["name"] for column in records.columns(Row))
    content |= {"engine": engine, "engine_version": "1", "phase": phase, "repetition": repetition}
    content |= {"entries": 300, "bits_per_key": 10.0, "operations": 300, "us_per_operation": us}
    content |= {"result_count": 300, "result_checksum": 7, "passes": 1}
    return Row(**content)


def test_the_story_counts_the_phases_ahead_and_behind() -> None:
    rows = []
    for turn in range(FEWEST):
        rows += [row("lsmkv", "readrandom", turn), row("lmdb", "readrandom", turn, us=2.0)]
        rows += [row("lsmkv", "readseq", turn), row("lmdb", "readseq", turn, us=0.25)]
    findings = " ".join(story(rows).findings)
    assert "ahead in 1 (readrandom)" in findings
    assert "behind in 1 (readseq)" in findings
    assert "readseq, lmdb takes 0.25 times" in findings


def test_too_few_repetitions_are_said_to_say_nothing() -> None:
    findings = " ".join(story([row("lsmkv"), row("lmdb", us=2.0)]).findings)
    assert "no verdict in 1 (readrandom)" in findings
    assert "With fewer than 6 repetitions no ratio has an interval" in findings


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (0, "No cold pass began with a page"),
        (4096, "Not cold: readrandom_cold of lsmkv began with"),
    ],
)
def test_the_story_says_whether_cold_passes_were_cold(left: int, said: str) -> None:
    cold = replace(row("lsmkv", "readrandom_cold"), page_cache_bytes_before=left)
    assert said in " ".join(story([cold]).findings)


def test_the_story_says_how_much_a_limited_page_cache_held() -> None:
    limited = [
        replace(
            row(engine, "readrandom_limited"),
            page_cache_limit_bytes=MIB,
            page_cache_bytes_most=most,
        )
        for engine, most in (("lsmkv", MIB // 2), ("lmdb", 3 * MIB))
    ]
    findings = " ".join(story(limited).findings)
    assert "limited to 1.00 MiB, it held at most, in MiB: lsmkv 0.500, lmdb 3.00." in findings
    assert "Above it by what a lookup reads ahead: lmdb." in findings


@pytest.mark.parametrize("keys", ["absent", "present"])
def test_cold_reads_of_both_windows_stand_in_the_table(keys: str) -> None:
    name = {"absent": "readmissing", "present": "readrandom"}[keys]
    rows = [
        replace(row(engine, f"{name}_{window}"), data_block_reads=reads, os_read_bytes_timed=300)
        for engine in ("lsmkv", "rocksdb")
        for window, reads in (("cold_open", 300), ("cold", 150))
    ]
    (table,) = [table for table in story(rows).tables if table.title.startswith("Cold")]
    assert [line[:5] for line in table.cells if line[2] == "block reads"] == [
        [keys, "open + lookups", "block reads", "1.0000", "1.0000"],
        [keys, "lookups", "block reads", "0.5000", "0.5000"],
    ]
    assert "peers-cold" in [chart.name for chart in story(rows).charts]


def test_engines_that_find_different_things_are_a_failure() -> None:
    agreeing = [row("lsmkv"), row("lmdb")]
    assert disagreements(agreeing) == []
    wrong = replace(row("sqlite"), result_count=299)
    (failure,) = disagreements([*agreeing, wrong])
    assert "readrandom, repetition 1" in failure and "sqlite 299" in failure
    assert disagreements([*agreeing, replace(row("sqlite"), result_checksum=8)])
    assert story([*agreeing, wrong]).failures == [failure]


def test_reads_of_absent_keys_stand_beside_the_rate_in_theory() -> None:
    cold = replace(
        row("lsmkv", "readmissing_cold"),
        data_block_reads=3,
        filter_false_positives=3,
        filter_negatives=297,
    )
    # A second repetition that asks for every absent key again gets the same answers.
    everything = replace(cold, operations=cold.entries)
    again = replace(everything, repetition=1)
    intervals = [
        re.findall(r"pass \((.*?)\)", " ".join(story(rows).findings))
        for rows in ([everything], [everything, again])
    ]
    assert intervals[0] == intervals[1] != []
    findings = " ".join(story([cold]).findings)
    assert "let 1.000% pass" in findings and "a lookup read 0.0100 data blocks" in findings
    assert "lets 0.820% pass" in findings


# Runs


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Results[Row]:
    """One tiny run of every phase on every installed engine."""
    work = str(tmp_path_factory.mktemp("work"))
    arguments = ["--out", "unused", "--work", work, "--entries", "300", "--repetitions", "1"]
    return run(EXPERIMENT, [*arguments, "--passes", "1"])


def test_every_phase_is_measured_on_every_installed_engine(outcome: Results[Row]) -> None:
    here = {engine.name for engine in engines() if engine.is_installed()}
    measured = {(row.engine, row.phase) for row in outcome.rows}
    assert {"lsmkv", "sqlite"} <= here
    phases = set(PHASES) - {*LIMITED}  # so little data fits into any page cache
    assert measured >= {(engine, phase) for engine in here for phase in phases}


def test_all_engines_find_the_same(outcome: Results[Row]) -> None:
    assert story(outcome.rows).failures == []
    found = {row.phase: row.result_count for row in outcome.rows}
    assert found["fillrandom"] == found["readrandom"] == found["readseq"] == 300
    assert found["readmissing"] == found["readmissing_cold"] == 0


def test_timed_phases_have_a_time_and_the_others_a_size(outcome: Results[Row]) -> None:
    for row in outcome.rows:
        if row.phase.startswith("disk_"):
            assert row.us_per_operation is None and (row.disk_bytes or 0) > 300 * 16
        else:
            assert (row.us_per_operation or 0) > 0 and row.cpu_s is not None


def test_phases_with_latencies_have_them(outcome: Results[Row]) -> None:
    having = {row.phase for row in outcome.rows if row.latency_us_p999 is not None}
    writing = {"sustained", "fillsync", "fillsync_8"}
    assert having == writing | {"readwhilewriting", "readcompacting"}


def test_lsmkv_counts_cold_reads(outcome: Results[Row]) -> None:
    cold = {row.phase: row for row in outcome.rows if row.engine == "lsmkv" and "cold" in row.phase}
    absent, present = cold["readmissing_cold"], cold["readrandom_cold"]
    assert absent.data_block_reads == absent.filter_false_positives
    assert (absent.filter_negatives or 0) > 250
    assert (present.data_block_reads or 0) > (absent.data_block_reads or 0)


def test_the_sustained_fill_reports_memory(outcome: Results[Row]) -> None:
    assert {row.phase for row in outcome.rows if row.peak_memory_bytes is not None} == {"sustained"}


def test_every_file_is_written(outcome: Results[Row], tmp_path: Path) -> None:
    write(EXPERIMENT, outcome, str(tmp_path))
    names = {path.name for path in tmp_path.iterdir()}
    names_of_charts = ("ratios", "times", "cold")
    charts = {f"peers-{chart}.{kind}" for chart in names_of_charts for kind in ("png", "svg")}
    assert names == {"peers.json", "peers.csv", "report.html", *charts}
    content = json.loads((tmp_path / "peers.json").read_text())
    with (tmp_path / "peers.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(content["rows"]) == len(lines) == len(outcome.rows)
    assert lines[0]["engine"] == outcome.rows[0].engine


def test_tables_fit_a_terminal_of_130_columns(outcome: Results[Row]) -> None:
    rows = [replace(row, us_per_operation=row.us_per_operation and 0.12345) for row in outcome.rows]
    console = Console(width=130, no_color=True)
    with console.capture() as capture:
        for table in story(rows).tables:
            console.print(table.to_rich())
    assert "…" not in capture.get()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A plug-in with an installed engine and a missing one."""
    monkeypatch.setattr(base, "_ENGINES", dict(base._ENGINES))
    modules = set(sys.modules)
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    yield str(file)
    for name in sys.modules.keys() - modules:
        if name.startswith("bench_plugin_"):
            del sys.modules[name]


def test_engines_come_from_plugins_and_a_missing_one_is_reported(
    plugin: str, tmp_path: Path
) -> None:
    arguments = ["--out", "unused", "--plugin", plugin, "--entries", "300", "--repetitions", "1"]
    arguments += ["--engines", "lsmkv,renamed,absent", "--phases", "fillbatch"]
    results = run(EXPERIMENT, [*arguments, "--work", str(tmp_path)])
    assert [row.engine for row in results.rows] == ["lsmkv", "renamed"]
    assert results.header["missing"] == EXPERIMENT.missing() == ["absent"]


def test_a_failing_engine_is_named_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PHASES, "known only here", PHASES["fillseq"])
    task = repetition(0, engines=("sqlite",), phases=("known only here",))
    with pytest.raises(RuntimeError, match=r"sqlite: known only here failed:(.|\n)*KeyError"):
        measure(task, str(tmp_path))


def repetition(number: int, **changes: tuple[str, ...]) -> Task:
    settings = {"engines": ("a", "b", "c"), "phases": ("fillseq",), **changes}
    return Task(
        number=number,
        engines=settings["engines"],
        phases=settings["phases"],
        entries=300,
        seed=1,
        bits_per_key=10.0,
        cache_size_bytes=1 << 20,
        compression="none",
    )


def test_another_engine_begins_each_repetition() -> None:
    assert [repetition(number).order()[0] for number in range(4)] == ["a", "b", "c", "a"]
    assert repetition(1).order() == ("b", "c", "a")


def test_another_engine_begins_each_pass() -> None:
    assert [repetition(1).order(number)[0] for number in range(4)] == ["b", "c", "a", "b"]


def options(**changes: object) -> argparse.Namespace:
    return argparse.Namespace(
        **{
            "engines": "all",
            "phases": "all",
            "entries": None,
            "repetitions": None,
            "bits_per_key": 10.0,
            "cache_mib": None,
            "compression": "none",
            "background": "thread",
            "passes": None,
            "memory_mib": None,
            "work": None,
            "plugin": [],
            **changes,
        }
    )


def test_a_quick_run_is_smaller() -> None:
    full, quick = (tasks(Plan(quick, DEFAULT_SEED, options())) for quick in (False, True))
    assert len(full) > len(quick)
    assert full[0].entries > quick[0].entries


def test_the_cache_holds_everything_by_default() -> None:
    (task,) = tasks(Plan(False, 1, options(entries=1_000_000, repetitions=1)))
    assert task.cache_size_bytes > 2 * 1_000_000 * 116
    (task,) = tasks(Plan(False, 1, options(cache_mib=3, repetitions=1)))
    assert task.cache_size_bytes == 3 << 20


@pytest.mark.parametrize("wrong", [{"engines": "lsmkv,nosuch"}, {"phases": "nosuch"}])
def test_unknown_names_are_refused_with_the_known_ones(wrong: dict[str, str]) -> None:
    with pytest.raises(SystemExit, match="'nosuch': must be one of"):
        tasks(Plan(False, 1, options(**wrong)))


def test_a_measurement_keeps_its_repetition() -> None:
    task = repetition(2)
    outcomes = tuple(
        Outcome(operations=4, seconds=seconds, cpu_s=0.0, result_count=4)
        for seconds in (12e-6, 4e-6, 8e-6)
    )
    (made,) = EXPERIMENT.rows([[Measured(task, "a", "1", "fillseq", outcomes)]])
    assert (made.repetition, made.passes, made.disk_bytes) == (2, 3, None)
    assert (made.us_per_operation, made.us_per_operation_least) == (2.0, 1.0)
    assert made.us_per_operation_most == 3.0
