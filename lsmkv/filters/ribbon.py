"""The ribbon filter: a linear system over GF(2), within a tenth of the lower bound at block size.

A filter is r columns of m bits, packed one after another: bit i of column j is bit ``j * m + i``, and
bit b is bit ``b % 8`` (from the least significant) of byte ``b // 8``.  m is as large as the bytes
allow: ``8 * bytes // r`` slots.  r is the probe_count beside the filter.  A key's hash h gives a slot
to begin at, a window of w = min(m, 56) coefficients from there on, and r result bits::

    begin         ``((h * C mod 2^63) >> 31) * (m - w + 1) >> 32``, with C as in a Bloom filter
    coefficients  ``(((h ^ (h >> 32)) * M mod 2^63) >> 7) mod 2^w``, with bit 0 set;
                  M = 0x3F58476D1CE4E5B9; bit i is for slot begin + i
    result        bit j of h, for column j

The filter may hold a key if, in each column, the bits at the slots of the ones among its coefficients
have the parity of that column's result bit.  An absent key passes each column with a chance of a half,
so the rate is 2^-r, and two columns are asked on average before one says no.

The columns are a solution of that system, which has an equation for each key.  As many slots as keys
give it one with a chance of 3 in 10; each further slot about halves the chance of failure.  Up to
:data:`WINDOW_BITS` slots the window covers all; above that it is a band (a standard ribbon).

Sources: M. Dietzfelbinger, R. Pagh, "Succinct data structures for retrieval and approximate
membership", ICALP 2008; E. Porat, "An optimal Bloom filter replacement based on matrix solving", CSR
2009; P. C. Dillinger, S. Walzer, "Ribbon filter: practically smaller than Bloom and xor", 2021
(arXiv:2103.02515).
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le
from librt.vecs import vec
from mypy_extensions import i64, u8

from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.elias_fano import word_at
from lsmkv.filters.hashing import DIGEST_BYTES, MASK_63, packed_hashes
from lsmkv.filters.maths.layouts import MAX_RIBBON_COLUMNS, ribbon_slots_for

WINDOW_BITS: Final = 56
"""Slots that a key's window covers: a word less the 7 bits by which a read may be out of place."""

_MIX: Final = 0x3F58_476D_1CE4_E5B9  # an odd constant of splitmix64, cut to 63 bits
_COEFFICIENTS: Final = 0x00FF_FFFF_FFFF_FFFF  # the lowest WINDOW_BITS bits
_NIBBLES: Final = 0x1111_1111_1111_1111
_ONE: Final = i64(1)  # mypyc would shift a literal as a C int
_GROWTH: Final = 128  # a filter without a solution grows by this part of its bytes, and one byte
_MAX_TRIES: Final = 40  # only hashes that differ in nothing but result bits need more

_SMALL_SLOTS: Final = 63  # of a small filter: at most this, less a bit for each column
_PLACES: Final = 0x0431_4725_9A7A_BB7E
"""A de Bruijn sequence: its product with a power of two, 2^0 to 2^62, differs in the top 6 bits.

They are 0 for none of these, and for the product with 0.
"""
_SPREAD: Final = 0x0002_0408_1020_4081  # a product has each of 7 bits at the end of a byte
_LANES: Final = 0x0001_0101_0101_0101
_LANE_COUNT: Final = 7
_LANE_BITS: Final = 0x7F


def is_shape(byte_count: int, columns: int) -> bool:
    return 1 <= columns <= MAX_RIBBON_COLUMNS and columns <= 8 * byte_count <= 8 * MAX_BYTES


def build(hashes: list[int], columns: int) -> bytes:
    """A filter of these 63-bit hashes with ``columns`` columns; repeats do no harm.

    It has hardly more bytes than the system needs for a solution.  Empty if there are no hashes, too
    many, or some that differ in their result bits alone.  O(n * (WINDOW_BITS + columns)).
    """
    return build_from_digests(packed_hashes(hashes), columns)


