"""The rates of the Bloom filter's rivals, against sums over all cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmkv import filters
from lsmkv.filters.maths import layouts, rates, sizing

key_counts = st.integers(1, 100_000)
error_rates = st.floats(1e-4, 0.5)


@given(st.integers(1, 50), st.integers(0, 50))
def test_one_hash_is_the_exact_rate_of_one_probe(bits: int, keys: int) -> None:
    assert rates.single_hash_rate(bits, keys) == pytest.approx(sizing.exact_rate(bits, keys, 1))


@given(key_counts, error_rates)
def test_one_hash_has_the_rate_it_is_sized_for(keys: int, error_rate: float) -> None:
    bits = rates.single_hash_bits_for(keys, error_rate)
    assert rates.single_hash_rate(bits, keys) <= error_rate * (1 + 1e-9)
    assert rates.single_hash_rate(bits - 1, keys) > error_rate * (1 - 1e-9)


def test_the_partitioned_rate_by_counting_every_outcome() -> None:
    part_bits, keys = 3, 2
    passing = 0
    outcomes = list(product(range(part_bits), repeat=2 * (keys + 1)))
    for outcome in outcomes:  # per array: the bits of the keys, then that of an absent one
        first, second = outcome[: keys + 1], outcome[keys + 1 :]
        passing += first[-1] in first[:-1] and second[-1] in second[:-1]
    assert rates.partitioned_rate(2 * part_bits, keys, 2) == pytest.approx(passing / len(outcomes))


@given(key_counts, error_rates, st.integers(1, 12))
def test_a_partitioned_filter_has_the_rate_it_is_sized_for(
    keys: int, error_rate: float, probes: int
) -> None:
    bits = rates.partitioned_bits_for(keys, error_rate, probes)
    assert rates.partitioned_rate(bits, keys, probes) <= error_rate * (1 + 1e-9)
    assert rates.partitioned_rate(bits - probes, keys, probes) > error_rate * (1 - 1e-9)


@given(key_counts, error_rates)
def test_fingerprints_have_the_rate_they_are_sized_for(keys: int, error_rate: float) -> None:
    bits = rates.fingerprint_bits_for(keys, error_rate)
    assert rates.fingerprint_rate(bits, keys) <= error_rate * (1 + 1e-9)
    assert bits == 1 or rates.fingerprint_rate(bits - 1, keys) > error_rate * (1 - 1e-9)
    assert -0.5 < bits - math.log2(keys / error_rate) < 1


def test_the_blocked_rate_is_a_mean_over_the_keys_of_a_line() -> None:
    lines, keys, probes = 3, 40, 5
    exact = Fraction(0)
    for count in range(keys + 1):
        chance = math.comb(keys, count) * Fraction(1, lines) ** count
        chance *= Fraction(lines - 1, lines) ** (keys - count)
        exact += chance * Fraction(sizing.exact_rate(512, count, probes))
    assert layouts.blocked_rate(lines, keys, probes) == pytest.approx(float(exact), rel=1e-12)


@given(st.integers(1, 3000), error_rates)
@settings(deadline=None, max_examples=30)
def test_a_blocked_filter_has_the_rate_it_is_sized_for(keys: int, error_rate: float) -> None:
    lines = layouts.blocked_lines_for(keys, error_rate)
    probes = layouts.blocked_probes_for(lines, keys)
    assert layouts.blocked_rate(lines, keys, probes) <= error_rate
    if lines > 1:
        fewer = layouts.blocked_probes_for(lines - 1, keys)
        assert layouts.blocked_rate(lines - 1, keys, fewer) > error_rate


@given(st.integers(2, 40), st.integers(10, 2000))
@settings(deadline=None, max_examples=5)
def test_the_number_of_probes_of_a_blocked_filter_is_the_best(lines: int, keys: int) -> None:
    best = min(range(1, 31), key=lambda k: layouts.blocked_rate(lines, keys, k))
    assert layouts.blocked_probes_for(lines, keys) == best


@given(key_counts, error_rates)
def test_a_cuckoo_filter_has_the_rate_it_is_sized_for(keys: int, error_rate: float) -> None:
    bits = layouts.cuckoo_fingerprint_bits_for(keys, error_rate)
    buckets = layouts.cuckoo_buckets_for(keys)
    assert layouts.cuckoo_rate(bits, buckets, keys) <= error_rate
    assert bits == 6 or layouts.cuckoo_rate(bits - 1, buckets, keys) > error_rate


@given(st.integers(0, 1_000_000))
def test_binary_fuse_segments_are_powers_of_two_and_at_least_three(keys: int) -> None:
    length, segments = layouts.fuse_shape(keys)
    assert length & (length - 1) == 0
    assert length >= 2
    assert segments >= 3
    assert length * segments >= 1.125 * keys


# --- inverse questions ---

SIZES = {
    "bloom": sizing.bits_for,
    "single-hash": rates.single_hash_bits_for,
    "fingerprints": rates.sorted_bits_for,
    "blocked": layouts.blocked_bits_for,
    "cuckoo": layouts.cuckoo_bits_for,
    "binary-fuse": layouts.fuse_bits_for,
}
Size = Callable[[int, float], int]


@given(st.integers(1, 1 << 30), error_rates)
def test_keys_that_fit_agree_with_the_direct_answer(bits: int, error_rate: float) -> None:
    assert filters.keys_that_fit(sizing.bits_for, bits, error_rate) == sizing.keys_for(
        bits, error_rate
    )


@pytest.mark.parametrize("size_for", SIZES.values(), ids=SIZES)
@given(bits=st.integers(600, 100_000), error_rate=error_rates)
@settings(deadline=None, max_examples=20)
def test_keys_that_fit_is_the_largest_number_that_fits(
    size_for: Size, bits: int, error_rate: float
) -> None:
    keys = filters.keys_that_fit(size_for, bits, error_rate)
    assert keys == 0 or size_for(keys, error_rate) <= bits
    assert size_for(keys + 1, error_rate) > bits


@pytest.mark.parametrize("size_for", SIZES.values(), ids=SIZES)
@given(keys=st.integers(1, 1000), error_rate=error_rates)
@settings(deadline=None, max_examples=20)
def test_the_rate_that_fits_a_size_is_no_worse_than_what_it_was_made_for(
    size_for: Size, keys: int, error_rate: float
) -> None:
    bits = size_for(keys, error_rate)
    rate = filters.rate_that_fits(size_for, bits, keys)
    assert rate <= error_rate * (1 + 1e-5)
    assert size_for(keys, rate) <= bits


def test_no_key_fits_below_the_least_size() -> None:
    assert filters.keys_that_fit(layouts.blocked_bits_for, 511, 0.01) == 0
    assert filters.rate_that_fits(layouts.blocked_bits_for, 511, 1) == pytest.approx(1.0)


@given(st.lists(st.floats(0.0, 1.0), max_size=5))
def test_the_rate_of_several_filters_is_one_minus_a_product(chances: list[float]) -> None:
    denied = math.prod(1 - chance for chance in chances)
    assert filters.either_rate(*chances) == pytest.approx(1 - denied, abs=1e-12)


@given(st.floats(1e-9, 0.999), st.integers(1, 9))
def test_each_rate_combines_to_the_whole_rate(rate: float, count: int) -> None:
    each = filters.each_rate(rate, count)
    assert filters.either_rate(*[each] * count) == pytest.approx(rate)


def test_filters_without_bits_reject_nothing() -> None:
    assert rates.single_hash_rate(0, 5) == 1.0
    assert rates.partitioned_rate(3, 5, 4) == rates.partitioned_rate(3, 5, 0) == 1.0
    assert layouts.blocked_rate(0, 5, 3) == layouts.blocked_rate(1, 5, 0) == 1.0
    assert layouts.cuckoo_rate(8, 0, 5) == 1.0


def test_filters_without_keys_reject_everything() -> None:
    assert rates.single_hash_rate(8, 0) == rates.partitioned_rate(8, 0, 2) == 0.0
    assert rates.fingerprint_rate(8, 0) == layouts.blocked_rate(2, 0, 3) == 0.0
    assert layouts.cuckoo_rate(8, 3, 0) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rates.over_lower_bound(8, 0, 0.1), "key_count=0: no keys take no bits"),
        (lambda: rates.single_hash_bits_for(-1, 0.1), "key_count=-1"),
        (lambda: rates.partitioned_bits_for(1, 0.1, 0), "probe_count=0: must be 1 or more"),
        (lambda: rates.partitioned_bits_roughly(1, 0.1, 0), "probe_count=0"),
        (lambda: rates.crossover_keys(0.0), r"error_rate=0\.0"),
        (lambda: layouts.fuse_fingerprint_bits_for(1.0), r"error_rate=1\.0"),
        (lambda: filters.keys_that_fit(sizing.bits_for, 1, 1.0), r"error_rate=1\.0"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("line_count", [2, 100])
def test_lines_that_are_overfull_let_everything_pass(line_count: int) -> None:
    """The rate needs no sum over the keys that a file claims."""
    assert layouts.blocked_rate(line_count, line_count << 40, 7) == 1.0
    just_below = line_count * (1 << 15) // 7
    assert layouts.blocked_rate(line_count, just_below, 7) == pytest.approx(1.0, abs=1e-15)
