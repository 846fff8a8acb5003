"""Rules for every filter, above all: no false negatives."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_kinds import KINDS, Build
from lsmkv import filters
from lsmkv.filters import (
    BlockedBloomFilter,
    BloomFilter,
    CountingBloomFilter,
    FoldableBloomFilter,
    PartitionedBloomFilter,
    SingleHashFilter,
    StrategyBloomFilter,
    bloom,
    fuse,
    hash_key,
    strategy_named,
)
from lsmkv.filters.family.classic import BitFilter
from lsmkv.filters.policy import BLOOM

key_sets = st.sets(st.binary(max_size=40), max_size=60)
rates = st.floats(1e-5, 0.9)
every_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"key %d" % number for number in range(start, stop)]


@every_kind
@settings(deadline=None, max_examples=40)
@given(keys=key_sets, error_rate=rates)
def test_no_key_is_denied_before_or_after_saving(
    build: Build, keys: set[bytes], error_rate: float
) -> None:
    built = build(sorted(keys), error_rate)
    loaded = type(built).from_bytes(built.to_bytes())
    for key in keys:
        assert built.may_contain(key)
        assert loaded.may_contain(key)


@every_kind
def test_a_loaded_filter_answers_as_the_one_that_was_saved(build: Build) -> None:
    built = build(numbered(0, 100), 0.2)
    loaded = filters.load(built.to_bytes())
    assert isinstance(loaded, type(built))
    assert loaded.to_bytes() == built.to_bytes()
    for key in numbered(0, 1000):
        assert loaded.may_contain(key) == built.may_contain(key)


@every_kind
@pytest.mark.parametrize("key_count", [0, 1000])
def test_absent_keys_are_mostly_denied(build: Build, key_count: int) -> None:
    built = build(numbered(0, key_count), 0.01)
    passed = sum(built.may_contain(key) for key in numbered(1000, 3000))
    assert passed < 100


# --- Bloom: the product's bits ---


@given(key_sets, rates)
@settings(deadline=None)
def test_a_bloom_filter_has_the_bytes_of_a_blocks_filter(
    keys: set[bytes], error_rate: float
) -> None:
    hashes = [hash_key(key) for key in keys]
    in_block, probe_count = BLOOM.build(hashes, error_rate)
    built = BloomFilter.for_keys(len(keys), error_rate)
    built.update(keys)
    if keys:
        assert (built.bits, built.probe_count) == (in_block, probe_count)
    assert built.bits == bloom.build(hashes, built.byte_count, built.probe_count)


def test_a_blocks_filter_can_be_lifted_out() -> None:
    keys = numbered(0, 30)
    bits, probe_count = BLOOM.build([hash_key(key) for key in keys], 0.01)
    lifted = BloomFilter.from_bits(bits, probe_count)
    assert all(lifted.may_contain(key) for key in keys)
    assert lifted.expected_rate(30) == BLOOM.exact_rate(len(bits), 30, probe_count)


# --- union ---

UNITABLE = {
    "bloom": BloomFilter(64, 4),
    "single-hash": SingleHashFilter(64),
    "foldable": FoldableBloomFilter(64, 4, 3),
    "partitioned": PartitionedBloomFilter(64, 5),
    "blocked": BlockedBloomFilter(2, 4),
    "counting-4": CountingBloomFilter(512, 4, 4),
    "counting-8": CountingBloomFilter(512, 4, 8),
    "strategy": StrategyBloomFilter(500, 4, strategy_named("leveldb")),
}
Unitable = BitFilter | CountingBloomFilter | StrategyBloomFilter


def with_keys(empty: Unitable, keys: list[bytes]) -> Unitable:
    filled = type(empty).from_bytes(empty.to_bytes())
    for key in keys:
        filled.add(key)
    return filled


@pytest.mark.parametrize("empty", UNITABLE.values(), ids=UNITABLE)
@settings(deadline=None, max_examples=40)
@given(left=st.lists(st.binary(max_size=9)), right=st.lists(st.binary(max_size=9)))
def test_a_union_is_the_filter_built_from_both(
    empty: Unitable, left: list[bytes], right: list[bytes]
) -> None:
    a, b = with_keys(empty, left), with_keys(empty, right)
    before = a.to_bytes(), b.to_bytes()
    united = a.union(b)  # type: ignore[arg-type]
    assert united.to_bytes() == with_keys(empty, left + right).to_bytes()
    assert (a.to_bytes(), b.to_bytes()) == before
    assert all(united.may_contain(key) for key in left + right)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (BloomFilter(64, 4), BloomFilter(65, 4)),
        (BloomFilter(64, 4), BloomFilter(64, 5)),
        (BloomFilter(64, 1), SingleHashFilter(64)),
        (BloomFilter(64, 4), BlockedBloomFilter(1, 4)),
        (SingleHashFilter(64), SingleHashFilter(63)),
        (PartitionedBloomFilter(64, 4), PartitionedBloomFilter(64, 5)),
        (FoldableBloomFilter(64, 4, 3), FoldableBloomFilter(64, 4, 2)),
        (CountingBloomFilter(64, 4, 4), CountingBloomFilter(64, 4, 8)),
        (
            StrategyBloomFilter(64, 4, strategy_named("djb2")),
            StrategyBloomFilter(64, 4, strategy_named("sha256")),
        ),
    ],
    ids=lambda value: repr(value),
)
def test_filters_of_different_shape_are_not_united(a: Unitable, b: Unitable) -> None:
    with pytest.raises(
        ValueError, match=r"only filters of the same shape can be united: .* differ"
    ):
        a.union(b)  # type: ignore[arg-type]


# --- fold ---


@settings(deadline=None)
@given(key_sets, st.integers(1, 5), st.integers(1, 30), st.integers(1, 12))
def test_a_folded_filter_is_the_one_built_at_that_size(
    keys: set[bytes], folds: int, units: int, probe_count: int
) -> None:
    folded = FoldableBloomFilter(units << folds, probe_count, folds)
    folded.update(keys)
    for left in reversed(range(folds)):
        folded = folded.fold()
        small = FoldableBloomFilter(units << left, probe_count, left)
        small.update(keys)
        assert folded.to_bytes() == small.to_bytes()
        assert all(folded.may_contain(key) for key in keys)
    with pytest.raises(ValueError, match="cannot be folded any more"):
        folded.fold()


def test_folding_stops_where_the_rate_would_be_exceeded() -> None:
    built = FoldableBloomFilter.for_keys(10_000, 0.01, folds=10)
    built.update(numbered(0, 200))
    folded = built.fold_for(200, 0.01)
    assert folded.byte_count < built.byte_count / 20
    assert folded.expected_rate(200) <= 0.01 < folded.fold().expected_rate(200)
    for rate in (0.2, 0.02, 0.002, 0.0002):
        folded = built.fold_for(200, rate)
        assert folded.expected_rate(200) <= rate < folded.fold().expected_rate(200)
    assert built.fold_for(10_000, 0.01) is built


# --- how many keys ---


@pytest.mark.parametrize(
    "empty",
    [
        BloomFilter.for_keys(1000, 0.01),
        PartitionedBloomFilter.for_keys(1000, 0.01),
        SingleHashFilter.for_keys(1000, 0.01),
        BlockedBloomFilter.for_keys(1000, 0.01),
        CountingBloomFilter.for_keys(1000, 0.01),
        StrategyBloomFilter.for_keys(1000, 0.01, strategy_named("sha256")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_number_of_keys_is_estimated_within_five_percent(empty: Unitable) -> None:
    assert empty.key_count() == 0
    filled = with_keys(empty, numbered(0, 700) + numbered(0, 300))
    assert filled.key_count() == pytest.approx(700, rel=0.05)


def test_a_full_filter_cannot_tell_how_many_keys_it_holds() -> None:
    assert BloomFilter.from_bits(b"\xff" * 10, 3).key_count() == math.inf


def test_filters_that_store_their_keys_know_how_many() -> None:
    keys = numbered(0, 500)
    cuckoo = filters.CuckooFilter.for_keys(500, 0.01)
    cuckoo.update(keys)
    assert cuckoo.key_count() == 500
    assert filters.BinaryFuseFilter.from_keys(keys + keys, 0.01).key_count() == 500
    assert filters.FingerprintFilter.from_keys(keys, 1e-9).key_count() == 500


# --- static filters: the set is what counts ---


@pytest.mark.parametrize("kind", [filters.BinaryFuseFilter, filters.FingerprintFilter])
@settings(deadline=None, max_examples=30)
@given(keys=st.lists(st.binary(max_size=9), max_size=200), seed=st.integers(0, 9))
def test_neither_order_nor_repeats_matter(
    kind: type[filters.BinaryFuseFilter | filters.FingerprintFilter], keys: list[bytes], seed: int
) -> None:
    shuffled = keys + keys[:5]
    random.Random(seed).shuffle(shuffled)
    assert (
        kind.from_keys(shuffled, 0.01).to_bytes() == kind.from_keys(sorted(keys), 0.01).to_bytes()
    )


@pytest.mark.parametrize("key_count", [1, 2, 3, 5, 9, 17, 33, 63, 64, 65, 300, 5000, 60_000])
@pytest.mark.parametrize("width", [8, 16])
def test_a_binary_fuse_filter_holds_all_its_keys(key_count: int, width: int) -> None:
    draw = random.Random(f"{key_count} of {width}")
    hashes = [draw.getrandbits(63) for _ in range(key_count)]
    built = filters.BinaryFuseFilter(hashes, width)
    assert all(built.may_contain_hash(h) for h in hashes)
    assert built.byte_count == 2 + filters.fuse_bits_for(key_count, 2.0**-width) // 8


def test_a_binary_fuse_filter_of_repeats_cannot_be_built_by_hand() -> None:
    with pytest.raises(filters.FilterBuildError, match=r"no seed of 256 makes .* distinct"):
        fuse.build([7, 7], 8)


# --- arguments ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BloomFilter(0, 1), "byte_count=0: must lie between"),
        (lambda: BloomFilter(1, 0), "probe_count=0: must lie between"),
        (lambda: BloomFilter(1, 256), "probe_count=256: must lie between"),
        (lambda: BloomFilter.for_keys(-1, 0.1), "key_count=-1: must be 0 or more"),
        (lambda: BloomFilter.for_keys(1, 1.0), r"error_rate=1\.0: must lie between 0 and 1"),
        (lambda: BloomFilter.for_keys(10**12, 0.01), "byte_count=.*: must lie between"),
        (lambda: SingleHashFilter.for_keys(1, math.nan), "error_rate=nan"),
        (lambda: PartitionedBloomFilter(1, 9), "1 bytes are too few for 9 arrays"),
        (lambda: BlockedBloomFilter(0, 1), "byte_count=0"),
        (lambda: FoldableBloomFilter(6, 1, 2), "6 bytes cannot be halved 2 times"),
        (lambda: FoldableBloomFilter(8, 1, -1), "folds=-1"),
        (lambda: FoldableBloomFilter.for_keys(8, 0.1, 99), "folds=99"),
        (lambda: CountingBloomFilter(8, 1, 5), "counter_bits=5: must be 4 or 8"),
        (lambda: CountingBloomFilter(9, 1), "counter_count=9: must be a multiple of 8"),
        (lambda: filters.CuckooFilter(1, 32), "fingerprint_bits=32"),
        (lambda: filters.CuckooFilter(0, 8), "byte_count=0"),
        (lambda: filters.FingerprintFilter([], 63), "fingerprint_bits=63"),
        (lambda: filters.FingerprintFilter([-1], 8), "a hash does not lie between"),
        (lambda: filters.BinaryFuseFilter([1 << 63], 8), "a hash does not lie between"),
        (lambda: filters.BinaryFuseFilter([], 9), "fingerprint_bits=9: must be 8 or 16"),
        (lambda: StrategyBloomFilter(0, 1, strategy_named("djb2")), "bit_count=0"),
        (lambda: strategy_named("md5"), "hash strategy 'md5': must be one of product, djb2"),
        (lambda: filters.Window(), "a window needs inserts, seconds or both"),
        (lambda: filters.Window(inserts=0), "inserts=0"),
        (lambda: filters.Window(seconds=0.0), r"seconds=0\.0"),
        (lambda: filters.KnownFalsePositives(BloomFilter(1, 1), 0), "capacity=0"),
    ],
)
def test_wrong_arguments_are_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "kind", [BloomFilter, filters.SingleHashFilter, filters.BlockedBloomFilter], ids=str
)
@pytest.mark.parametrize("beyond", [1 << 63, -1 << 63, 7 << 63])
def test_of_a_longer_hash_the_low_63_bits_count(kind: Any, beyond: int) -> None:
    one, other = (kind.for_keys(100, 0.01) for _ in range(2))
    h = hash_key(b"key")
    one.add_hash(h)
    other.add_hash(h + beyond)
    assert other.bits == one.bits
    assert one.may_contain_hash(h + beyond)