def build_from_digests(packed: bytes, columns: i64) -> bytes:
    """As :func:`build`, of the hashes in :func:`~lsmkv.filters.hashing.digests`."""
    count: i64 = len(packed) // DIGEST_BYTES
    if count < WINDOW_BITS:
        built = _build_small(packed, columns)
        if built:
            return built
    byte_count: i64 = (ribbon_slots_for(count) * columns + 7) >> 3
    tries: i64 = _MAX_TRIES if count else 0
    while tries > 0 and byte_count <= MAX_BYTES:
        slots = (byte_count << 3) // columns
        windows = vec[i64]([0] * slots)
        results = vec[i64]([0] * slots)
        if _eliminate(packed, columns, windows, results):
            return _columns(windows, results, byte_count, columns)
        byte_count += 1 + byte_count // _GROWTH
        tries -= 1
    return b""


def _build_small(packed: bytes, columns: i64) -> bytes:
    """As :func:`build_from_digests`, with the fewest slots; empty if these do not fit into a word.

    An equation is a word: coefficients, and above them result bits.  The equation whose lowest
    coefficient is for slot i stands at the place of 2^i.  Where a place is empty it holds 0, as does
    the place of 0.  A contradiction leaves result bits alone, which count as further slots.
    """
    equations = vec[i64]([0] * 64)
    most_slots = _SMALL_SLOTS - columns
    if most_slots > WINDOW_BITS:
        most_slots = WINDOW_BITS
    coefficients = (_ONE << most_slots) - 1
    result_mask = (_ONE << columns) - 1
    mask = MASK_63
    taken: i64 = 0  # the slots that equations begin with
    at: i64 = 0
    end: i64 = len(packed)
    while at < end:
        h = read_i64_le(packed, at) & mask
        at += DIGEST_BYTES
        row = ((((h ^ (h >> 32)) * _MIX) >> 7) & coefficients) | 1
        row |= (h & result_mask) << most_slots
        while True:
            lowest = row & -row
            place = ((lowest * _PLACES) >> 58) & 63
            found = equations[place]
            if found == 0:
                break
            row ^= found
        if lowest:
            equations[place] = row
            taken |= lowest
    slots = end // DIGEST_BYTES
    while taken >> slots:
        slots += 1
    byte_count = (slots * columns + 7) >> 3
    slots = (byte_count << 3) // columns
    if slots > most_slots:
        return b""
    bits = vec[u8]([0] * byte_count)
    _solve_small(bits, equations, most_slots, slots, columns)
    first: i64 = _LANE_COUNT
    while first < columns:
        _write_columns(bits, equations, most_slots, slots, first, columns)
        first += _LANE_COUNT
    return bytes(bits)


def _solve_small(bits: vec[u8], equations: vec[i64], shift: i64, slots: i64, columns: i64) -> None:
    """Solve :func:`_build_small`'s equations, and write up to seven columns.

    It goes from the last slot to the first, and leaves of each equation its lowest coefficient and its
    results, which stand from bit ``shift`` on.  A free slot gets the equation that makes it 0.
    """
    slot = slots
    lowest = _ONE << slots
    kept = (lowest - 1) | (-_ONE << shift)
    lanes: i64 = 0  # of each column: the bits of eight slots
    while slot > 0:
        slot -= 1
        lowest >>= 1
        place = ((lowest * _PLACES) >> 58) & 63
        row = equations[place]
        lanes <<= 1
        if row:
            row = (row & kept) ^ lowest
            while True:
                found = equations[(((row & -row) * _PLACES) >> 58) & 63]
                if found == 0:
                    break
                row ^= found
            lanes |= (((row >> shift) & _LANE_BITS) * _SPREAD) & _LANES
        equations[place] = row | lowest
        if slot & 7 == 0:
            _write_lanes(bits, lanes, slot, slots, columns)
            lanes = 0


def _write_columns(
    bits: vec[u8], equations: vec[i64], shift: i64, slots: i64, first: i64, columns: i64
) -> None:
    """Write up to seven columns of solved equations, from column ``first`` on."""
    slot = slots
    lowest = _ONE << slots
    lanes: i64 = 0
    while slot > 0:
        slot -= 1
        lowest >>= 1
        row = equations[((lowest * _PLACES) >> 58) & 63] >> (shift + first)
        lanes = (lanes << 1) | (((row & _LANE_BITS) * _SPREAD) & _LANES)
        if slot & 7 == 0:
            _write_lanes(bits, lanes, first * slots + slot, slots, columns - first)
            lanes = 0


