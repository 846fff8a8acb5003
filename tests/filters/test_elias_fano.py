"""Elias-Fano sequences: the numbers that went in, found by position and by size."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.filters import elias_fano

numbers = st.integers(0, 300) | st.integers(0, 1 << 20) | st.integers(0, (1 << 63) - 1)
sequences = st.lists(numbers, min_size=1, max_size=60).map(sorted)


def encoded(held: list[int]) -> tuple[bytes, int]:
    """The sequence of ``held`` in the fewest bytes, and its low bits."""
    universe = held[-1] + 1
    low_bits = min(elias_fano.MAX_LOW_BITS, max(0, (universe // len(held)).bit_length() - 1))
    bit_count = len(held) * (low_bits + 1) - (-universe >> low_bits)
    size = -(-bit_count // 8)
    return elias_fano.build(held, low_bits, size), low_bits


@given(sequences, st.lists(numbers))
@example([(1 << 63) - 1], [])
@example([0, 0, 0], [])
@example(list(range(2000)), [])
@example([*range(5000), (1 << 63) - 2], [])
def test_the_first_number_between_two_is_found(held: list[int], asked: list[int]) -> None:
    bits, low_bits = encoded(held)
    some = held[:: 1 + len(held) // 100]
    for least in (*asked, *some, *(number + 1 for number in some if number + 1 < 1 << 63)):
        position = bisect_left(held, least)
        for most in {least, held[-1], min(least + 300, (1 << 63) - 1)}:
            found = elias_fano.first_between(bits, 0, len(bits), len(held), low_bits, least, most)
            is_there = position < len(held) and held[position] <= most
            assert found == (position if is_there else -1)


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
