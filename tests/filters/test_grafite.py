"""Grafite filters: no key is denied, and empty ranges pass no more often than the bound."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lsmkv.filters import grafite, grafite_range_rate, policy_named
from lsmkv.filters.policy import NO_FILTER

GRAFITE = policy_named("grafite")
few_bytes = st.sampled_from([0, 1, 2, 97, 254, 255])
anything = st.lists(few_bytes, max_size=5).map(bytes)


def built(keys: Sequence[bytes], error_rate: float) -> tuple[bytes, int]:
    return GRAFITE.build_from_digests(GRAFITE.digests(list(keys)), error_rate)


def passes(filter_: tuple[bytes, int], start: bytes, stop: bytes) -> bool:
    bits, low_bits = filter_
    return grafite.may_contain_between(bits, low_bits, start, stop)


def big_endian(number: int) -> bytes:
    return b"id" + number.to_bytes(6, "big")


@settings(deadline=None)
@given(
    length=st.integers(1, 4),
    data=st.data(),
    error_rate=st.sampled_from([0.9, 0.1, 0.01, 1e-4, 1e-9]),
    bounds=st.lists(st.tuples(anything, anything), min_size=1, max_size=20),
)
def test_a_range_with_a_key_always_passes(
    length: int, data: st.DataObject, error_rate: float, bounds: list[tuple[bytes, bytes]]
) -> None:
    one_length = st.lists(few_bytes, min_size=length, max_size=length).map(bytes)
    keys = sorted(data.draw(st.sets(one_length, min_size=1, max_size=40)))
    filter_ = built(keys, error_rate)
    near = [(key[:-1], key + b"\0") for key in keys] + [(key, key + b"\0") for key in keys]
    for start, stop in (*bounds, *near):
        if any(start <= key < stop for key in keys):
            assert passes(filter_, start, stop)


@settings(deadline=None)
@given(keys=st.sets(anything, min_size=1, max_size=40), before=st.binary(max_size=9))
def test_no_key_is_denied_whatever_the_lengths(keys: set[bytes], before: bytes) -> None:
    bits, low_bits = built(sorted(keys), 0.01)
    for key in keys:
        h = grafite.hash_key(key)
        assert GRAFITE.may_contain(before + bits, len(before), len(bits), low_bits, h)


def test_keys_of_several_lengths_deny_no_range() -> None:
    filter_ = built([b"a", b"bb", b"c"], 1e-6)
    assert passes(filter_, b"x", b"y")
    assert passes(filter_, b"xa", b"xb")


@pytest.mark.parametrize(("length", "denies"), [(255, True), (256, False), (300, False)])
def test_keys_of_over_255_bytes_deny_no_range(length: int, denies: bool) -> None:
    keys = [key.ljust(length, b"k") for key in (b"a", b"c")]
    filter_ = built(keys, 1e-6)
    assert all(passes(filter_, key, key + b"\0") for key in keys)
    absent = b"b".ljust(length, b"k")
    assert passes(filter_, absent, absent + b"\0") != denies


def test_a_range_over_more_than_two_granules_passes_and_one_without_numbers_does_not() -> None:
    filter_ = built([big_endian(1 << 20), big_endian(1 << 21)], 1e-6)
    assert passes(filter_, big_endian(255), big_endian(513))
    assert not passes(filter_, big_endian(256), big_endian(512))
    assert not passes(filter_, big_endian(1 << 20) + b"\0", big_endian((1 << 20) + 1))
    assert not passes(filter_, big_endian(9), big_endian(8))
    assert not passes(filter_, big_endian(9 << 20), big_endian(8))


UNIFORM = 1 << 40


def uniform(draw: random.Random, keys: list[int], length: int) -> int:
    return draw.randrange(UNIFORM)


def adjacent(draw: random.Random, keys: list[int], length: int) -> int:
    """Ranges that end just before a key, or begin just behind it."""
    key = draw.choice(keys)
    return key + 1 if draw.random() < 0.5 else key - length


def sparse(draw: random.Random) -> list[int]:
    return sorted({draw.randrange(1000, UNIFORM) for _ in range(34)})


def dense(draw: random.Random) -> list[int]:
    """Numbers about a hundred apart, as in a block of many granules with few keys each."""
    first = draw.randrange(1000, UNIFORM)
    return sorted({first + 100 * number + draw.randrange(90) for number in range(34)})


@pytest.mark.parametrize("error_rate", [0.01, 0.0025])
@pytest.mark.parametrize("length", [1, 2, 8, pytest.param(32, marks=pytest.mark.slow), 64])
@pytest.mark.parametrize("where", [uniform, adjacent])
@pytest.mark.parametrize("keys_of", [sparse, dense])
def test_empty_ranges_pass_no_more_often_than_the_bound_and_nearly_as_often(
    keys_of: Callable[[random.Random], list[int]],
    where: Callable[[random.Random, list[int], int], int],
    length: int,
    error_rate: float,
) -> None:
    """The bound adds up the chances of n keys, so it is a little above the rate of rare events."""
    draw = random.Random(f"{keys_of.__name__} {where.__name__} {length} {error_rate}")
    asked = passed = 0
    bound = 0.0
    for _ in range(400):
        keys = keys_of(draw)
        filter_ = built([big_endian(key) for key in keys], error_rate)
        rate = grafite_range_rate(len(filter_[0]), len(keys), filter_[1], length)
        for _ in range(20):
            start = where(draw, keys, length)
            if not any(start <= key < start + length for key in keys):
                asked += 1
                bound += rate
                passed += passes(filter_, big_endian(start), big_endian(start + length))
    assert asked > 4000
    mean = bound / asked
    assert passed <= binom.ppf(1 - 1e-9, asked, min(1.0, mean))
    if where is uniform:
        assert passed >= binom.ppf(1e-9, asked, 1 - (1 - mean / 34) ** 34)
    assert mean <= length * error_rate


@pytest.mark.parametrize(("error_rate", "bits"), [(0.01, 9.2), (0.0025, 11.1), (0.001, 12.5)])
def test_a_key_takes_the_logarithm_of_the_rate_and_two_bits(error_rate: float, bits: float) -> None:
    """In a block of 34 keys, with the header of two bytes."""
    made, _ = built([big_endian(number) for number in range(34)], error_rate)
    assert 8 * len(made) / 34 <= bits


def test_hashes_alone_make_a_filter_that_denies_no_range() -> None:
    keys = [big_endian(number) for number in range(34)]
    bits, low_bits = GRAFITE.build([grafite.hash_key(key) for key in keys], 1e-6)
    assert passes((bits, low_bits), big_endian(1 << 30), big_endian((1 << 30) + 1))
    with_lengths, _ = built(keys, 1e-6)
    assert with_lengths == bytes([bits[0], 8]) + bits[2:]


def test_too_many_keys_for_a_filter_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsmkv.filters.policy.grafite_shape", lambda n, p: (6, 1 << 29))
    assert built([b"a", b"b"], 0.01) == GRAFITE.build([1, 2], 0.01) == NO_FILTER


@given(data=st.binary(max_size=300), low_bits=st.integers(0, 31), start=anything, stop=anything)
def test_any_bits_of_a_possible_shape_can_be_asked_for_ranges(
    data: bytes, low_bits: int, start: bytes, stop: bytes
) -> None:
    if GRAFITE.is_possible(len(data), low_bits):
        assert passes((data, low_bits), start, stop) in (True, False)


@pytest.mark.parametrize(
    "bits", [b"\xff" * 9, b"\x45\3" + bytes(20), b"\x80" * 4, b"\3\3", b"\3", b""]
)
def test_bytes_that_do_not_fit_together_deny_nothing(bits: bytes) -> None:
    assert grafite.may_contain(bits, 0, len(bits), 6, 12345)
    assert passes((bits, 6), b"abc", b"abd")


@pytest.mark.parametrize("count", [1 << 28, (1 << 34) - 1])
def test_a_count_for_which_the_bytes_are_too_few_denies_nothing(count: int) -> None:
    rest, header = count, b""
    while rest > 0x7F:
        header += bytes([0x80 | rest & 0x7F])
        rest >>= 7
    bits = header + bytes([rest, 3]) + bytes(40)
    for low_bits in range(32):
        assert grafite.may_contain(bits, 0, len(bits), low_bits, 12345)
        assert passes((bits, low_bits), b"abc", b"abd")
