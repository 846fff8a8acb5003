"""The tasks of a build: rows in key order, sampled distinct keys, and where partitions end."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from conftest import number_key
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmkv.cluster.work import partition_numbers, plan, sample, sorted_rows, to_table

PAIRS = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=4)), max_size=40)


def table_of(pairs: list[tuple[bytes, bytes]], part: int = 0) -> pa.Table:
    return to_table(pairs, "key", "value", part)


def taken(table: pa.Table, rows: pa.Array) -> list[tuple[bytes, bytes]]:
    some = table.take(rows)
    return list(zip(some["key"].to_pylist(), some["value"].to_pylist(), strict=True))


@settings(max_examples=40)
@given(PAIRS)
def test_the_order_of_the_source_decides_whatever_the_order_of_rows(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    table = pa.concat_tables([table_of(pairs, 1), table_of(pairs[::-1], 0)])
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    expected = sorted({**dict(pairs[::-1]), **dict(pairs)}.items())
    assert taken(shuffled, sorted_rows(shuffled)) == expected


@settings(max_examples=40)
@given(PAIRS, st.lists(st.binary(max_size=3), unique=True, max_size=5))
def test_each_row_gets_the_partition_that_its_key_lies_in(
    pairs: list[tuple[bytes, bytes]], ends: list[bytes]
) -> None:
    ends.sort()
    table = table_of(pairs)
    keys = table["key"].take(sorted_rows(table))
    expected = [sum(key > end for end in ends) for key in keys.to_pylist()]
    assert partition_numbers(keys, ends).tolist() == expected


def test_a_sample_is_of_the_distinct_keys_and_knows_their_bytes() -> None:
    pairs = [(number_key(number % 700), b"v" * (number % 50)) for number in range(2000)]
    last = dict(pairs)
    found = sample(table_of(pairs), 100)
    assert found.pairs == 2000
    assert found.source_bytes == sum(len(key) + len(value) for key, value in pairs)
    assert len(found.keys) == 100 and found.threshold is not None
    for key, hashed, size_bytes in found.keys.itertuples(index=False):
        assert hashed < found.threshold and size_bytes == len(key) + len(last[key])
    whole = sample(table_of(pairs), 700)
    assert len(whole.keys) == 700 and whole.threshold is None


@pytest.mark.parametrize("repeated", [1, 50], ids=["once", "in every part"])
def test_partitions_are_balanced_by_distinct_keys(repeated: int) -> None:
    """The first half of the keys is in every part; tables hold each of them once."""
    parts = 50
    samples = []
    for part in range(parts):
        own = [number_key(number) for number in range(5000, 10_000) if number % parts == part]
        shared = range(5000) if repeated > 1 else range(part, 5000, parts)
        own += [number_key(number) for number in shared]
        samples.append(sample(table_of([(key, b"v" * 20) for key in own], part), 400))
    found = plan(samples, 10, 1 << 40)
    sizes = Counter(sum(number_key(number) > end for end in found.ends) for number in range(10_000))
    assert len(found.ends) == 9
    assert len(sizes) == 10
    assert max(sizes.values()) < 1.5 * 1000


def test_parts_of_different_sizes_are_sampled_alike() -> None:
    large = table_of([(number_key(number), b"") for number in range(9000)], 0)
    small = table_of([(number_key(number), b"") for number in range(9000, 10_000)], 1)
    found = plan([sample(table, 2000) for table in (large, small)], 5, 1 << 40)
    sizes = Counter(sum(number_key(number) > end for end in found.ends) for number in range(10_000))
    assert max(sizes.values()) < 1.2 * 2000


def test_a_plan_has_as_many_partitions_as_the_bytes_need() -> None:
    samples = [sample(table_of([(number_key(n), b"v" * 91) for n in range(1000)]), 400)]
    assert samples[0].source_bytes == 100_000
    for asked, made in ((1, 4), (2, 4), (7, 7)):
        assert len(plan(samples, asked, 25_000).ends) == made - 1
    assert plan([sample(table_of([]), 400)], 1, 25_000).ends == []
