"""Small integers of equal width, packed without gaps.

Integer i of w bits takes the bits i*w to (i+1)*w - 1; bit b is bit ``b % 8`` (from the least
significant) of byte ``b // 8``.  Widths go up to 62 bits.
"""

from __future__ import annotations


def packed_bytes(count: int, width: int) -> int:
    return (count * width + 7) // 8


def pack(numbers: list[int], width: int) -> bytearray:
    """``numbers``, each of at most ``width`` bits, packed.

    >>> pack([1, 2, 3], 4).hex()
    '2103'
    """
    packed = bytearray(packed_bytes(len(numbers), width))
    for index, number in enumerate(numbers):
        write(packed, index, width, number)
    return packed


def read(packed: bytearray, index: int, width: int) -> int:
    """The integer at ``index``."""
    first = index * width
    word = int.from_bytes(packed[first >> 3 : (first + width + 7) >> 3], "little")
    return (word >> (first & 7)) & ((1 << width) - 1)


def write(packed: bytearray, index: int, width: int, number: int) -> None:
    """Set the integer at ``index``, at most ``width`` bits long."""
    first = index * width
    at, end, shift = first >> 3, (first + width + 7) >> 3, first & 7
    others = int.from_bytes(packed[at:end], "little") & ~(((1 << width) - 1) << shift)
    packed[at:end] = (others | number << shift).to_bytes(end - at, "little")
