from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmkv
from lsmkv.stats import Histogram, Stats

values = st.lists(st.floats(0, 1e12), max_size=30)


def filled(numbers: list[float]) -> Histogram:
    histogram = Histogram()
    for number in numbers:
        histogram.add(number)
    return histogram


@given(values)
def test_a_histogram_knows_count_total_mean_and_maximum(numbers: list[float]) -> None:
    histogram = filled(numbers)
    assert histogram.count == len(numbers) == sum(histogram.buckets)
    assert histogram.total == pytest.approx(sum(numbers))
    assert histogram.maximum == max(numbers, default=0.0)
    assert histogram.mean() == pytest.approx(sum(numbers) / max(1, len(numbers)))


def test_bucket_i_holds_values_up_to_two_to_the_i() -> None:
    assert [filled([value]).buckets.index(1) for value in (0, 1, 2, 3, 4, 7, 8)] == [
        0, 1, 2, 2, 3, 3, 4,
    ]  # fmt: skip


@given(values.filter(bool), st.floats(0, 100))
def test_a_percentile_is_the_upper_edge_of_its_bucket(numbers: list[float], percent: float) -> None:
    ordered = sorted(numbers)
    rank = max(1, -int(-len(ordered) * percent // 100))  # rounded up
    exact = ordered[rank - 1]
    edge = filled(numbers).percentile(percent)
    assert exact < edge <= max(1.0, 2 * exact)


@given(values, values)
def test_the_difference_of_histograms_is_what_was_added(
    before: list[float], after: list[float]
) -> None:
    histogram = filled(before)
    earlier = histogram.copy()
    for number in after:
        histogram.add(number)
    added = histogram - earlier
    assert (added.count, added.buckets) == (len(after), filled(after).buckets)


def test_stats_subtract_field_by_field() -> None:
    stats = Stats(gets=2, block_reads=7)
    earlier = stats.copy()
    stats.gets += 5
    stats.write_stop_s += 0.5
    stats.flush_us.add(100)
    difference = stats - earlier
    assert (difference.gets, difference.block_reads, difference.write_stop_s) == (5, 0, 0.5)
    assert difference.flush_us.count == 1


def test_a_copy_of_stats_shares_no_histogram() -> None:
    stats = Stats()
    copied = stats.copy()
    for field in dataclasses.fields(Stats):
        value = getattr(stats, field.name)
        if isinstance(value, Histogram):
            value.add(1)
            assert getattr(copied, field.name).count == 0


def test_as_dict_has_every_counter_and_sums_up_histograms() -> None:
    stats = Stats(gets=3)
    stats.sync_us.add(10)
    found = stats.as_dict()
    assert found.keys() == {field.name for field in dataclasses.fields(Stats)}
    assert found["gets"] == 3
    assert found["sync_us"] == {"count": 1, "mean": 10.0, "p50": 16.0, "p99": 16.0, "max": 10}


def test_every_counter_is_described() -> None:
    source = Path(lsmkv.__file__).with_name("stats.py").read_text(encoding="utf-8")
    (counters,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Stats"
    ]
    described = ast.get_docstring(counters) or ""
    for field in dataclasses.fields(Stats):
        assert described.count(f"\n    {field.name}: ") == 1
