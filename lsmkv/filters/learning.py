"""Ribbon filters that learn to deny hashes that they let pass.

A filter (:mod:`lsmkv.filters.ribbon`) has more slots than its keys have equations.  So there are
vectors of slots that meet each key's window in an even number of ones: added to a column, they change
the answer to no key.  One that meets the window of another hash in an odd number turns the answer to
that hash.  :func:`denying` finds such a vector, and picks the slots that are free at random, so that the
answers to later hashes do not hang together.  Lessons take the columns in turn: in one column, two
hashes that meet every vector alike would undo each other for ever.

There is no such vector if the window of the hash follows from those of the keys.  With s free slots the
chance of that is about 2^-s.  Such hashes are kept in a *list*: immutable bytes, ordered by hash, that
name the block of each.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from librt.vecs import vec
from mypy_extensions import i64, u8

from lsmkv.encoding.fences import lower_bound
from lsmkv.filters.bloom import MULTIPLIER
from lsmkv.filters.hashing import DIGEST_BYTES, MASK_63
from lsmkv.filters.ribbon import is_shape, row_of, window_mask

MAX_FILTER_BYTES: Final = 1 << 10
"""Larger filters learn nothing: a lesson would take longer than the read that it spares."""

LISTED_BYTES: Final = 16  # a hash; its block (upper half) and lesson (lower half)
MAX_LISTED: Final = 4096

_LESSON_MASK: Final = i64(0xFFFF_FFFF)


def holds(packed: bytes, h: i64) -> bool:
    """Whether ``h`` is one of the hashes in :func:`~lsmkv.filters.hashing.digests`."""
    at: i64 = 0
    while at < len(packed):
        if read_i64_le(packed, at) & MASK_63 == h:
            return True
        at += DIGEST_BYTES
    return False


def denying(bits: bytes, columns: i64, packed: bytes, h: i64, lesson: i64) -> bytes:
    """The filter ``bits`` with the answer to ``h`` turned in one column.

    It keeps its answer to each hash in ``packed`` (:func:`~lsmkv.filters.hashing.digests`).  ``lesson``
    is a running number: it chooses the column.  Empty if the window of ``h`` follows from theirs, or if
    the filter has no bits.  O(keys * window).
    """
    if not is_shape(len(bits), columns):
        return b""
    slots = (len(bits) << 3) // columns
    vector = _vector(packed, slots, h, lesson)
    if len(vector) == 0:
        return b""
    place: int = slots * (lesson % columns)
    turned = int.from_bytes(bits, "little") ^ (int.from_bytes(vector, "little") << place)
    return turned.to_bytes(len(bits), "little")


def _vector(packed: bytes, slots: i64, h: i64, lesson: i64) -> bytes:
    """A vector of slots: even parity under each key's window, odd under ``h``'s."""
    windows = vec[i64]([0] * slots)
    at: i64 = 0
    while at < len(packed):
        _insert(windows, read_i64_le(packed, at) & MASK_63)
        at += DIGEST_BYTES
    odd = _insert(windows, h)
    if odd < 0:
        return b""
    mask = window_mask(slots)
    vector = vec[u8]([0] * ((slots + 7) >> 3))
    ones = vec[u8]([1, 2, 4, 8, 16, 32, 64, 128])  # looked up: a shifted bit would be no u8
    random = h ^ (lesson * MULTIPLIER & MASK_63)
    word: i64 = 0  # the bits from the slot on
    slot = slots
    while slot > 0:
        slot -= 1
        word = (word << 1) & mask
        window = windows[slot]
        if window:
            bit = _parity(word & window)
            if slot == odd:
                bit ^= 1
        else:
            random = (random * MULTIPLIER + 1) & MASK_63
            bit = random >> 62
        if bit:
            word |= 1
            vector[slot >> 3] = vector[slot >> 3] | ones[slot & 7]
    return bytes(vector)


def _insert(windows: vec[i64], h: i64) -> i64:
    """Add the window of ``h`` to the echelon form.

    Returns its slot, or -1 if it follows from the others.
    """
    slot, window = row_of(h, len(windows))
    while windows[slot] != 0:
        window ^= windows[slot]
        if window == 0:
            return -1
        while not window & 1:
            window >>= 1
            slot += 1
    windows[slot] = window
    return slot


def _parity(word: i64) -> i64:
    return int(word).bit_count() & 1


# Lists


def is_listed(listed: bytes, block_number: i64, h: i64) -> bool:
    """Whether the list has ``h`` for that block.  O(log n)."""
    count: i64 = len(listed) // LISTED_BYTES
    at = lower_bound(listed, 0, count, h)
    while at < count and read_i64_le(listed, 8 * at) == h:
        if read_i64_le(listed, 8 * (count + at)) >> 32 == block_number:
            return True
        at += 1
    return False


def with_listed(listed: bytes, block_number: i64, h: i64, lesson: i64) -> bytes:
    """The list with ``h`` for that block; a full one loses the entry of its earliest lesson.  O(n)."""
    count: i64 = len(listed) // LISTED_BYTES
    hashes, places = listed[: 8 * count], listed[8 * count :]
    if count >= MAX_LISTED:
        oldest = 8 * _earliest(places)
        hashes = hashes[:oldest] + hashes[oldest + 8 :]
        places = places[:oldest] + places[oldest + 8 :]
        count -= 1
    at = 8 * lower_bound(hashes, 0, count, h)
    place = BytesWriter()
    write_i64_le(place, (block_number << 32) | (lesson & _LESSON_MASK))
    packed = BytesWriter()
    write_i64_le(packed, h)
    hashes = hashes[:at] + packed.getvalue() + hashes[at:]
    return hashes + places[:at] + place.getvalue() + places[at:]


def _earliest(places: bytes) -> i64:
    """Position of the place with the lowest lesson."""
    best: i64 = 0
    lowest: i64 = _LESSON_MASK + 1
    at: i64 = 0
    while at < len(places):
        lesson = read_i64_le(places, at) & _LESSON_MASK
        if lesson < lowest:
            best, lowest = at >> 3, lesson
        at += 8
    return best
