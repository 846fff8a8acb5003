"""Where partitions end: sampled distinct keys, and the rows between them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from conftest import number_key
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmkv.cluster.pieces import RepeatedKeyError, from_pairs, row_bytes, sorted_rows
from lsmkv.cluster.sample import partition_numbers, plan, sample, sample_size

PAIRS = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=4)), max_size=40)


def taken(table: pa.Table, rows: pa.Array) -> list[tuple[bytes, bytes]]:
    some = table.take(rows)
    return list(zip(some["key"].to_pylist(), some["value"].to_pylist(), strict=True))


@settings(max_examples=40)
@given(PAIRS)
def test_rows_are_sorted_and_the_last_of_a_key_stays(pairs: list[tuple[bytes, bytes]]) -> None:
    table = from_pairs(pairs, 3)
    assert taken(table, sorted_rows(table, may_repeat=True)) == sorted(dict(pairs).items())


@settings(max_examples=40)
@given(PAIRS)
def test_the_order_of_the_source_decides_whatever_the_order_of_rows(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    table = pa.concat_tables([from_pairs(pairs, 1), from_pairs(pairs[::-1], 0)])
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    expected = sorted({**dict(pairs[::-1]), **dict(pairs)}.items())
    assert taken(shuffled, sorted_rows(shuffled, may_repeat=True)) == expected


def test_a_repeated_key_is_refused_where_it_must_not_be() -> None:
    table = from_pairs([(b"b", b""), (b"a", b""), (b"b", b"")], 0)
    with pytest.raises(RepeatedKeyError, match="key b'b' comes more than once"):
        sorted_rows(table, may_repeat=False)


@settings(max_examples=40)
@given(PAIRS, st.lists(st.binary(max_size=3), unique=True, max_size=5))
def test_each_row_gets_the_partition_that_its_key_lies_in(
    pairs: list[tuple[bytes, bytes]], ends: list[bytes]
) -> None:
    ends.sort()
    table = from_pairs(pairs, 0)
    ordered = table.take(sorted_rows(table, may_repeat=True))
    keys = ordered["key"].to_pylist()
    expected = [sum(key > end for end in ends) for key in keys]
    assert partition_numbers(ordered, ends).tolist() == expected


def test_a_sample_is_of_the_distinct_keys_and_knows_their_bytes() -> None:
    pairs = [(number_key(number % 700), b"v" * (number % 50)) for number in range(2000)]
    found = sample(from_pairs(pairs, 0), 100, may_repeat=True)
    last = dict(pairs)
    assert (found.pairs, found.entries) == (2000, 700)
    assert found.source_bytes == sum(len(key) + len(value) for key, value in pairs)
    assert len(found.weights) == 100
    for key, (hashed, weight) in found.weights.items():
        assert hashed < found.threshold and weight == len(key) + len(last[key])
    whole = sample(from_pairs(pairs, 0), 700, may_repeat=True)
    assert len(whole.weights) == 700


@pytest.mark.parametrize("repeated", [1, 50], ids=["once", "in every part"])
def test_partitions_are_balanced_by_distinct_keys(repeated: int) -> None:
    """The first half of the keys is in every part; tables hold each of them once."""
    parts = 50
    samples = []
    for part in range(parts):
        own = [number_key(number) for number in range(5000, 10_000) if number % parts == part]
        if repeated == 1:
            own += [number_key(number) for number in range(5000) if number % parts == part]
        else:
            own += [number_key(number) for number in range(5000)]
        table = from_pairs([(key, b"v" * 20) for key in own], part)
        samples.append(sample(table, sample_size(10, parts), may_repeat=True))
    found = plan(samples, 10, 1 << 40)
    sizes = Counter(
        sum(number_key(number) > end for end in found.splitters) for number in range(10_000)
    )
    assert found.partitions == len(sizes) == 10
    assert max(sizes.values()) < 1.5 * 1000


def test_parts_of_different_sizes_are_sampled_alike() -> None:
    large = from_pairs([(number_key(number), b"") for number in range(9000)], 0)
    small = from_pairs([(number_key(number), b"") for number in range(9000, 10_000)], 1)
    found = plan([sample(table, 2000, may_repeat=True) for table in (large, small)], 5, 1 << 40)
    sizes = Counter(
        sum(number_key(number) > end for end in found.splitters) for number in range(10_000)
    )
    assert max(sizes.values()) < 1.2 * 2000


def test_a_plan_has_as_many_partitions_as_the_bytes_need() -> None:
    table = from_pairs([(number_key(number), b"v" * 91) for number in range(1000)], 0)
    assert int(np.asarray(row_bytes(table)).sum()) == 100_000
    samples = [sample(table, 400, may_repeat=True)]
    assert plan(samples, None, 25_000).partitions == 4
    assert plan(samples, 2, 25_000).partitions == 4
    assert plan(samples, 7, 25_000).partitions == 7
    assert plan([], None, 1).partitions == 1
