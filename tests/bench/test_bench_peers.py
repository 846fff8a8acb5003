"""The comparison of engines: its arithmetic, and a tiny run of every phase."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.engines import base
from bench.engines.base import engines
from bench.experiments.peers.experiment import EXPERIMENT
from bench.experiments.peers.measure import measure
from bench.experiments.peers.outcome import (
    Outcome,
    median_outcome,
)
from bench.experiments.peers.phases import IN_GROUP, LIMITED, PHASES
from bench.experiments.peers.rows import Row
from bench.experiments.peers.story import disagreements, story
from bench.experiments.peers.tasks import Task
from bench.harness import records
from bench.harness.experiment import Results, run
from bench.harness.ratios import Figures, Spread, median_interval

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


@pytest.mark.slow
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
