"""Filters with more keys than they were sized for: they err more often, and say how often."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from filter_kinds import assert_is_the_rate
from lsmkv import filters
from lsmkv.filters.family.classic import BitFilter

KINDS: Final[dict[str, Callable[[], BitFilter]]] = {
    "bloom": lambda: filters.BloomFilter.for_keys(300, 0.01),
    "single-hash": lambda: filters.SingleHashFilter.for_keys(300, 0.01),
    "foldable": lambda: filters.FoldableBloomFilter.for_keys(300, 0.01, 2),
    "partitioned": lambda: filters.PartitionedBloomFilter.for_keys(300, 0.01),
    "blocked": lambda: filters.BlockedBloomFilter.for_keys(300, 0.01),
}


def filled(kind: str, key_count: int) -> BitFilter:
    draw = random.Random(f"{kind}, {key_count}")
    built: BitFilter = KINDS[kind]()
    for _ in range(key_count):
        built.add_hash(draw.getrandbits(63))
    return built


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_count", [300, 600, 3000])
def test_the_current_rate_is_the_rate_of_the_bits_as_they_are(kind: str, key_count: int) -> None:
    built = filled(kind, key_count)
    draw = random.Random("absent")
    asked = 20_000
    passed = sum(built.may_contain_hash(draw.getrandbits(63)) for _ in range(asked))
    assert_is_the_rate(passed, asked, built.current_rate())


@pytest.mark.parametrize("kind", KINDS)
def test_the_current_rate_of_an_empty_and_of_a_full_filter(kind: str) -> None:
    built = filled(kind, 0)
    assert built.current_rate() == 0.0
    assert built._with_bits(b"\xff" * built.byte_count).current_rate() == pytest.approx(1.0)
