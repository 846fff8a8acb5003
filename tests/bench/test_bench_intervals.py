"""Intervals of rates: repeated trials, clusters of trials, and stores asked more than they have keys."""

from __future__ import annotations

import math
import random

import pytest
from scipy.stats import binomtest

from bench.harness.intervals import (
    clustered_interval,
    effective_trials,
    rate_interval,
    ratio_interval,
)


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (1, 50), (7, 1000), (50, 50)])
def test_the_interval_of_independent_trials_is_clopper_and_pearsons(hits: int, trials: int) -> None:
    exact = binomtest(hits, trials).proportion_ci(method="exact")
    assert rate_interval(hits, trials) == pytest.approx((exact.low, exact.high))


def test_more_hits_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="hits=6: must be from 0 to the number of trials, 5"):
        rate_interval(6, 5)


def test_trials_that_are_all_made_three_times_count_once() -> None:
    assert effective_trials([3] * 500) == 500
    assert rate_interval(30, 1500, effective=500) == pytest.approx(rate_interval(10, 500))


def test_repeated_trials_widen_the_interval_even_when_no_hit_shows_them() -> None:
    once = clustered_interval([0] * 50, 30)
    repeated = clustered_interval([0] * 50, 30, least_effect=10.0)
    assert repeated.high == pytest.approx(10 * once.high, rel=0.05)


def test_clusters_of_different_sizes_are_weighed() -> None:
    even = clustered_interval([1, 2, 1, 2], [100, 200, 100, 200])
    uneven = clustered_interval([3, 0, 3, 0], [100, 200, 100, 200])
    assert even.rate == uneven.rate == 0.01
    assert even.design_effect == 1.0 < uneven.design_effect


def test_the_interval_of_a_ratio_is_wider_by_the_design_effects() -> None:
    low, high = ratio_interval(400, 100)
    wide_low, wide_high = ratio_interval(400, 100, 4.0, 4.0)
    assert math.log(wide_high / wide_low) == pytest.approx(2 * math.log(high / low), rel=0.05)


def test_intervals_hold_the_rate_of_trials_in_clusters_that_repeat() -> None:
    """The rates of filters are exponential around 5 %, and each answer is given four times."""
    draw = random.Random(3)
    covered = as_if_independent = 0
    for _ in range(300):
        rates = [min(1.0, draw.expovariate(20)) for _ in range(60)]
        hits = [4 * sum(draw.random() < rate for _ in range(30)) for rate in rates]
        found = clustered_interval(hits, 120, least_effect=4.0)
        covered += found.low <= 0.05 <= found.high
        low, high = rate_interval(sum(hits), 60 * 120)
        as_if_independent += low <= 0.05 <= high
    assert 0.92 * 300 <= covered <= 0.98 * 300
    assert as_if_independent < 0.75 * 300
