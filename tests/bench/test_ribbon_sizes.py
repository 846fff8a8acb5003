"""The sizes of ribbon filters that experiments choose rates by."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from bench.harness.ribbon_sizes import MIXED_KEYS, fit, mean_bytes, rate_within
from lsmkv.filters.policy import RIBBON


def built_bytes(filters: Mapping[int, int], error_rate: float) -> int:
    """What the policy builds of random keys; ``filters`` has their number by their keys."""
    draw = random.Random(7)
    return sum(
        len(RIBBON.build([draw.getrandbits(63) for _ in range(keys)], error_rate)[0])
        for keys, count in filters.items()
        for _ in range(count)
    )


@pytest.mark.parametrize(
    ("filters", "bits_per_key"),
    [
        ({30: 25, 31: 200}, 3),
        ({30: 25, 31: 200}, 9.6),
        pytest.param({30: 25, 31: 200}, 6.5, marks=pytest.mark.slow),
        pytest.param({30: 25, 31: 200}, 20, marks=pytest.mark.slow),
        pytest.param({300: 200}, 8, marks=pytest.mark.slow),
    ],
)
def test_the_rate_within_a_budget_uses_all_of_it(
    filters: dict[int, int], bits_per_key: float
) -> None:
    budget = bits_per_key * sum(keys * count for keys, count in filters.items()) / 8
    assert built_bytes(filters, rate_within(filters, budget)) == pytest.approx(budget, rel=0.04)


def test_large_filters_get_whole_columns_within_a_budget() -> None:
    keys = MIXED_KEYS + 1
    assert rate_within({keys: 1}, mean_bytes(keys, 7)) == 2.0**-7
    assert rate_within({keys: 1}, mean_bytes(keys, 7) - 1) == 2.0**-6


def test_no_filter_fits_into_nothing() -> None:
    assert rate_within({30: 5}, 0) == 1.0


def test_filters_that_came_out_too_large_are_written_again_with_a_higher_rate() -> None:
    filters, tried = {30: 100}, []

    def write(error_rate: float) -> int:
        tried.append(error_rate)
        return 3500 + 20 * (2 - len(tried))

    rate = fit(filters, 3500, write)
    assert rate == tried[-1] > tried[0]
    assert len(tried) == 2
