"""Checks of packed arrays agree with checks of plain lists."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.sstable.index_arrays import (
    filter_shapes,
    last_of_ascending,
    last_of_ascending_pairs,
    sum_of_positive,
)

PADDING = b"\xff" * 3  # an array may begin anywhere

nearby = st.lists(st.integers(0, 12), min_size=1, max_size=8)
ascending = nearby.map(lambda numbers: [0, *sorted(numbers)])
extreme = st.lists(st.sampled_from([0, 1, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]), min_size=1)


def plain_last(numbers: list[int], step: int) -> int:
    in_order = all(0 <= high - low <= step for low, high in pairwise(numbers))
    return numbers[-1] if numbers[0] == 0 and in_order else -1


@given(nearby | ascending | extreme, st.sampled_from([0, 3, 12, (1 << 32) - 1]))
def test_numbers_ascend_as_they_compare(numbers: list[int], step: int) -> None:
    last = len(numbers) - 1
    narrow = PADDING + struct.pack(f"<{len(numbers)}I", *numbers)
    wide = PADDING + struct.pack(f"<{len(numbers)}Q", *numbers)
    assert last_of_ascending(narrow, 3, 4, last, step) == plain_last(numbers, step)
    assert last_of_ascending(wide, 3, 8, last, step) == plain_last(numbers, step)


def test_a_number_of_64_bits_with_its_highest_set_does_not_ascend() -> None:
    assert last_of_ascending(struct.pack("<2Q", 0, 1 << 63), 0, 8, 1, (1 << 63) - 1) == -1


@given(nearby | ascending)
def test_pairs_ascend_as_they_compare(numbers: list[int]) -> None:
    numbers = numbers[: len(numbers) // 2 * 2]
    if not numbers:
        return
    count = len(numbers) // 2
    data = PADDING + struct.pack(f"<{2 * count}Q", *numbers[::2], *numbers[1::2])
    in_order = all(low <= high for low, high in pairwise(numbers))
    for lowest in (numbers[0], numbers[0] + 1):
        got = last_of_ascending_pairs(data, 3, 3 + 8 * count, count, lowest)
        assert got == (numbers[-1] if in_order and lowest == numbers[0] else -1)


@given(nearby | extreme)
def test_sums_are_those_of_positive_numbers(numbers: list[int]) -> None:
    data = PADDING + struct.pack(f"<{len(numbers)}I", *numbers)
    is_fine = all(0 < number < 1 << 31 for number in numbers)
    assert sum_of_positive(data, 3, len(numbers)) == (sum(numbers) if is_fine else -1)


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=600))
def test_every_shape_is_among_the_shapes(filters: list[tuple[int, int]]) -> None:
    ends = [0]
    for length, _ in filters:
        ends.append(ends[-1] + length)
    packed = struct.pack(f"<{len(ends)}I", *ends)
    data = PADDING + packed + bytes(parameter for _, parameter in filters)
    found = filter_shapes(data, 3, 3 + len(packed), len(filters))
    assert found == {length << 8 | parameter for length, parameter in filters}
