"""The experiment ``adaptive``: its loads, its counts, and what fails its report."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import islice, product
from pathlib import Path

import pytest

from bench.experiments.adaptive.experiment import EXPERIMENT
from bench.experiments.adaptive.measure import HOT_LOOKUPS, lookups, measure
from bench.experiments.adaptive.rows import Row
from bench.experiments.adaptive.story import failures, memory_share, of_filters, story, wasted
from bench.experiments.adaptive.tasks import (
    BUDGET,
    HOWS,
    LEARNING,
    LOADS,
    MONKEY,
    NEW_KEYS,
    PHASES,
    POINTS,
    POPULAR_KEYS,
    UNIFORM,
    Task,
)  # fmt: skip
from bench.harness import experiment
from bench.workloads.keys import key_number
from headlines import assert_headline

TASK = Task(NEW_KEYS, 2000, 100, 1970, 0)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return experiment.run(EXPERIMENT, ["--quick", "--out", "unused", "--keys", "2000"]).rows


@pytest.fixture
def made() -> list[Row]:
    """Rows of some counts, which nobody measured."""
    places = product(LOADS, HOWS, range(PHASES), range(POINTS))
    return [
        Row(
            load=load,
            how=how,
            repetition=0,
            seed=1,
            key_count=2000,
            phase=phase,
            point=point,
            lookup_count=1000,
            wasted_reads=30 - point,
            passed=30 - point,
            recounted=-1,
            last_reads=-1,
            memory_asked_bytes=1900 if how == BUDGET else 0,
            memory_bytes=2000,
            entry_count=2000,
            run_count=3,
        )
        for load, how, phase, point in places
    ]


def asked(load: str, phase: int) -> list[bytes]:
    return list(islice(lookups(dataclasses.replace(TASK, load=load), phase), 2000))


# The loads


@pytest.mark.parametrize("load", LOADS)
def test_nine_tenths_of_the_lookups_ask_in_another_tenth_in_each_phase(load: str) -> None:
    hot = []
    for phase in range(PHASES):
        tenths = Counter(key_number(key[:16]) // 200 for key in asked(load, phase))
        ((tenth, count),) = tenths.most_common(1)
        assert count / 2000 == pytest.approx(HOT_LOOKUPS + (1 - HOT_LOOKUPS) / 10, abs=0.03)
        hot.append(tenth)
    assert len(set(hot)) == PHASES


def test_new_keys_are_asked_for_once_and_popular_ones_again() -> None:
    new = [key for phase in range(PHASES) for key in asked(NEW_KEYS, phase)]
    assert len(set(new)) == len(new)
    assert Counter(asked(POPULAR_KEYS, 0)).most_common(1)[0][1] > 2000 / 20


def test_lookups_are_those_of_the_seed() -> None:
    assert asked(NEW_KEYS, 1) == asked(NEW_KEYS, 1)
    other = dataclasses.replace(TASK, seed=1971)
    assert list(islice(lookups(other, 1), 2000)) != asked(NEW_KEYS, 1)


# The counts


@pytest.mark.parametrize("load", LOADS)
def test_two_counts_of_wasted_reads_agree(
    load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, count in (("PHASES", 1), ("POINTS", 1), ("STEPS", 2)):
        monkeypatch.setattr(f"bench.experiments.adaptive.measure.{name}", count)
    found = measure(dataclasses.replace(TASK, load=load, lookups=300), str(tmp_path))
    assert [row.how for row in found] == list(HOWS)
    for row in found:
        assert row.wasted_reads == row.passed > 0
        assert row.recounted == row.last_reads
        assert (row.recounted < 0) == (row.how == LEARNING)


@pytest.mark.slow
def test_every_kind_of_filters_is_asked_the_same_and_both_counts_agree(rows: list[Row]) -> None:
    assert failures(rows) == []
    for load in LOADS:
        for how in HOWS:
            here = of_filters(rows, load, how)
            assert len(here) == PHASES * POINTS
            assert sum(row.lookup_count for row in here) == PHASES * POINTS * 4 * 80
            assert sum(row.recounted >= 0 for row in here) == (PHASES if how != LEARNING else 0)


@pytest.mark.slow
def test_filters_take_the_same_memory(rows: list[Row]) -> None:
    for load in LOADS:
        for how in HOWS:
            assert memory_share(rows, load, how) == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_monkeys_rates_waste_fewer_reads_than_one_rate(rows: list[Row]) -> None:
    for load in LOADS:
        monkey, uniform = (wasted(of_filters(rows, load, how)) for how in (MONKEY, UNIFORM))
        assert 20 < monkey < 0.8 * uniform


@pytest.mark.slow
def test_filters_learn_keys_that_come_again(rows: list[Row]) -> None:
    new, popular = (wasted(of_filters(rows, load, LEARNING)) for load in LOADS)
    assert popular < 0.7 * new


@pytest.mark.slow
def test_a_budget_wastes_less_at_the_end_of_a_phase_than_after_a_shift(rows: list[Row]) -> None:
    here = [row for row in of_filters(rows, NEW_KEYS, BUDGET) if row.phase]
    early, late = (wasted([row for row in here if row.point == at]) for at in (0, POINTS - 1))
    assert late < 0.7 * early


# The report


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"passed": 7}, "filters let 7 pass"),
        ({"recounted": 10**6}, "by a second count 1000000"),
        ({"memory_bytes": 10**9}, "of the memory of Monkey's"),
    ],
)
def test_a_broken_promise_fails_the_report(
    made: list[Row], change: dict[str, int], reason: str
) -> None:
    last = dataclasses.replace(made[-1], wasted_reads=8, passed=8)
    changed = [*made[:-1], dataclasses.replace(last, **change)]  # type: ignore[arg-type]
    assert [reason in failure for failure in failures(changed)] == [True]


def test_the_report_begins_with_a_number(made: list[Row]) -> None:
    assert_headline(story(made))
