"""Ribbon filters deny no key of theirs, are as small as promised, and err at 2^-r."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filter_kinds import assert_is_the_rate
from lsmkv import filters
from lsmkv.filters import hashing, ribbon
from lsmkv.filters.maths.layouts import ribbon_share, ribbon_slots_for
from lsmkv.filters.policy import NO_FILTER, RIBBON

HASHES = st.binary(max_size=8).map(hashing.hash_key)


def drawn(dice: random.Random, count: int) -> list[int]:
    return [dice.getrandbits(63) for _ in range(count)]


@given(
    st.lists(HASHES, min_size=1, max_size=300, unique=True),
    st.integers(1, 31),
    st.binary(max_size=20),
    st.binary(max_size=20),
)
def test_no_hash_that_was_added_is_denied_wherever_the_filter_is(
    hashes: list[int], columns: int, before: bytes, after: bytes
) -> None:
    built = ribbon.build(hashes, columns)
    around = before + built + after
    start, size = len(before), len(built)
    assert built
    assert all(ribbon.may_contain(around, start, size, columns, h) for h in hashes)


@pytest.mark.parametrize("columns", [1, 7, 8, 31])
@pytest.mark.parametrize("count", [1, 10, *range(50, 62), 300, 3000])
def test_no_hash_of_many_is_denied(count: int, columns: int) -> None:
    dice = random.Random(count)
    for _ in range(1 + 100 // count):
        hashes = drawn(dice, count)
        built = ribbon.build(hashes, columns)
        assert all(ribbon.may_contain(built, 0, len(built), columns, h) for h in hashes)


@given(st.binary(max_size=60), st.binary(max_size=20), HASHES, st.integers(1, 31))
def test_what_is_beside_a_filter_changes_no_answer(
    bits: bytes, beside: bytes, h: int, columns: int
) -> None:
    if RIBBON.is_possible(len(bits), columns):
        alone = ribbon.may_contain(bits, 0, len(bits), columns, h)
        around = beside + bits + beside
        assert ribbon.may_contain(around, len(beside), len(bits), columns, h) == alone


@pytest.mark.parametrize(
    "count",
    [30, 100_000, *(pytest.param(count, marks=pytest.mark.slow) for count in (10, 100, 300))],
)
def test_the_rate_is_two_to_the_minus_columns(count: int) -> None:
    dice = random.Random(count)
    asked, per_filter = (60_000, max(30, count)) if count < 1000 else (60_000, 60_000)
    passed = 0
    for _ in range(asked // per_filter):
        built = ribbon.build(drawn(dice, count), 6)
        passed += sum(
            ribbon.may_contain(built, 0, len(built), 6, h) for h in drawn(dice, per_filter)
        )
    assert_is_the_rate(passed, asked // per_filter * per_filter, 2.0**-6)


@pytest.mark.parametrize("columns", [7, 8, 9, 10])
@pytest.mark.parametrize("count", [30, 60, 100, 300, 600])
def test_a_filter_has_at_most_a_ninth_more_bits_than_the_lower_bound(
    count: int, columns: int
) -> None:
    dice = random.Random(f"{count}, {columns}")
    sizes = [len(ribbon.build(drawn(dice, count), columns)) for _ in range(3000 // count)]
    bound = filters.lower_bound_bits(count, 2.0**-columns)
    assert 8 * fmean(sizes) <= 1.12 * bound


@pytest.mark.parametrize("count", [60, 300, 3000, 30_000])
def test_few_sets_need_many_more_slots_than_the_first_try_has(count: int) -> None:
    dice = random.Random(count)
    for _ in range(max(1, 300 // count)):
        slots = len(ribbon.build(drawn(dice, count), 8))
        assert ribbon_slots_for(count) <= slots <= ribbon_slots_for(count) * 1.1 + 12


@pytest.mark.parametrize("columns", [7, 12])
@pytest.mark.parametrize("count", [5, 10, 30, 46])
def test_a_small_filter_has_the_fewest_slots_that_a_solution_needs(
    count: int, columns: int
) -> None:
    dice = random.Random(count)
    sizes = [len(ribbon.build(drawn(dice, count), columns)) for _ in range(300)]
    slots = [8 * size / columns for size in sizes]
    # A solution needs 1.6 slots more than keys on average; whole bytes give 0.5 more.
    assert count < fmean(slots) < count + 2.4


@given(st.lists(HASHES, min_size=1, max_size=40))
def test_repeats_change_at_most_the_size(hashes: list[int]) -> None:
    built = ribbon.build(hashes + hashes, 7)
    assert all(ribbon.may_contain(built, 0, len(built), 7, h) for h in hashes)


def test_digests_give_the_same_filter_as_hashes() -> None:
    keys = [b"key %d" % number for number in range(200)]
    hashes = [hashing.hash_key(key) for key in keys]
    assert ribbon.build_from_digests(hashing.digests(keys), 7) == ribbon.build(hashes, 7)
    assert RIBBON.build_from_digests(hashing.digests(keys), 0.01) == RIBBON.build(hashes, 0.01)


def test_hashes_that_differ_in_result_bits_alone_have_no_filter() -> None:
    inverse = pow(0x3F58_476D_1CE4_E5B9, -1, 1 << 63)
    hashes = []
    for low in range(2):  # of one window: all but the lowest 7 bits of the mixed hash
        mixed = (0x1234_5678_9ABC_DE << 7 | low) * inverse & ((1 << 63) - 1)
        hashes.append(mixed ^ mixed >> 32)
    assert (hashes[0] ^ hashes[1]) & 0x7F
    assert ribbon.build(hashes[:1], 7) and ribbon.build(hashes[1:], 7)
    assert ribbon.build(hashes, 7) == b""
    assert RIBBON.build(hashes, 0.01) == NO_FILTER
    with pytest.raises(filters.FilterBuildError, match="no ribbon filter holds these 2 hashes"):
        filters.RibbonFilter(hashes, 7)


def test_no_hashes_have_no_filter() -> None:
    assert ribbon.build([], 7) == b""
    assert RIBBON.build([], 0.01) == RIBBON.build_from_digests(b"", 0.01) == NO_FILTER
    assert RIBBON.build([5], 1.0) == NO_FILTER
    assert ribbon.may_contain(b"", 0, 0, 0, 5)


@pytest.mark.parametrize(
    "rate",
    [0.7, 0.01, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.1, 0.001, 2.0**-7))],
)
def test_the_mean_rate_of_many_small_filters_is_what_was_asked_for(rate: float) -> None:
    dice = random.Random(f"{rate}")
    built = [RIBBON.build(drawn(dice, 20), rate) for _ in range(3000)]
    rates = [RIBBON.exact_rate(len(bits), 20, columns) for bits, columns in built]
    lower, upper = min(rates), max(rates)
    assert upper in (lower, 2 * lower)
    share = sum(each == upper for each in rates) / len(rates) if upper > lower else 0.0
    assert share == pytest.approx(ribbon_share(rate), abs=0.04)
    assert fmean(rates) == pytest.approx(rate, rel=0.04)


@pytest.mark.parametrize(
    ("byte_count", "columns", "possible"),
    [
        (0, 0, True),
        (0, 7, True),
        (1, 8, True),
        (1, 9, False),
        (4, 31, True),
        (4, 0, False),
        (9, 32, False),
        (1 << 28, 7, False),
    ],
)
def test_possible_shapes(byte_count: int, columns: int, possible: bool) -> None:
    assert RIBBON.is_possible(byte_count, columns) == possible


def test_the_filter_of_no_keys_has_the_rate_of_any_other() -> None:
    empty = filters.RibbonFilter([], 3)
    dice = random.Random(4)
    passed = sum(map(empty.may_contain_hash, drawn(dice, 4000)))
    assert_is_the_rate(passed, 4000, empty.expected_rate())
