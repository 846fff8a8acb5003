"""Filter policies: the operations that tables need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmkv import filters
from lsmkv.filters import FilterPolicy, fuse
from lsmkv.filters.policy import MAX_PARAMETER, NO_FILTER, NONE, POLICIES

hash_sets = st.sets(st.integers(0, (1 << 63) - 1), max_size=80)
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


@every_policy
@settings(deadline=None)
@given(
    hashes=hash_sets,
    error_rate=st.floats(1e-6, 1.0),
    before=st.binary(max_size=9),
    after=st.binary(max_size=9),
)
def test_no_hash_is_denied_at_any_offset_of_the_filter(
    policy: FilterPolicy, hashes: set[int], error_rate: float, before: bytes, after: bytes
) -> None:
    bits, parameter = policy.build(sorted(hashes), error_rate)
    held = before + bits + after
    for h in hashes:
        assert policy.may_contain(held, len(before), len(bits), parameter, h)


@every_policy
@settings(deadline=None)
@given(hashes=hash_sets, error_rate=st.floats(1e-9, 2.0))
def test_built_filters_fit_a_blocks_trailer(
    policy: FilterPolicy, hashes: set[int], error_rate: float
) -> None:
    bits, parameter = policy.build(sorted(hashes), error_rate)
    assert 0 <= parameter <= MAX_PARAMETER
    assert policy.is_possible(len(bits), parameter)
    assert 1 <= policy.scheme <= 7
    assert 0.0 <= policy.exact_rate(len(bits), len(hashes), parameter) <= 1.0


@every_policy
def test_no_keys_or_a_rate_of_one_make_no_filter(policy: FilterPolicy) -> None:
    assert policy.build([], 0.01) == policy.build([1, 2, 3], 1.0) == NO_FILTER
    assert policy.may_contain(b"", 0, 0, 0, 1)
    assert policy.exact_rate(0, 3, 0) == 1.0
    assert policy.is_possible(0, 0)


@every_policy
@given(
    data=st.binary(max_size=300),
    byte_count=st.integers(0, 300),
    parameter=st.integers(0, 31),
    h=st.integers(0, (1 << 63) - 1),
)
def test_any_bits_of_a_possible_shape_can_be_asked(
    policy: FilterPolicy, data: bytes, byte_count: int, parameter: int, h: int
) -> None:
    byte_count = min(byte_count, len(data))
    if policy.is_possible(byte_count, parameter):
        start = len(data) - byte_count
        assert policy.may_contain(data, start, byte_count, parameter, h) in (True, False)


def test_filters_of_policies_and_filter_objects_have_the_same_bits() -> None:
    hashes = [filters.hash_key(b"key %d" % number) for number in range(300)]
    static = filters.RibbonFilter.from_hashes(hashes, 2**-7)
    assert filters.policy_named("ribbon").build(hashes, 2**-7) == (static.bits, 7)


@pytest.mark.parametrize("bits", [b"", b"\0", b"\0\3", b"\0\x13" + bytes(99), b"\0\xff" + bytes(9)])
def test_an_invalid_binary_fuse_filter_denies_nothing(bits: bytes) -> None:
    assert fuse.may_contain(bits, 0, len(bits), 8, 12345)
    assert not fuse.is_shape(bits, 8)


def test_no_policy_builds_nothing_and_denies_nothing() -> None:
    assert NONE.build([1, 2, 3], 0.01) == NO_FILTER
    assert NONE.may_contain(b"", 0, 0, 0, 1)
    assert NONE.exact_rate(0, 3, 0) == 1.0
    assert NONE.is_possible(0, 0)
    assert not NONE.is_possible(1, 0)


def test_policies_are_found_by_scheme_and_name() -> None:
    for policy in (NONE, *POLICIES):
        assert filters.policy_for(policy.scheme) is policy
        assert filters.policy_named(policy.name) is policy
    assert [policy.scheme for policy in (NONE, *POLICIES)] == [0, 1, 4, 5]


@pytest.mark.parametrize("scheme", [-1, 8])
def test_unknown_schemes_are_named(scheme: int) -> None:
    with pytest.raises(ValueError, match=f"filter scheme {scheme}: this release knows no such"):
        filters.policy_for(scheme)


def test_unknown_names_are_named() -> None:
    names = "none, bloom, ribbon, grafite, or be registered"
    with pytest.raises(ValueError, match=f"'xor': must be one of {names}"):
        filters.policy_named("xor")
