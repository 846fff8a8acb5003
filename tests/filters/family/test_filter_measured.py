"""Measured error rates lie within sampling error of the exact ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Protocol

import pytest

from filter_kinds import assert_is_the_rate
from lsmkv import filters
from lsmkv.filters.policy import POLICIES

Hashes = Sequence[int]


class Growing(filters.HashInsert, filters.HashMembership, Protocol):
    """A filter that grows and knows its error rate."""

    def expected_rate(self, key_count: int) -> float: ...


def grown(
    sized: Callable[[int, float], Growing],
) -> Callable[[Hashes, float], tuple[filters.HashMembership, float]]:
    """Builders of filters sized for their number of keys."""

    def build(hashes: Hashes, p: float) -> tuple[filters.HashMembership, float]:
        built = sized(len(hashes), p)
        for h in hashes:
            built.add_hash(h)
        return built, built.expected_rate(len(hashes))

    return build


def rolling(hashes: Hashes, p: float) -> tuple[filters.HashMembership, float]:
    half = len(hashes) // 2
    built = filters.RollingBloomFilter.for_window(filters.Window(inserts=half), half, p)
    for h in hashes[: 2 * half]:
        built.add_hash(h)
    return built, built.expected_rate(half, half)


def fingerprints(hashes: Hashes, p: float) -> tuple[filters.HashMembership, float]:
    built = filters.FingerprintFilter.from_hashes(hashes, p)
    return built, filters.fingerprint_rate(built.fingerprint_bits, len(hashes))


def ribbon(hashes: Hashes, p: float) -> tuple[filters.HashMembership, float]:
    built = filters.RibbonFilter.from_hashes(hashes, p)
    return built, built.expected_rate()


def binary_fuse(hashes: Hashes, p: float) -> tuple[filters.HashMembership, float]:
    built = filters.BinaryFuseFilter.from_hashes(hashes, p)
    return built, built.expected_rate()


KINDS = {
    "bloom": grown(filters.BloomFilter.for_keys),
    "partitioned": grown(filters.PartitionedBloomFilter.for_keys),
    "single-hash": grown(filters.SingleHashFilter.for_keys),
    "counting": grown(filters.CountingBloomFilter.for_keys),
    "blocked": grown(filters.BlockedBloomFilter.for_keys),
    "cuckoo": grown(lambda n, p: filters.CuckooFilter.for_keys(n * 5 // 4 + 4, p)),  # never full
    "rolling": rolling,
    "fingerprints": fingerprints,
    "binary-fuse": binary_fuse,
    "ribbon": ribbon,
}


@pytest.mark.parametrize(
    "error_rate", [0.1, 0.01, 0.001, pytest.param(0.0001, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("key_count", [4, 30, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_measured_rate_is_the_exact_rate(kind: str, key_count: int, error_rate: float) -> None:
    build = KINDS[kind]
    draw = random.Random(f"{kind}, {key_count} keys at {error_rate}")
    asked = 24_000 if error_rate < 0.001 else 9_000
    per_filter = max(16, key_count)
    passed = 0
    rate = 0.0
    for _ in range(asked // per_filter):
        built, rate = build([draw.getrandbits(63) for _ in range(key_count)], error_rate)
        for _ in range(per_filter):
            passed += built.may_contain_hash(draw.getrandbits(63))
    assert_is_the_rate(passed, asked // per_filter * per_filter, rate)
    assert rate < error_rate * 1.6  # the theory of two keys in a window is that far off


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("error_rate", [0.1, 0.01, pytest.param(0.001, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "key_count", [30, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 300))]
)
def test_the_rate_of_a_policy_is_the_exact_rate(
    policy: filters.FilterPolicy, key_count: int, error_rate: float
) -> None:
    draw = random.Random(f"{policy.name}, {key_count} keys at {error_rate}")
    asked, per_filter = 12_000, max(16, key_count)
    passed = 0
    rates = []
    for _ in range(asked // per_filter):
        bits, parameter = policy.build([draw.getrandbits(63) for _ in range(key_count)], error_rate)
        rates.append(policy.exact_rate(len(bits), key_count, parameter))
        for _ in range(per_filter):
            passed += policy.may_contain(bits, 0, len(bits), parameter, draw.getrandbits(63))
    rate = fmean(rates)
    assert_is_the_rate(passed, asked // per_filter * per_filter, rate)
    assert rate < error_rate * 1.3
