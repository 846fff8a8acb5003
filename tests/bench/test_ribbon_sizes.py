"""The sizes of ribbon filters that experiments choose rates by."""

from __future__ import annotations

import random

import pytest

from bench.harness.ribbon_sizes import MIXED_KEYS, expected_bytes, fit, mean_bytes, rate_within
from lsmkv.filters.policy import RIBBON


@pytest.mark.parametrize("key_count", [32, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("error_rate", [0.01, 2.0**-9, 0.4])
def test_the_expected_bytes_are_the_mean_of_what_the_policy_builds(
    key_count: int, error_rate: float
) -> None:
    draw = random.Random(7)
    filters = 200
    written = sum(
        len(RIBBON.build([draw.getrandbits(63) for _ in range(key_count)], error_rate)[0])
        for _ in range(filters)
    )
    assert written == pytest.approx(filters * expected_bytes(key_count, error_rate), rel=0.04)


@pytest.mark.parametrize(
    "bits_per_key", [3, 9.6, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (6.5, 20))]
)
def test_the_rate_within_a_budget_uses_all_of_it(bits_per_key: float) -> None:
    filters = {30: 50, 31: 400}
    budget = bits_per_key * sum(keys * count for keys, count in filters.items()) / 8
    rate = rate_within(filters, budget)
    used = sum(count * expected_bytes(keys, rate) for keys, count in filters.items())
    assert used == pytest.approx(budget)


def test_large_filters_get_whole_columns_within_a_budget() -> None:
    keys = MIXED_KEYS + 1
    assert rate_within({keys: 1}, mean_bytes(keys, 7)) == 2.0**-7
    assert rate_within({keys: 1}, mean_bytes(keys, 7) - 1) == 2.0**-6


def test_no_filter_fits_into_nothing() -> None:
    assert rate_within({30: 5}, 0) == 1.0
    assert expected_bytes(30, 1.0) == expected_bytes(0, 0.5) == 0.0


def test_filters_that_came_out_too_large_are_written_again_with_a_higher_rate() -> None:
    filters, tried = {30: 100}, []

    def write(error_rate: float) -> int:
        tried.append(error_rate)
        return round(100 * expected_bytes(30, error_rate)) + 20  # more than expected

    rate = fit(filters, 3500, write)
    assert rate == tried[-1] > tried[0]
    assert len(tried) == 2
    assert 3450 < round(100 * expected_bytes(30, rate)) + 20 <= 3500
