"""The comparison of engines: its arithmetic, and a tiny run of every phase."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.engines.base import engines
from bench.experiments.peers.experiment import EXPERIMENT
from bench.experiments.peers.measure import measure
from bench.experiments.peers.outcome import Outcome, median_outcome
from bench.experiments.peers.phases import IN_GROUP, LIMITED, PHASES
from bench.experiments.peers.rows import Row
from bench.experiments.peers.story import disagreements, story
from bench.experiments.peers.tasks import Task
from bench.harness import records
from bench.harness.experiment import Results, run
from bench.harness.ratios import Figures, Spread, median_interval


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


def test_passes_that_find_different_things_are_refused() -> None:
    passes = [Outcome(operations=4, seconds=1.0, cpu_s=0.0, result_count=n) for n in (4, 3)]
    with pytest.raises(ValueError, match=r"result_count differs between passes: \[4, 3\]"):
        median_outcome(passes)


# Rows made up


def row(engine: str, phase: str = "readrandom", repetition: int = 0, us: float = 1.0) -> Row:
    content: dict[str, Any] = dict.fromkeys(column["name"] for column in records.columns(Row))
    content |= {"engine": engine, "engine_version": "1", "phase": phase, "repetition": repetition}
    content |= {"entries": 300, "bits_per_key": 10.0, "operations": 300, "us_per_operation": us}
    content |= {"result_count": 300, "result_checksum": 7, "passes": 1}
    return Row(**content)


def test_engines_that_find_different_things_are_a_failure() -> None:
    agreeing = [row("lsmkv"), row("lmdb")]
    assert disagreements(agreeing) == []
    wrong = replace(row("sqlite"), result_count=299)
    (failure,) = disagreements([*agreeing, wrong])
    assert "readrandom, repetition 1" in failure and "sqlite 299" in failure
    assert disagreements([*agreeing, replace(row("sqlite"), result_checksum=8)])
    assert story([*agreeing, wrong]).failures == [failure]


# Runs


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Results[Row]:
    """One tiny run of every phase on every installed engine."""
    work = str(tmp_path_factory.mktemp("work"))
    arguments = ["--out", "unused", "--work", work, "--entries", "300", "--repetitions", "1"]
    return run(EXPERIMENT, [*arguments, "--passes", "1"])


@pytest.mark.slow
def test_every_phase_is_measured_on_every_installed_engine(outcome: Results[Row]) -> None:
    here = {engine.name for engine in engines() if engine.is_installed()}
    measured = {(row.engine, row.phase) for row in outcome.rows}
    assert {"lsmkv", "sqlite"} <= here
    phases = set(PHASES) - {*LIMITED, *IN_GROUP}  # so little data fits into any page cache
    assert measured >= {(engine, phase) for engine in here for phase in phases}


@pytest.mark.slow
def test_all_engines_find_the_same(outcome: Results[Row]) -> None:
    assert story(outcome.rows).failures == []
    found = {row.phase: row.result_count for row in outcome.rows}
    assert found["fillrandom"] == found["readrandom"] == found["readseq"] == 300
    assert found["readmissing"] == found["readmissing_cold"] == 0


def test_a_failing_engine_is_named_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PHASES, "known only here", PHASES["fillseq"])
    task = Task(
        number=0, engines=("sqlite",), phases=("known only here",), entries=300, seed=1,
        bits_per_key=10.0, cache_size_bytes=1 << 20, compression="none",
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=r"sqlite: known only here failed:(.|\n)*KeyError"):
        measure(task, str(tmp_path))
