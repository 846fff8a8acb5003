"""Filter memory among runs: counted reads are those of the papers' formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiments.allocation.measure import measure
from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.story import failures, story
from bench.experiments.allocation.tables import by_levels
from bench.experiments.allocation.tasks import BITS, Task
from bench.experiments.allocation.trees import STYLES, Allocation, Tree
from bench.harness.sweep import sweep
from headlines import assert_headline

ALLOCATIONS: tuple[Allocation, ...] = ("uniform", "monkey", "hits")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    tasks = [
        Task(Tree(style, 4, 3, 1500), allocation, BITS, 1500, 1970)
        for style in STYLES
        for allocation in ALLOCATIONS
    ]
    return list(sweep(measure, tasks, None))


def test_counted_reads_are_those_of_the_formula(rows: list[Row]) -> None:
    assert failures(rows) == []
    assert len(story(rows).findings) == 5
    assert len(by_levels(rows)) == len(rows)


def test_without_filters_in_the_last_level_an_absent_key_reads_each_of_its_runs(
    rows: list[Row],
) -> None:
    hits = {row.style: row for row in rows if row.allocation == "hits"}
    assert [round(hits[style].measured_reads) for style in STYLES] == [1, 3, 1]
    assert all(row.filter_bits_per_key < BITS / 3 for row in hits.values())


def test_monkey_takes_the_same_memory_and_wastes_fewer_reads(rows: list[Row]) -> None:
    for style in STYLES:
        uniform, monkey = (row for row in rows if row.style == style and row.allocation != "hits")
        assert monkey.filter_bits_per_key == pytest.approx(uniform.filter_bits_per_key, rel=0.05)
        assert monkey.wasted_reads < uniform.wasted_reads


@pytest.mark.parametrize("bits", [0.5, 2.0])
def test_rates_above_a_half_take_the_memory_that_is_compared(tmp_path: Path, bits: float) -> None:
    tree = Tree("lazy-leveled", 4, 3, 1500)
    assert tree.rates("monkey", bits)[-1] > 0.5
    row = measure(Task(tree, "monkey", bits, 1499, 1970), str(tmp_path))
    assert row.filter_bits_per_key == pytest.approx(bits, abs=0.1)
    assert failures([row]) == []


@pytest.mark.parametrize("style", STYLES)
def test_the_closed_form_is_the_sum_of_the_rates_of_many_levels(style: str) -> None:
    for ratio in (2, 3, 10):
        tree = Tree(style, ratio, 25 if ratio == 2 else 12, 10**15)  # type: ignore[arg-type]
        assert tree.reads("monkey", 10) == pytest.approx(tree.monkey_reads(10), rel=1e-3)


def test_the_report_begins_with_a_number(rows: list[Row]) -> None:
    assert_headline(story(rows))
