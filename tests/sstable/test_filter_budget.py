"""A job's budget of filter memory: spent stretch by stretch."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from lsmkv.sstable.filter_budget import FilterBudget, FilterSpender, Stretch
from lsmkv.sstable.format import TableFormat


def spend(budget: FilterBudget, keys: list[int], overhead: float) -> float:
    """The bytes of filters of 30 keys a block that take ``overhead`` times the formula."""
    spender, total = FilterSpender(budget), 0.0
    for stretch, count in zip(budget.stretches, keys, strict=True):
        for _ in range(0, count, 30):
            rate = spender.block_rate(stretch.first)
            spender.note_block(30)
            size_bytes = round(overhead * 30 * -math.log(rate) / math.log(2) ** 2 / 8)
            spender.note_filter(30, rate, size_bytes)
            total += size_bytes
    return total


@pytest.mark.parametrize("overhead", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("kept", [0.9, 1.0, 1.1])
def test_a_budget_is_spent_whatever_filters_take_and_merges_keep(
    overhead: float, kept: float
) -> None:
    dice = random.Random(3)
    stretches = [Stretch(b"%03d" % n, 300, dice.choice((1, 10))) for n in range(250)]
    budget = FilterBudget(300 * 250, [Stretch(b"", 300, 1), *stretches[1:]])
    spent = spend(budget, [round(300 * kept)] * 250, overhead)
    assert spent == pytest.approx(budget.size_bytes, rel=0.02)


def test_a_table_of_one_filter_gets_the_rate_of_all_its_blocks() -> None:
    hot_and_cold = FilterBudget(1250, [Stretch(b"", 500, 100), Stretch(b"m", 500, 1)])
    spender = FilterSpender(hot_and_cold)
    for first in (b"a", b"n"):
        spender.block_rate(first)
        spender.note_block(500)
    assert spender.table_rate(1000) == pytest.approx(math.exp(-10 * math.log(2) ** 2))


def test_a_packed_budget_is_the_same_unpacked() -> None:
    budget = FilterBudget(1e5 / 3, [Stretch(b"", 2.5, 0.1), Stretch(b"\xff\0", 7.0, 1e-9)])
    assert FilterBudget.unpacked(budget.packed()) == budget


def test_helper_processes_are_told_a_format_in_plain_fields() -> None:
    # A compiled class keeps no other annotation, and messages are decoded by these.
    plain = {"int", "bool", "float", "str", "bytes"}
    types = {field.name: field.type for field in dataclasses.fields(TableFormat)}
    names = {name: kind if isinstance(kind, str) else kind.__name__ for name, kind in types.items()}
    assert {name for name, kind in names.items() if kind not in plain} == set()
