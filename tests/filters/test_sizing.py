"""The maths of one filter: sizes, probes and error rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lsmkv.filters.maths.sizing import (
    MAX_PROBES,
    bits_for,
    classic_rate,
    exact_rate,
    filter_bytes_for,
    keys_for,
    lower_bound_bits,
    probes_for,
    rate_for,
)

ROUNDING = 1e-12

bit_counts = st.integers(1, 1 << 40)
key_counts = st.integers(1, 1 << 36)
probe_counts = st.integers(1, MAX_PROBES)
error_rates = st.floats(1e-12, 0.999)


def brute_force_rate(bit_count: int, key_count: int, probe_count: int) -> Fraction:
    """E[(X/m)^k] from the whole distribution of X, counted throw by throw."""
    throws = key_count * probe_count
    ways = [1] + [0] * bit_count  # ways[x]: sequences of throws that set x bits
    for _ in range(throws):
        ways = [0] + [
            ways[x] * x + ways[x - 1] * (bit_count - x + 1) for x in range(1, bit_count + 1)
        ]
    weighted = sum(count * x**probe_count for x, count in enumerate(ways))
    return Fraction(weighted, bit_count ** (throws + probe_count))


def assert_right_to_the_last_place(bit_count: int, key_count: int, probe_count: int) -> None:
    truth = brute_force_rate(bit_count, key_count, probe_count)
    error = Fraction(exact_rate(bit_count, key_count, probe_count)) - truth
    assert abs(error) <= truth / 2**52


# --- sizes ---


@pytest.mark.parametrize(
    ("keys", "rate", "bits"),
    [
        (1000, 0.01, 9586),
        (1_000_000, 1e-6, 28_755_176),
        (1_000_000, 1e-3, 14_377_588),
        (1, 5e-324, 1550),
    ],
)
def test_keys_take_so_many_bits(keys: int, rate: float, bits: int) -> None:
    assert bits_for(keys, rate) == bits


@pytest.mark.parametrize("rate", [1.0, 1.5, math.inf])
def test_a_rate_of_one_or_more_takes_no_bits(rate: float) -> None:
    assert bits_for(1000, rate) == filter_bytes_for(1000, rate) == 0
    assert bits_for(0, 0.01) == filter_bytes_for(0, 0.01) == 0
    assert lower_bound_bits(1000, rate) == 0.0


@given(key_counts, error_rates)
def test_bytes_are_bits_rounded_up(key_count: int, error_rate: float) -> None:
    spare_bits = 8 * filter_bytes_for(key_count, error_rate) - bits_for(key_count, error_rate)
    assert 0 <= spare_bits < 8


@given(key_counts, error_rates)
def test_a_bloom_filter_takes_1_44_times_the_lower_bound(key_count: int, error_rate: float) -> None:
    bound = lower_bound_bits(key_count, error_rate) / math.log(2)
    assert bound * (1 - ROUNDING) <= bits_for(key_count, error_rate) <= bound * (1 + ROUNDING) + 1


@given(st.integers(0, 1 << 40), error_rates)
def test_keys_for_gives_the_most_keys_that_fit(bit_count: int, error_rate: float) -> None:
    keys = keys_for(bit_count, error_rate)
    assert bits_for(keys, error_rate) <= bit_count < bits_for(keys + 1, error_rate)


# --- rates ---


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 10))
@example(288, 30, 7)  # a block's filter
@example(3, 2, 12)
def test_exact_rate_is_right_to_the_last_place(bits: int, keys: int, probes: int) -> None:
    assert_right_to_the_last_place(bits, keys, probes)


def test_the_classic_rate_is_right_for_large_filters() -> None:
    exact = exact_rate(10_000_000, 1_000_000, 7)
    assert classic_rate(10_000_000, 1_000_000, 7) == pytest.approx(exact, rel=1e-6)


@settings(deadline=None)
@given(bit_counts, key_counts, probe_counts)
def test_the_exact_rate_is_never_below_the_classic(bits: int, keys: int, probes: int) -> None:
    assert exact_rate(bits, keys, probes) >= classic_rate(bits, keys, probes) * (1 - ROUNDING)


@settings(deadline=None)
@given(bit_counts, key_counts, probe_counts)
def test_rates_are_chances(bits: int, keys: int, probes: int) -> None:
    assert 0.0 <= classic_rate(bits, keys, probes) <= 1.0
    assert 0.0 <= exact_rate(bits, keys, probes) <= 1.0


@settings(deadline=None)
@given(bit_counts, key_counts, probe_counts)
def test_one_more_key_never_lowers_the_exact_rate(bits: int, keys: int, probes: int) -> None:
    assert exact_rate(bits, keys, probes) <= exact_rate(bits, keys + 1, probes) * (1 + ROUNDING)


@settings(deadline=None)
@given(bit_counts, key_counts, probe_counts)
def test_one_more_bit_never_raises_the_exact_rate(bits: int, keys: int, probes: int) -> None:
    assert exact_rate(bits, keys, probes) >= exact_rate(bits + 1, keys, probes) * (1 - ROUNDING)


@pytest.mark.parametrize("rate", [classic_rate, exact_rate])
@pytest.mark.parametrize(
    ("bits", "keys", "probes", "passed"),
    [
        (100, 0, 7, 0.0),  # no keys
        (0, 10, 7, 1.0),  # no bits
        (0, 0, 7, 1.0),
        (100, 10, 0, 1.0),  # no probes
        (100, 0, 0, 1.0),
        (8, 10_000, 30, 1.0),  # crowded
        (1 << 60, 1, 30, 0.0),  # too small for a float
    ],
)
def test_extreme_filters_reject_all_or_nothing(
    rate: Callable[[int, int, int], float], bits: int, keys: int, probes: int, passed: float
) -> None:
    assert rate(bits, keys, probes) == passed


# --- probes ---


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 900))
def test_probes_for_is_the_best_of_all(keys: int, bits: int) -> None:
    every = range(1, MAX_PROBES + 1)
    assert probes_for(bits, keys) == min(every, key=lambda probes: exact_rate(bits, keys, probes))


def test_probes_stop_at_the_cap() -> None:
    assert probes_for(1_000_000, 1000) == MAX_PROBES


@pytest.mark.parametrize(("bits", "keys"), [(0, 0), (0, 10), (100, 0)])
def test_an_empty_filter_makes_one_probe(bits: int, keys: int) -> None:
    assert probes_for(bits, keys) == 1


@settings(deadline=None)
@given(st.integers(100_000, 10_000_000), st.floats(1e-6, 0.3))
def test_a_large_filter_achieves_the_rate_it_was_sized_for(keys: int, rate: float) -> None:
    # Up to 2.2 % above it (at p = 0.181), as k has to be a whole number.
    achieved = rate_for(bits_for(keys, rate), keys)
    assert rate * 0.999 <= achieved <= rate * 1.025


# --- arguments ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bits_for(-1, 0.01), "key_count=-1: must be 0 or more"),
        (lambda: bits_for(1, 0.0), r"error_rate=0\.0: must be above 0"),
        (lambda: filter_bytes_for(1, -0.5), r"error_rate=-0\.5: must be above 0"),
        (lambda: lower_bound_bits(1, math.nan), "error_rate=nan: must be above 0"),
        (lambda: keys_for(-8, 0.01), "bit_count=-8: must be 0 or more"),
        (lambda: keys_for(8, 1.0), r"error_rate=1\.0: any number of keys fits"),
        (lambda: classic_rate(-1, 1, 1), "bit_count=-1"),
        (lambda: exact_rate(1, -2, 1), "key_count=-2"),
        (lambda: exact_rate(1, 1, -3), "probe_count=-3"),
        (lambda: probes_for(1, -4), "key_count=-4"),
        (lambda: rate_for(-5, 1), "bit_count=-5"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
