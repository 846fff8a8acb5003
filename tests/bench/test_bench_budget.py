"""A budget of filter memory, measured: it is kept, and saves reads where lookups are skewed."""

from __future__ import annotations

import pytest

from bench.experiments.budget.measure import measure
from bench.experiments.budget.rows import Row, join
from bench.experiments.budget.story import failures, story
from bench.experiments.budget.tables import formula_reads, pairs
from bench.experiments.budget.tasks import BITS, Task
from bench.harness.sweep import sweep
from headlines import assert_headline


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return join(sweep(measure, [Task(0.9, BITS, 5000, 1970)], None))


def test_a_budget_is_kept_and_reads_are_as_promised(rows: list[Row]) -> None:
    assert failures(rows) == []


def test_a_skew_that_theory_uses_saves_reads(rows: list[Row]) -> None:
    ((monkey, budget),) = pairs(rows)
    assert formula_reads(budget) < 0.2 * formula_reads(monkey)
    assert budget.wasted_reads < 0.7 * monkey.wasted_reads


def test_a_budget_that_is_not_kept_fails(rows: list[Row]) -> None:
    ((monkey, budget),) = pairs(rows)
    wrong = {name: getattr(budget, name) for name in budget.__dataclass_fields__}
    wrong |= {"filter_bytes": 2 * budget.filter_bytes, "wasted_reads": 9 * monkey.wasted_reads}
    assert len(failures([monkey, Row(**wrong)])) == 2


def test_the_report_begins_with_a_number(rows: list[Row]) -> None:
    assert_headline(story(rows))
