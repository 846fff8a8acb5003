"""The ribbon filter: a linear system over GF(2), within a tenth of the lower bound at block size.

A filter is r columns of m bits, packed one after another: bit i of column j is bit ``j * m + i``, and
bit b is bit ``b % 8`` (from the least significant) of byte ``b // 8``.  m is as large as the bytes
allow: ``8 * bytes // r`` slots.  A key's hash gives a place, a window of coefficients from there on, and
r result bits.  The filter holds a key if, in each column, the bits under the window's ones have the
parity of that column's result bit.  An absent key passes each column with a chance of a half, so the
rate is 2^-r, and two columns are asked on average before one says no.

The columns are a solution of that system, which has an equation for each key.  A slot more than keys
gives it one with a chance of 3 in 10, each further slot halves the chance of failure.  Up to
:data:`WINDOW_BITS` slots the window covers all; above that it is a band (a standard ribbon).

Sources: M. Dietzfelbinger, R. Pagh, "Succinct data structures for retrieval and approximate
membership", ICALP 2008; E. Porat, "An optimal Bloom filter replacement based on matrix solving", CSR
2009; P. C. Dillinger, S. Walzer, "Ribbon filter: practically smaller than Bloom and xor", 2021
(arXiv:2103.02515).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from librt.vecs import vec
from mypy_extensions import i64, u8

from lsmkv.encoding.words import COMPILED
from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.hashing import DIGEST_BYTES, MASK_63
from lsmkv.filters.maths.layouts import MAX_RIBBON_COLUMNS, ribbon_slots_for

WINDOW_BITS: Final = 56
"""Slots that a key's window covers: a word less the 7 bits by which a read may be out of place."""

_MIX: Final = 0x3F58_476D_1CE4_E5B9  # an odd constant of splitmix64, cut to 63 bits
_NIBBLES: Final = 0x1111_1111_1111_1111
_ONE: Final = i64(1)
_GROWTH: Final = 128  # a filter without a solution grows by this part of its bytes, and one byte
_MAX_TRIES: Final = 40  # only hashes that differ in nothing but result bits need more


def is_shape(byte_count: int, columns: int) -> bool:
    """Whether a filter can have that size and number of columns."""
    return 1 <= columns <= MAX_RIBBON_COLUMNS and columns <= 8 * byte_count <= 8 * MAX_BYTES


def build(hashes: list[int], columns: int) -> bytes:
    """A filter of these 63-bit hashes with ``columns`` columns; repeats do no harm.

    It has the fewest bytes from :func:`~lsmkv.filters.maths.layouts.ribbon_slots_for` on with which
    the system has a solution.  Empty if there are no hashes, too many, or some that differ in their
    result bits alone.  O(n * (WINDOW_BITS + columns)).
    """
    packed = BytesWriter()
    for h in hashes:
        write_i64_le(packed, h)
    return _build(packed.getvalue(), 8, columns)


def build_from_digests(packed: bytes, columns: int) -> bytes:
    """As :func:`build`, of the hashes in :func:`~lsmkv.filters.hashing.digests`."""
    return _build(packed, DIGEST_BYTES, columns)


def _build(packed: bytes, stride: i64, columns: i64) -> bytes:
    """As :func:`build`, of the hashes at every ``stride`` bytes of ``packed``."""
    count = len(packed) // stride
    byte_count: i64 = (ribbon_slots_for(count) * columns + 7) >> 3
    tries: i64 = _MAX_TRIES if count else 0
    while tries > 0 and byte_count <= MAX_BYTES:
        slots = (byte_count << 3) // columns
        windows = vec[i64]([0] * slots)
        results = vec[i64]([0] * slots)
        if _eliminate(packed, stride, columns, windows, results):
            return _columns(windows, results, byte_count, columns)
        byte_count += 1 + byte_count // _GROWTH
        tries -= 1
    return b""


def _eliminate(
    packed: bytes, stride: i64, columns: i64, windows: vec[i64], results: vec[i64]
) -> bool:
    """Bring the keys' equations into echelon form; False if they contradict each other.

    The equation at slot i has the coefficients ``windows[i]``, the lowest of them for slot i and 1,
    and the bits ``results[i]``; a slot without one has the window 0.
    """
    slots: i64 = len(windows)
    mask = _window_mask(slots)
    width: i64 = slots if slots < WINDOW_BITS else WINDOW_BITS
    starts = slots - width + 1
    result_mask = (_ONE << columns) - 1
    at: i64 = 0
    while at < len(packed):
        h = read_i64_le(packed, at) & MASK_63
        at += stride
        slot = ((((h * MULTIPLIER) & MASK_63) >> 31) * starts) >> 32
        window = (((((h ^ (h >> 32)) * _MIX) & MASK_63) >> 7) | 1) & mask
        if not _insert(windows, results, slot, window, h & result_mask):
            return False
    return True


