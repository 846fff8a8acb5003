"""The experiment ``policies``: its loads, its counts beside theory, and what fails its report."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import islice

import pytest

from bench.experiments.policies import rivals, shift, skew, trees
from bench.experiments.policies.experiment import measure
from bench.experiments.policies.rows import Row, of
from bench.experiments.policies.story import failures
from bench.harness import experiment
from bench.harness.sweep import sweep
from bench.workloads.keys import key_number

SHIFT = shift.Task(shift.NEW_KEYS, 2000, 1970, lookups=300, phases=1, points=1)


@pytest.fixture(scope="module")
def full() -> list[Row]:
    """Small full trees of every style, with each kind of filters."""
    tasks = [
        trees.Task(trees.Tree(style, 4, 3, 1500), filters, trees.BITS, 1500, 1970)
        for style in trees.STYLES
        for filters in ("uniform", "monkey", "hits")
    ]
    return experiment.flattened(sweep(measure, tasks, None))


@pytest.fixture(scope="module")
def skewed() -> list[Row]:
    return experiment.flattened(sweep(measure, [skew.Task(0.9, skew.BITS, 10_000, 1970)], None))


# The parts


def test_reads_of_a_full_tree_are_those_of_the_formula(full: list[Row]) -> None:
    assert failures(full) == []
    hits = of(full, filters="hits")
    assert [round(row.reads) for row in hits] == [1, 3, 1]  # each run without filters
    for style in trees.STYLES:
        uniform, monkey = (row for row in of(full, load=style) if row.filters != "hits")
        assert monkey.filter_bytes == pytest.approx(uniform.filter_bytes, rel=0.05)
        assert monkey.wasted_reads < uniform.wasted_reads


def test_a_budget_is_kept_and_saves_what_theory_says(skewed: list[Row]) -> None:
    assert failures(skewed) == []
    ((monkeys, budgets),) = skew.pairs(skewed, is_compacted=True)
    (monkey,), (budget,) = monkeys, budgets
    assert (budget.expected_reads or 1) < 0.2 * (monkey.expected_reads or 0)
    assert budget.wasted_reads < 0.7 * monkey.wasted_reads


@pytest.mark.parametrize("load", shift.LOADS)
def test_nine_tenths_of_the_lookups_ask_in_another_tenth_in_each_phase(load: str) -> None:
    task, hot = dataclasses.replace(SHIFT, load=load), []
    for phase in range(shift.PHASES):
        keys = list(islice(task.absent(phase), 2000))
        ((tenth, count),) = Counter(key_number(key[:16]) // 200 for key in keys).most_common(1)
        assert count / 2000 == pytest.approx(0.91, abs=0.03)
        assert (len(set(keys)) == 2000) == (load == shift.NEW_KEYS)
        hot.append(tenth)
    assert len(set(hot)) == shift.PHASES


def test_two_counts_of_wasted_reads_agree() -> None:
    found = experiment.flattened(sweep(measure, [SHIFT], None))
    assert [row.filters for row in found] == list(shift.FILTERS)
    for row in found:
        assert row.wasted_reads == row.passed > 0
        assert row.recounted == row.counted
        assert (row.recounted is None) == (row.filters == "learning")


# The rivals


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


# The report


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"passed": 7}, "filters let 7 pass"),
        ({"recounted": 10**6}, "by a second count 1000000"),
        ({"filter_bytes": 10**9}, "of the memory of Monkey's"),
    ],
)
def test_a_broken_promise_of_a_shift_fails_the_report(
    change: dict[str, int], reason: str, skewed: list[Row]
) -> None:
    made = [
        dataclasses.replace(
            skewed[0], part="shift", load=shift.NEW_KEYS, filters=filters, wasted_reads=8, passed=8
        )
        for filters in shift.FILTERS
    ]
    changed = [*made[:-1], dataclasses.replace(made[-1], **change)]  # type: ignore[arg-type]
    assert [reason in failure for failure in failures(changed)] == [True]


def test_a_budget_that_is_not_kept_fails(skewed: list[Row]) -> None:
    *others, budget = skewed
    wasted = 9 * skewed[1].wasted_reads
    wrong = dataclasses.replace(budget, filter_bytes=3 * budget.filter_bytes, wasted_reads=wasted)
    assert len(failures([*others, wrong])) == 2
