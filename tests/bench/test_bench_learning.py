"""The experiment ``learning``: its claims at a smaller size, and its report."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.experiments.learning.experiment import EXPERIMENT
from bench.experiments.learning.measure import lookups, measure
from bench.experiments.learning.rows import Row, join
from bench.experiments.learning.story import LEAST_RATIO, MOST_BITS, story
from bench.experiments.learning.tables import pairs, ratios
from bench.experiments.learning.tasks import CACHE_SHARES, Task
from bench.harness import experiment
from drawn_charts import faults

SMALL = ("--quick", "--out", "unused", "--keys", "300", "--repetitions", "1")


@pytest.fixture(scope="module")
def uncached(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Three repetitions without a block cache."""
    tasks = [Task(6000, 60_000, 0.0, False, 0.01, 1970 + number, number) for number in range(3)]
    return join(measure(task, str(tmp_path_factory.mktemp("learning"))) for task in tasks)


@pytest.fixture(scope="module")
def results() -> experiment.Results[Row]:
    return experiment.run(EXPERIMENT, SMALL)


@pytest.fixture
def small(results: experiment.Results[Row]) -> list[Row]:
    return results.rows


def test_learning_spares_four_fifths_of_the_wasted_reads(uncached: list[Row]) -> None:
    """The counts are those of these seeds: 363, 515 and 386 without learning, 54, 56 and 53 with."""
    ((ordinary, learning),) = pairs(uncached)
    assert min(ratios(ordinary, learning)) >= 6.5 > LEAST_RATIO
    assert all(row.wasted_reads <= 60 for row in learning)
    assert all(row.wasted_reads >= 350 for row in ordinary)


def test_learning_takes_at_most_eight_and_a_tenth_bits_per_key(uncached: list[Row]) -> None:
    for row in uncached:
        assert row.filter_bits_per_key <= MOST_BITS
        if not row.learns:
            assert row.filter_bits_per_key == row.filter_bits_per_key_before


def test_without_a_cache_every_false_positive_is_a_read_and_a_lesson(uncached: list[Row]) -> None:
    for row in uncached:
        assert row.wasted_reads == row.false_positives
        assert row.lessons == (row.wasted_reads if row.learns else 0)


def test_lookups_are_those_of_the_seed() -> None:
    task = Task(100, 500, 0.1, True, 0.01, 7, 0)
    absent, present = lookups(task)
    assert lookups(task) == (absent, present)
    assert lookups(dataclasses.replace(task, is_shared=False)) == (absent, [])
    assert lookups(dataclasses.replace(task, seed=8))[0] != absent
    assert len(absent) == len(present) == 500
    assert set(absent).isdisjoint(present)


def test_every_cache_is_measured_with_and_without_learning(small: list[Row]) -> None:
    caches = [(row.is_shared, row.cache_share, row.learns) for row in small]
    assert sorted(caches) == sorted(
        (is_shared, share, learns)
        for share in CACHE_SHARES
        for is_shared in (False, True)
        for learns in (False, True)
        if share or not is_shared
    )


def test_the_report_says_when_a_cache_makes_learning_pointless(
    results: experiment.Results[Row], tmp_path: Path
) -> None:
    rows = [
        dataclasses.replace(row, wasted_reads=100 if row.learns or row.cache_share >= 0.4 else 900)
        for row in results.rows
    ]
    told = story(rows)
    assert told.failures == []
    assert "900 wasted reads become 100 (medians): 9.0 times fewer" in told.findings[0]
    for finding, asked in zip(
        told.findings[1:], ("absent keys alone", "absent and present keys"), strict=True
    ):
        assert finding.startswith(f"Lookups of {asked}: from a block cache of 40%")
        assert finding.endswith("pointless.")
    assert len(told.tables) == len(told.charts) == 1
    found = dataclasses.replace(results, rows=rows)
    written = experiment.write(EXPERIMENT, found, str(tmp_path))
    assert all(Path(path).stat().st_size for path in written)


def test_broken_promises_are_failures(small: list[Row]) -> None:
    rows = [
        dataclasses.replace(row, wasted_reads=25 if row.learns else 100, filter_bits_per_key=8.2)
        for row in small
    ]
    assert story(rows).failures == [
        "learning leaves 1 of 4.0 wasted reads",
        "filters that learn take 8.20 bits per key",
    ]


def test_charts_have_plain_ticks_and_name_their_lines(small: list[Row]) -> None:
    assert faults(story(small).charts) == []
