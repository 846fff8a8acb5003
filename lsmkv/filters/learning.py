"""A packed list of absent keys that filters let pass.

Lookups ask it after a filter's maybe, and it denies them.

A key is listed by the number of its block and the low bits of its hash.  There are as many of these as
tell it from each key of that block, or it is not listed: no present key is denied.  Entries are
numbers of a few bytes: block number, then low bits.  They ascend.  Nearly all fit the short list, whose
low bits have at least 64 times as many values as a block has keys.  The others go to the long list, whose
entries have 16 bits more.

The list is bounded.  A full one forgets an entry for each new one; a hash of the new one decides which.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from lsmkv.encoding.fences import first_head
from lsmkv.filters.bloom import MULTIPLIER
from lsmkv.filters.hashing import MASK_63

MAX_LIST_BYTES: Final = 1 << 15  # size of a full list, of which a table has two
_PAD: Final = 8  # bytes before the first entry, which reads of whole words need
_SPARE_BITS: Final = 6  # of a short entry, beyond those that number the keys of a block
_LEAST_LOW_BITS: Final = 8
_MAX_SHORT_BYTES: Final = 5
_LONGER_BYTES: Final = 2
_ONE: Final = i64(1)


class LearntKeys:
    """The absent keys that a table denies; any thread may ask and add, and lose one."""

    def __init__(self, block_count: int, entry_count: int) -> None:
        block_bits = (block_count - 1).bit_length()
        low_bits = max(_LEAST_LOW_BITS, (entry_count // block_count).bit_length() + _SPARE_BITS)
        width = min((block_bits + low_bits + 7) >> 3, _MAX_SHORT_BYTES)
        self._short_width: i64 = width
        self._short_bits: i64 = 8 * width - block_bits
        self._long_width: i64 = width + _LONGER_BYTES
        self._long_bits: i64 = 8 * (width + _LONGER_BYTES) - block_bits
        # Replaced as a whole: readers take no lock, and go on with the bytes that they began with.
        self._short: bytes = b""
        self._long: bytes = b""

    def has(self, block_number: i64, h: i64) -> bool:
        """Whether the list denies the hash ``h`` for a block.  O(log n)."""
        short = _entry(block_number, h, self._short_bits)
        if _is_in(self._short, self._short_width, short):
            return True
        long = self._long
        return len(long) > 0 and _is_in(
            long, self._long_width, _entry(block_number, h, self._long_bits)
        )

    def add(self, block_number: i64, h: i64, shared_bits: i64) -> bool:
        """Deny ``h``, of which a key there has so many low bits; False if none tells it apart."""
        if shared_bits < self._short_bits:
            entry = _entry(block_number, h, self._short_bits)
            self._short = _with(self._short, self._short_width, entry)
        elif shared_bits < self._long_bits:
            entry = _entry(block_number, h, self._long_bits)
            self._long = _with(self._long, self._long_width, entry)
        else:
            return False
        return True

    @property
    def memory_bytes(self) -> int:
        return len(self._short) + len(self._long)


def _entry(block_number: i64, h: i64, low_bits: i64) -> i64:
    return (block_number << low_bits) | (h & ((_ONE << low_bits) - 1))


def _is_in(packed: bytes, width: i64, entry: i64) -> bool:
    if len(packed) == 0:
        return False
    count = (len(packed) - _PAD) // width
    return _has_at(packed, width, first_head(packed, _PAD, width, count, width, entry), entry)


def _has_at(packed: bytes, width: i64, position: i64, entry: i64) -> bool:
    """Whether ``entry`` is at ``position``, which may be behind the last."""
    end = _PAD + width * (position + 1)
    if end > len(packed):
        return False
    return read_i64_be(packed, end - 8) & ((_ONE << (8 * width)) - 1) == entry


def _with(packed: bytes, width: i64, entry: i64) -> bytes:
    """The list with ``entry``; a full one loses another."""
    added = int(entry).to_bytes(width, "big")
    if len(packed) == 0:
        return bytes(_PAD) + added
    count = (len(packed) - _PAD) // width
    position = first_head(packed, _PAD, width, count, width, entry)
    if _has_at(packed, width, position, entry):
        return packed
    at = _PAD + width * position
    if len(packed) + width <= MAX_LIST_BYTES:
        return packed[:at] + added + packed[at:]
    lost = _PAD + width * ((entry * MULTIPLIER & MASK_63) % count)
    if lost < at:
        return packed[:lost] + packed[lost + width : at] + added + packed[at:]
    return packed[:at] + added + packed[at:lost] + packed[lost + width :]
