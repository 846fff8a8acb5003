"""The allocation of filter memory: to runs, as Monkey, and to parts that are asked unevenly."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lsmkv.filters.maths.allocation import (
    FLOOR_RATE,
    budget_error_rates,
    expected_wasted_reads,
    memory_bits,
    monkey_error_rates,
)
from lsmkv.filters.maths.sizing import bits_for

ROUNDING = 1e-9

runs = st.lists(st.integers(0, 10**12), max_size=12)
filled_runs = st.lists(st.integers(1, 10**12), min_size=1, max_size=12)
error_rates = st.floats(1e-9, 0.99)
parts = st.lists(st.tuples(st.floats(1, 1e12), st.floats(1e-6, 1e6)), min_size=1, max_size=12)
memories = st.floats(0, 60)  # bits per key


def uniform_bits(run_key_counts: list[int], error_rate: float) -> float:
    return memory_bits(run_key_counts, [error_rate] * len(run_key_counts))


@given(runs, error_rates)
@example([10, 10**15, 10**15 + 1], 0.5)
@example([10, 1000, 100_000], 0.99)
def test_memory_equals_that_of_the_uniform_rate(counts: list[int], rate: float) -> None:
    monkey = memory_bits(counts, monkey_error_rates(counts, rate))
    assert monkey == pytest.approx(uniform_bits(counts, rate), rel=ROUNDING)


@given(runs, st.floats(1e-300, 1.0))
def test_rates_are_above_zero_and_at_most_one(counts: list[int], rate: float) -> None:
    assert all(0.0 < p <= 1.0 for p in monkey_error_rates(counts, rate))


@given(filled_runs, error_rates)
@example([1, 20, 10**12], 1.0)
def test_rates_are_proportional_to_keys_up_to_one(counts: list[int], rate: float) -> None:
    rates = monkey_error_rates(counts, rate)
    factor = max(p / count for p, count in zip(rates, counts, strict=True))
    expected = [min(1.0, factor * count) for count in counts]
    assert rates == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.parametrize(("size_ratio", "saving"), [(4, 2.4), (10, 3.5)])
def test_five_levels_at_ten_bits_per_key_waste_fewer_reads(size_ratio: int, saving: float) -> None:
    levels = [1000 * size_ratio**level for level in range(5)]
    rate = math.exp(-10 * math.log(2) ** 2)
    monkey = monkey_error_rates(levels, rate)
    assert memory_bits(levels, monkey) == pytest.approx(10 * sum(levels))
    assert 5 * rate / expected_wasted_reads(monkey) == pytest.approx(saving, abs=0.05)


def test_empty_runs_get_the_uniform_rate() -> None:
    assert monkey_error_rates([0, 500, 0], 0.01) == pytest.approx([0.01, 0.01, 0.01])


def test_rates_stop_at_the_smallest_normal_float() -> None:
    assert min(monkey_error_rates([1, 10**12], 1e-307)) == 2.2250738585072014e-308


def test_wasted_reads_are_the_sum_of_the_rates() -> None:
    assert expected_wasted_reads([0.01, 0.02, 1.0]) == pytest.approx(1.03)
    assert expected_wasted_reads([]) == 0.0


@given(st.integers(0, 10**9), error_rates)
def test_memory_bits_are_those_of_one_filter_before_rounding(count: int, rate: float) -> None:
    assert math.ceil(memory_bits([count], [rate])) == pytest.approx(bits_for(count, rate), abs=1)


# --- a budget ------------------------------------------------------------------------------------

Parts = list[tuple[float, float]]


def shared_out(parts: Parts, bits_per_key: float) -> tuple[list[float], list[float], list[float]]:
    """Keys, asks and rates of the parts."""
    keys, asks = [n for n, _ in parts], [f for _, f in parts]
    return keys, asks, budget_error_rates(keys, asks, bits_per_key * sum(keys))


@given(parts, memories)
def test_a_budget_is_spent_up_to_the_floor_rate(parts: Parts, bits_per_key: float) -> None:
    keys, _, rates = shared_out(parts, bits_per_key)
    most = memory_bits(keys, [FLOOR_RATE] * len(keys))
    spent = min(bits_per_key * sum(keys), most)
    assert memory_bits(keys, rates) == pytest.approx(spent, abs=1e-6 * sum(keys))


@given(parts, memories)
def test_rates_are_proportional_to_keys_by_asks_between_floor_and_one(
    parts: Parts, bits_per_key: float
) -> None:
    _, _, rates = shared_out(parts, bits_per_key)
    inner = [
        p * f / n
        for p, (n, f) in zip(rates, parts, strict=True)
        if FLOOR_RATE * (1 + ROUNDING) < p < 1 - ROUNDING
    ]
    factor = inner[0] if inner else 1.0
    assert inner == pytest.approx([factor] * len(inner), rel=1e-6)
    for p, (n, f) in zip(rates, parts, strict=True) if inner else ():
        best = min(1.0, max(FLOOR_RATE, factor * n / f))
        assert p == pytest.approx(best, rel=1e-6)


@given(parts, memories, memories)
def test_a_larger_budget_raises_no_rate(parts: Parts, one: float, other: float) -> None:
    _, _, tight = shared_out(parts, min(one, other))
    _, _, ample = shared_out(parts, max(one, other))
    assert all(a <= t * (1 + 1e-6) for a, t in zip(ample, tight, strict=True))


@given(filled_runs, st.floats(1e-4, 0.99))
def test_runs_that_are_asked_alike_get_monkeys_rates(counts: list[int], rate: float) -> None:
    monkey = monkey_error_rates(counts, rate)
    assume(min(monkey) > 2 * FLOOR_RATE)
    keys = [float(count) for count in counts]
    found = budget_error_rates(keys, [1.0] * len(keys), uniform_bits(counts, rate))
    assert found == pytest.approx(monkey, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        *(
            (lambda rate=rate: monkey_error_rates([1], rate), f"error_rate={rate}: must be above 0")
            for rate in (0.0, -0.1, 1.1, math.nan)
        ),
        (lambda: memory_bits([1], [math.nan]), "rate nan: must be above 0 and at most 1"),
        (lambda: monkey_error_rates([5, -3], 0.01), "run of -3 keys"),
        (lambda: memory_bits([5, -3], [0.01, 0.01]), "run of -3 keys"),
        (lambda: memory_bits([5, 3], [0.01]), "2 key counts but 1 rates"),
        (lambda: budget_error_rates([0.0], [1.0], 1.0), "key count 0.0"),
        (lambda: budget_error_rates([1.0], [-1.0], 1.0), "number of asks -1.0"),
        (lambda: budget_error_rates([1.0], [math.nan], 1.0), "number of asks nan"),
        (lambda: budget_error_rates([1.0], [1.0], -1.0), "memory_bits=-1.0"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        call()
