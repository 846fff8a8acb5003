"""A job's plan for filters: a rate for each table, and a size for all."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from lsmkv.sstable.filter_plan import FilterPlan, PlannedPart
from lsmkv.sstable.format import TableFormat


def size_of(keys: float, rate: float) -> float:
    return keys * -math.log(rate) / math.log(2) ** 2 / 8


def planned(*parts: tuple[bytes, float, float]) -> list[PlannedPart]:
    return [PlannedPart(first, keys, rate, size_of(keys, rate)) for first, keys, rate in parts]


@pytest.mark.parametrize(
    ("overhead", "kept"), [(1.0, 1.0), (0.9, 1.0), (1.1, 1.0), (1.0, 0.9), (1.0, 1.1)]
)
@pytest.mark.parametrize("table_keys", [130, 300])
def test_a_planned_size_is_kept_whatever_filters_take_and_merges_keep(
    overhead: float, kept: float, table_keys: int
) -> None:
    dice = random.Random(3)
    parts = planned(*((b"%05d" % n, 300, dice.choice((0.001, 0.02))) for n in range(0, 30000, 300)))
    plan, spent = FilterPlan(parts), 0.0
    keys = round(table_keys * kept)
    for first in range(0, 30000, table_keys):
        size_bytes = overhead * size_of(keys, plan.error_rate(b"%05d" % first))
        plan.note_table(keys, round(size_bytes), 0)
        spent += size_bytes
    assert spent == pytest.approx(sum(part.size_bytes for part in parts), rel=0.025)


def test_a_table_gets_the_rate_of_the_part_where_it_begins() -> None:
    plan = FilterPlan(planned((b"b", 100, 0.01), (b"m", 100, 0.1)))
    assert plan.error_rate(b"a") == plan.error_rate(b"c") == pytest.approx(0.01)
    plan.note_table(100, round(size_of(100, 0.01)), 0)
    assert plan.error_rate(b"m") == pytest.approx(0.1, rel=0.02)


def test_a_table_across_two_parts_gets_the_mean_of_their_bits() -> None:
    plan = FilterPlan(planned((b"b", 150, 0.01), (b"m", 150, 0.0001)))
    plan.note_table(100, round(size_of(100, 0.01)), 0)
    assert plan.error_rate(b"f") == pytest.approx(0.001, rel=0.03)


def test_the_last_table_does_not_pay_for_all() -> None:
    plan = FilterPlan(planned((b"b", 100, 0.01), (b"m", 100, 0.01)))
    plan.note_table(100, 10_000, 0)
    assert plan.error_rate(b"m") == pytest.approx(0.01**0.8)


def test_filters_do_without_what_indexes_take_beyond_the_plan() -> None:
    parts = [
        PlannedPart(b"%05d" % first, 300, 0.001, size_of(300, 0.001), 30.0)
        for first in range(0, 30000, 300)
    ]
    plan, spent = FilterPlan(parts), 0
    for part in parts:
        filter_bytes = round(size_of(300, plan.error_rate(part.first)))
        plan.note_table(300, filter_bytes, 270)
        spent += filter_bytes + 270
    assert spent == pytest.approx(sum(part.size_bytes + 30 for part in parts), rel=0.005)


def test_indexes_that_take_the_whole_budget_leave_no_filters() -> None:
    plan = FilterPlan(planned((b"b", 100, 0.01), (b"m", 100, 0.01)))
    plan.note_table(100, 100, 10_000)
    assert plan.error_rate(b"m") == pytest.approx(1.0, abs=0.05)


def test_a_packed_plan_is_the_same_unpacked() -> None:
    plan = FilterPlan(planned((b"", 2.5, 0.1), (b"\xff\0", 7.0, 1e-9)))
    assert FilterPlan.unpacked(plan.packed()).packed() == plan.packed()


def test_helper_processes_are_told_a_format_in_plain_fields() -> None:
    # A compiled class keeps no other annotation, and messages are decoded by these.
    plain = {"int", "bool", "float", "str", "bytes"}
    types = {field.name: field.type for field in dataclasses.fields(TableFormat)}
    names = {name: kind if isinstance(kind, str) else kind.__name__ for name, kind in types.items()}
    assert {name for name, kind in names.items() if kind not in plain} == set()