def _write_lanes(bits: vec[u8], lanes: i64, bit: i64, slots: i64, columns: i64) -> None:
    """Write up to seven bytes of ``lanes``, ``slots`` bits apart."""
    left: i64 = columns if columns < _LANE_COUNT else _LANE_COUNT
    while left > 0:
        shifted = (lanes & 0xFF) << (bit & 7)
        at = bit >> 3
        bits[at] = u8(i64(bits[at]) | (shifted & 0xFF))
        beyond = shifted >> 8
        if beyond:
            at += 1
            bits[at] = u8(i64(bits[at]) | beyond)
        lanes >>= 8
        bit += slots
        left -= 1


def _eliminate(packed: bytes, columns: i64, windows: vec[i64], results: vec[i64]) -> bool:
    """Bring the equations (window, result) of all slots into echelon form; False: they contradict."""
    slots: i64 = len(windows)
    mask = (_ONE << (slots if slots < WINDOW_BITS else WINDOW_BITS)) - 1
    starts: i64 = slots - (WINDOW_BITS - 1) if slots > WINDOW_BITS else 1
    result_mask = (_ONE << columns) - 1
    at: i64 = 0
    while at < len(packed):
        h = read_i64_le(packed, at) & MASK_63
        at += DIGEST_BYTES
        slot = ((((h * MULTIPLIER) & MASK_63) >> 31) * starts) >> 32
        window = ((((h ^ (h >> 32)) * _MIX) >> 7) & mask) | 1
        result = h & result_mask
        while windows[slot]:
            window ^= windows[slot]
            result ^= results[slot]
            if window == 0:
                break
            while not window & 1:
                window >>= 1
                slot += 1
        if window:
            windows[slot] = window
            results[slot] = result
        elif result:
            return False
    return True


def _columns(windows: vec[i64], results: vec[i64], byte_count: i64, columns: i64) -> bytes:
    """The packed columns that solve the equations; slots without one are 0."""
    slots: i64 = len(windows)
    bits = vec[u8]([0] * byte_count)
    ones = vec[u8]([1, 2, 4, 8, 16, 32, 64, 128])  # looked up: a shifted bit would be no u8
    above = vec[i64]([0] * columns)  # of each column: its bits from the slot after this one on
    slot = slots
    while slot > 0:
        slot -= 1
        window, result = windows[slot], results[slot]
        bit = slot
        column: i64 = 0
        while column < columns:
            word = (above[column] << 1) & _COEFFICIENTS
            if window:
                odd = word & window
                odd ^= odd >> 1
                odd ^= odd >> 2
                # The sum of at most 14 nibbles, each 0 or 1.
                if ((((odd & _NIBBLES) * _NIBBLES) >> 60) ^ result) & 1:
                    word |= 1
                    bits[bit >> 3] = bits[bit >> 3] | ones[bit & 7]
            above[column] = word
            result >>= 1
            bit += slots
            column += 1
    return bytes(bits)


def may_contain(bits: bytes, start: i64, byte_count: i64, columns: i64, h: i64) -> bool:
    """Whether the filter in ``bits[start : start + byte_count]`` may hold the hash ``h``.

    False is certain.  A filter of no bytes may hold anything.  O(columns), and two columns on average
    when the answer is no.
    """
    if byte_count == 0:
        return True
    slots = (byte_count << 3) // columns
    bit = start << 3
    window: i64 = (((h ^ (h >> 32)) * _MIX) >> 7) | 1
    if slots > WINDOW_BITS:
        window &= _COEFFICIENTS
        bit += ((((h * MULTIPLIER) & MASK_63) >> 31) * (slots - (WINDOW_BITS - 1))) >> 32
    else:
        window &= (_ONE << slots) - 1
    last: i64 = len(bits)
    last -= 8
    while columns > 0:
        at = bit >> 3
        word = read_i64_le(bits, at) if at <= last else word_at(bits, at)
        odd = (word >> (bit & 7)) & window
        odd ^= odd >> 1
        odd ^= odd >> 2
        # The parity is that of a sum of at most 14 nibbles, each 0 or 1.
        if ((((odd & _NIBBLES) * _NIBBLES) >> 60) ^ h) & 1:
            return False
        h >>= 1
        bit += slots
        columns -= 1
    return True
