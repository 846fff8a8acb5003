"""Elias-Fano sequences: the numbers that went in, found by position and by size."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.filters import EliasFano, elias_fano

numbers = st.integers(0, 300) | st.integers(0, 1 << 20) | st.integers(0, (1 << 63) - 1)
sequences = st.lists(numbers, max_size=60).map(sorted)


@given(sequences)
@example([(1 << 63) - 1])
@example([0, 0, 0])
@example(list(range(2000)))
@example([*range(5000), (1 << 63) - 1])
def test_numbers_are_those_that_went_in(held: list[int]) -> None:
    sequence = EliasFano(held)
    assert len(sequence) == len(held)
    assert list(sequence) == held
    assert [sequence[-position - 1] for position in range(len(held))] == held[::-1]


@given(sequences, st.lists(numbers))
def test_the_next_number_is_the_first_that_is_not_below(held: list[int], asked: list[int]) -> None:
    sequence = EliasFano(held)
    for number in (*asked, *held, *(number + 1 for number in held), -1, 1 << 64):
        position = bisect_left(held, number)
        assert sequence.count_below(number) == position
        assert sequence.next_at_least(number) == (held[position] if position < len(held) else None)


@pytest.mark.parametrize(("count", "most"), [(100, 10_000), (1000, 1 << 40), (30_000, 40_000)])
def test_a_number_takes_two_bits_more_than_the_logarithm_of_the_gaps(count: int, most: int) -> None:
    """(l + 1) + u/n bits, where u/n lies between 1 and 2."""
    draw = random.Random(count)
    held = sorted(draw.randrange(most) for _ in range(count))
    low_bits = (most // count).bit_length() - 1
    sequence = EliasFano(held)
    assert sequence.low_bits == low_bits
    assert 8 * sequence.byte_count <= count * (low_bits + 1) + (most >> low_bits) + 8
    for position in draw.sample(range(count), 50):
        assert sequence[position] == held[position]
        assert sequence.count_below(held[position]) == bisect_left(held, held[position])


@pytest.mark.parametrize("wrong", [[-1], [1 << 63], [2, 1]])
def test_numbers_that_do_not_ascend_from_0_to_63_bits_are_refused(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"{wrong[-1]}.*must"):
        EliasFano(wrong)


def test_positions_outside_the_sequence_are_refused() -> None:
    for position in (3, -4):
        with pytest.raises(IndexError, match=f"position {position if position > 0 else -1} of 3"):
            EliasFano([1, 2, 3])[position]
    assert repr(EliasFano([1, 2, 3])) == "<EliasFano: 3 numbers in 1 bytes>"


@given(
    data=st.binary(max_size=40),
    start=st.integers(0, 5),
    count=st.integers(0, 200),
    low_bits=st.integers(0, 31),
    least=st.integers(0, 1 << 31),
    length=st.integers(0, 300),
)
def test_any_bytes_with_room_for_the_low_bits_can_be_asked(
    data: bytes, start: int, count: int, low_bits: int, least: int, length: int
) -> None:
    byte_count = len(data) - start
    if byte_count >= 0 and count * (low_bits + 1) < 8 * byte_count:
        position = elias_fano.first_between(
            data, start, byte_count, count, low_bits, least, least + length
        )
        assert -1 <= position < count