def _insert(windows: vec[i64], results: vec[i64], slot: i64, window: i64, result: i64) -> bool:
    """Add an equation; False if it contradicts the others.  One that follows from them adds nothing."""
    while windows[slot] != 0:
        window ^= windows[slot]
        result ^= results[slot]
        if window == 0:
            return result == 0
        while not window & 1:
            window >>= 1
            slot += 1
    windows[slot] = window
    results[slot] = result
    return True


def _window_mask(slots: i64) -> i64:
    width: i64 = slots if slots < WINDOW_BITS else WINDOW_BITS
    return (_ONE << width) - 1


def _columns(windows: vec[i64], results: vec[i64], byte_count: i64, columns: i64) -> bytes:
    """The packed columns that solve the equations; slots without one are 0.

    It goes from the last slot to the first.  Each column's bits under the window are in a word.
    """
    slots: i64 = len(windows)
    mask = _window_mask(slots)
    bits = vec[u8]([0] * byte_count)
    ones = vec[u8]([1, 2, 4, 8, 16, 32, 64, 128])  # looked up: a shifted bit would be no u8
    above = vec[i64]([0] * columns)  # of each column: its bits from the slot after this one on
    slot = slots
    while slot > 0:
        slot -= 1
        window, result = windows[slot], results[slot]
        place = slot
        column: i64 = 0
        while column < columns:
            word = (above[column] << 1) & mask
            if window and (_parity(word & window) ^ result) & 1:
                word |= 1
                bits[place >> 3] = bits[place >> 3] | ones[place & 7]
            above[column] = word
            result >>= 1
            place += slots
            column += 1
    return bytes(bits)


def _parity(word: i64) -> i64:
    """A number whose lowest bit is the parity of ``word``.

    ``word`` has at most 56 bits.
    """
    if not COMPILED:
        return int(word).bit_count()
    word ^= word >> 1
    word ^= word >> 2
    return ((word & _NIBBLES) * _NIBBLES) >> 60  # the sum of at most 14 nibbles, each 0 or 1


def may_contain(bits: bytes, start: i64, byte_count: i64, columns: i64, h: i64) -> bool:
    """Whether the filter in ``bits[start : start + byte_count]`` may hold the hash ``h``.

    False is certain.  A filter of no bytes may hold anything.  O(columns), and two columns on average
    when the answer is no.
    """
    if byte_count == 0:
        return True
    slots = (byte_count << 3) // columns
    width: i64 = slots if slots < WINDOW_BITS else WINDOW_BITS
    window = (((((h ^ (h >> 32)) * _MIX) & MASK_63) >> 7) | 1) & ((_ONE << width) - 1)
    place = (start << 3) + (((((h * MULTIPLIER) & MASK_63) >> 31) * (slots - width + 1)) >> 32)
    last: i64 = len(bits) - 8
    for _column in range(columns):  # named: mypyc boxes "_" each time round
        at = place >> 3
        word = read_i64_le(bits, at) if at <= last else _last_word(bits, at)
        if (_parity((word >> (place & 7)) & window) ^ h) & 1:
            return False
        h >>= 1
        place += slots
    return True


def _last_word(bits: bytes, at: i64) -> i64:
    """As ``read_i64_le(bits, at)``, where fewer than eight bytes are left."""
    word: i64 = 0
    end: i64 = len(bits)
    while end > at:
        end -= 1
        word = (word << 8) | bits[end]
    return word


# For filters that learn (:mod:`lsmkv.filters.learning`)


def window_mask(slots: i64) -> i64:
    """A one for each slot that a window covers."""
    width: i64 = slots if slots < WINDOW_BITS else WINDOW_BITS
    return (_ONE << width) - 1


def row_of(h: i64, slots: i64) -> tuple[i64, i64]:
    """The first slot and the window of a hash; the window's lowest bit, for that slot, is 1."""
    width: i64 = slots if slots < WINDOW_BITS else WINDOW_BITS
    slot = ((((h * MULTIPLIER) & MASK_63) >> 31) * (slots - width + 1)) >> 32
    return slot, (((((h ^ (h >> 32)) * _MIX) & MASK_63) >> 7) | 1) & ((_ONE << width) - 1)
