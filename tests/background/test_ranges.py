"""Key ranges of about the same weight."""

from __future__ import annotations

from itertools import pairwise

from conftest import fill, number_key, open_small
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.background.process.ranges import key_ranges, ranges_between, splitters

WEIGHTS = st.lists(st.tuples(st.binary(max_size=3), st.integers(1, 100)), max_size=60)


def parts(weights: list[tuple[bytes, int]], keys: list[bytes]) -> list[int]:
    return [
        sum(
            weight
            for key, weight in weights
            if (after is None or key > after) and (through is None or key <= through)
        )
        for after, through in ranges_between(keys)
    ]


@given(WEIGHTS, st.integers(1, 12))
def test_no_part_is_heavier_than_its_share_by_more_than_the_heaviest_key(
    weights: list[tuple[bytes, int]], count: int
) -> None:
    keys = splitters(weights, count)
    assert len(keys) < count or not keys
    assert all(left < right for left, right in pairwise(keys))
    sizes = parts(weights, keys)
    assert sum(sizes) == sum(weight for _, weight in weights)
    by_key: dict[bytes, int] = {}
    for key, weight in weights:
        by_key[key] = by_key.get(key, 0) + weight
    heaviest = max(by_key.values(), default=0)
    assert max(sizes) <= sum(sizes) / count + heaviest
    if weights:
        assert min(sizes) > 0


def test_a_heavy_key_is_alone() -> None:
    weights = [(b"%02d" % number, 1) for number in range(100)]
    weights[50] = (b"50", 1000)
    assert parts(weights, splitters(weights, 4)).count(1000) == 1


def test_tables_are_cut_into_ranges_of_equal_bytes(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(3000))
        db.compact_range()
        tables = list(db._state.require_open().version.tables())
        bounds = key_ranges(tables, 4)
        sizes = [
            db.approximate_size(after or b"", None if through is None else through + b"\0")
            for after, through in bounds
        ]
        assert len(sizes) == 4
        assert max(sizes) < 1.1 * sum(sizes) / 4
        assert bounds[1][0] is not None and number_key(650) < bounds[1][0] < number_key(850)
