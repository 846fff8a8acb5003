"""Small integers of equal width, packed without gaps.

Integer i of w bits takes the bits i*w to (i+1)*w - 1; bit b is bit ``b % 8`` (from the least
significant) of byte ``b // 8``.  Widths go up to 62 bits.
"""

from __future__ import annotations

from collections.abc import Iterable


def packed_bytes(count: int, width: int) -> int:
    return (count * width + 7) // 8


def pack(numbers: Iterable[int], width: int) -> bytearray:
    """``numbers``, each of at most ``width`` bits, packed.

    >>> pack([1, 2, 3], 4).hex()
    '2103'
    """
    packed = bytearray()
    pending = pending_bits = 0
    for number in numbers:
        pending |= number << pending_bits
        pending_bits += width
        while pending_bits >= 8:
            packed.append(pending & 0xFF)
            pending >>= 8
            pending_bits -= 8
    if pending_bits:
        packed.append(pending)
    return packed


def read(packed: bytearray, index: int, width: int) -> int:
    """The integer at ``index``.  O(width)."""
    first = index * width
    shift = first & 7
    at = first >> 3
    number = packed[at] >> shift
    have = 8 - shift
    while have < width:
        at += 1
        byte = packed[at]
        number |= byte << have
        have += 8
    mask = (1 << width) - 1
    return number & mask


def write(packed: bytearray, index: int, width: int, number: int) -> None:
    """Set the integer at ``index``, at most ``width`` bits long.  O(width)."""
    first = index * width
    at = first >> 3
    shift = first & 7
    left = width
    while left > 0:
        room = 8 - shift
        taken = room if left > room else left
        mask = ((1 << taken) - 1) << shift
        packed[at] = (packed[at] & ~mask & 0xFF) | ((number << shift) & mask)
        number >>= taken
        left -= taken
        at += 1
        shift = 0
