"""The comparison of filters per block, chunk and table: trees, budgets and counts."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from bench.experiments.granularity.contenders import Contender
from bench.experiments.granularity.expected import TableSpans, expect_absent
from bench.experiments.granularity.experiment import (
    EXPERIMENT,
    FULL_BITS,
    QUICK_FLUSH_ENTRIES,
    contenders,
    tasks,
)
from bench.experiments.granularity.groups import PARTITION_BLOOM, TABLE_BLOOM, at_budget
from bench.experiments.granularity.groups import contender as contender_of
from bench.experiments.granularity.measure import index_searches, measure
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.shapes import STYLES, Load, Style, plan
from bench.experiments.granularity.story import BUDGET_TOLERANCE, failures
from bench.experiments.granularity.tasks import Effort, Task
from bench.harness.experiment import Plan, Results, run
from bench.harness.records import repeatable
from bench.harness.sweep import executor_for, sweep
from granularity_trees import UNIFORM, built, tiny_load
from lsmkv.inspection.store_info import StoreInfo
from lsmkv.stats import Stats

pytestmark = pytest.mark.slow  # real stores of every configuration

BITS = 8.0
TINY = Effort(absent=600, present=50, cached=40)
MONKEY = Contender("table", "bloom", "monkey")


def tiny_tasks(given: Plan) -> list[Task]:
    return [
        dataclasses.replace(task, load=tiny_load(task.load.style), effort=TINY)
        for task in tasks(given)
    ]


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    experiment = dataclasses.replace(EXPERIMENT, tasks=tiny_tasks)
    return run(experiment, ["--out", "unused", "--quick", "--bits", f"{BITS:g}"])


def shape(info: StoreInfo) -> list[tuple[int, int]]:
    return [(level.number, run.entry_count) for level in info.levels for run in level.runs]


@pytest.mark.parametrize("style", STYLES)
def test_the_shape_is_the_planned_one_whatever_the_filters(tmp_path: Path, style: Style) -> None:
    load = tiny_load(style)
    planned = [(table.level, table.entries) for table in plan(load)]
    again = built(tmp_path / "again", load)
    assert shape(built(tmp_path / "one", load)) == shape(again) == planned
    wide = Contender("block", "bloom", "monkey")
    assert shape(built(tmp_path / "wide", load, wide, 2.0**-16)) == planned
    assert all(len(run.tables) == 1 for level in again.levels for run in level.runs)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("contender", [Contender("block", "bloom", "monkey"), MONKEY], ids=str)
def test_rates_and_memory_are_known_before_a_store_is_built(
    tmp_path: Path, style: Style, contender: Contender
) -> None:
    load = tiny_load(style)
    info = built(tmp_path, load, contender)
    planned, options = plan(load), contender.options(load.options(), 0.02)
    assert [table.requested_rate for table in info.tables()] == [
        table.error_rate(options) for table in planned
    ]
    predicted = contender.memory_bytes(planned, load.options(), 0.02)
    assert info.filter_memory_bytes == predicted


@pytest.mark.parametrize("bits", FULL_BITS)
@pytest.mark.parametrize("contender", [c for c in contenders() if c.meets_any_budget], ids=str)
def test_budgets_are_met(contender: Contender, bits: float) -> None:
    for style in STYLES:
        load = Load(style, 127, QUICK_FLUSH_ENTRIES, 1)
        tables, budget = plan(load), bits * load.entries / 8
        rate = contender.rate_for(tables, load.options(), budget)
        assert contender.memory_bytes(tables, load.options(), rate) == pytest.approx(
            budget, rel=0.02
        )


def test_rows_keep_to_their_budget_and_have_no_wrong_answers(results: Results[Row]) -> None:
    for row in results.rows:
        assert row.wrong_answers == row.miscounted == 0
        assert row.filter_bits_per_key == row.filter_bytes * 8 / row.entries
        if row.budget_bits_per_key is not None and contender_of(row).meets_any_budget:
            assert abs(row.filter_bits_per_key / BITS - 1) < BUDGET_TOLERANCE
    assert not failures(results.rows)


def test_measured_rates_agree_with_the_exact_ones(results: Results[Row]) -> None:
    for row in results.rows:
        if row.filter_probes:
            expected = row.false_positive_rate_exact * row.filter_probes
            # Filters are a sample, too, and small: some times the binomial spread.
            assert abs(row.false_positives - expected) <= 8 * math.sqrt(expected) + 4
            reads = row.absent_block_reads_per_lookup * row.absent_lookups
            assert round(reads) == row.false_positives


def test_cached_filters_are_read_whole_per_table(results: Results[Row]) -> None:
    row = at_budget(results.rows, "leveled", TABLE_BLOOM, "uniform", BITS)
    assert row.largest_filter_read_bytes == pytest.approx(row.filter_bytes * 24 / 31, rel=0.01)
    # A cache of three quarters of all filters cannot hold the largest: each lookup reads it.
    assert row.cached_uniform_filter_read_bytes_per_lookup >= row.largest_filter_read_bytes


def test_counts_repeat_in_other_processes() -> None:
    wanted = [
        Task(tiny_load(style), contender, BITS, None, TINY, 0.75)
        for style, contender in zip(STYLES, (UNIFORM, MONKEY), strict=True)
    ]
    with executor_for(2) as pool:
        elsewhere = sweep(measure, wanted, pool)
    here = sweep(measure, wanted, None)
    assert repeatable(elsewhere) == repeatable(here)


def test_index_searches_follow_the_order_of_a_lookup() -> None:
    counted = Stats(filter_negatives=10, filter_true_positives=3, filter_false_positives=2)
    assert index_searches(counted, UNIFORM) == 15
    assert index_searches(counted, MONKEY) == 5
    assert index_searches(counted, Contender("chunk", "bloom", "uniform")) == 5
    bare = Stats(unfiltered_probes=7)
    assert index_searches(bare, Contender("table", "none", "uniform")) == 7


def test_a_key_in_range_asks_one_filter_and_what_passes_costs_a_read() -> None:
    per_block = TableSpans(b"b", b"m", [b"b", b"k"], [0.25, 0.5])
    keys = [b"a", b"c", b"g", b"l", b"z"]  # outside, two in block 0, block 1, outside
    found = expect_absent([per_block], keys)
    assert (found.out_of_range, found.probes, found.block_reads) == (2, 3, 1.0)
    per_table = TableSpans(b"b", b"m", [b"b"], [0.1])
    found = expect_absent([per_table, per_block], keys)
    assert (found.out_of_range, found.probes) == (4, 6)
    assert found.block_reads == pytest.approx(1.3)


def test_broken_promises_fail_the_report(results: Results[Row]) -> None:
    row = results.rows[1]
    for change, reason in (
        ({"shape": "0:1"}, "different shapes"),
        ({"wrong_answers": 2}, "2 wrong answers"),
        ({"miscounted": 3}, "off by 3"),
        ({"filter_bits_per_key": 2 * BITS}, "off its budget"),
    ):
        changed = dataclasses.replace(row, **change)
        assert any(reason in failure for failure in failures([*results.rows, changed]))


def test_chunks_that_waste_more_than_tables_fail_the_report(results: Results[Row]) -> None:
    row = at_budget(results.rows, "leveled", PARTITION_BLOOM, "uniform", BITS)
    reads = row.absent_block_reads_expected
    changed = dataclasses.replace(row, absent_block_reads_expected=1.1 * reads)
    others = [other for other in results.rows if other is not row]
    (failure,) = failures([*others, changed])
    assert "from those per table" in failure
