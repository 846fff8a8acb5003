"""The experiment ``learning``: its claims at a smaller size."""

from __future__ import annotations

import dataclasses

import pytest

from bench.experiments.learning import rivals
from bench.experiments.learning.experiment import EXPERIMENT
from bench.experiments.learning.measure import lookups, measure
from bench.experiments.learning.rows import Row, join
from bench.experiments.learning.story import LEAST_RATIO, MOST_LISTED_BITS, story
from bench.experiments.learning.tables import pairs, ratio_text, ratios
from bench.experiments.learning.tasks import Task
from bench.harness import experiment
from bench.harness.intervals import FEWEST_EVENTS
from headlines import assert_headline

SMALL = ("--quick", "--out", "unused", "--keys", "300", "--repetitions", "1")


@pytest.fixture(scope="module")
def uncached(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Three repetitions without a block cache."""
    tasks = [Task(6000, 60_000, 0.0, False, 0.01, 1970 + number, number) for number in range(3)]
    return join(measure(task, str(tmp_path_factory.mktemp("learning"))) for task in tasks)


@pytest.fixture(scope="module")
def small() -> list[Row]:
    return experiment.run(EXPERIMENT, SMALL).rows


@pytest.mark.slow
def test_learning_spares_four_fifths_of_the_wasted_reads(uncached: list[Row]) -> None:
    ((ordinary, learning),) = pairs(uncached)
    assert min(ratios(ordinary, learning)) >= 6.5 > LEAST_RATIO
    assert all(row.wasted_reads <= 60 for row in learning)
    assert all(row.wasted_reads >= 350 for row in ordinary)


@pytest.mark.slow
def test_the_list_takes_a_quarter_of_a_bit_for_each_key(uncached: list[Row]) -> None:
    for row in uncached:
        assert row.learnt_bits_per_key <= MOST_LISTED_BITS
        assert row.learns == (row.learnt_bits_per_key > 0)


def test_an_lru_forgets_what_was_asked_longest_ago() -> None:
    asked = [b"a", b"b", b"a", b"c", b"a", b"b"]
    assert rivals.lru(asked, 2 * rivals.LRU_ENTRY_BYTES).reads == 4
    assert rivals.lru(asked, 3 * rivals.LRU_ENTRY_BYTES).reads == 3


def test_an_adaptive_quotient_filter_errs_once_for_a_key() -> None:
    keys = [b"%d" % number for number in range(2000)]
    absent = [b"-%d" % number for number in range(3000)]
    once = rivals.adaptive_quotient(absent, keys)
    assert 3 <= once.reads <= 40  # rate 2^-7 * load
    assert rivals.adaptive_quotient(absent * 3, keys) == once


def test_stacked_filters_deny_what_they_were_trained_with() -> None:
    asked = [b"%d" % number for number in range(100)]
    assert 100 <= rivals.stacked(asked * 10, set(asked), []).reads <= 145  # 1 % stay
    assert rivals.stacked([*[b"other"] * 100, *asked * 9], set(asked), []).reads >= 880


@pytest.mark.slow
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


def test_broken_promises_are_failures(small: list[Row]) -> None:
    rows = [
        dataclasses.replace(
            row,
            wasted_reads=25 if row.learns else 100,
            filter_bits_per_key=8.2 if row.learns else 7.2,
            filter_bits_per_key_before=7.2,
            key_count=10_000,
            counted_again=24 if (row.load, row.how) == ("drift", "list") else -1,
        )
        for row in small
    ]
    assert story(rows).failures == [
        "learning leaves 1 of 4.0 wasted reads",
        "the list takes 1.00 bits per key",
        "drift, repetition 0: list wastes 25 reads, by the second count 24",
    ]


@pytest.mark.parametrize("wasted", [FEWEST_EVENTS - 1, FEWEST_EVENTS])
def test_a_ratio_is_told_of_enough_reads_alone(small: list[Row], wasted: int) -> None:
    row = dataclasses.replace(small[0], wasted_reads=10 * FEWEST_EVENTS)
    fewer = dataclasses.replace(row, wasted_reads=wasted)
    assert (ratio_text([row], [fewer]) == "-") == (wasted < FEWEST_EVENTS)


def test_the_report_begins_with_a_number(small: list[Row]) -> None:
    assert_headline(story(small))
