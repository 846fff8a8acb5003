"""The binary fuse filter: static, and within 13 to 20 % of the lower bound for many keys.

Each key has three f-bit cells, in three consecutive segments, that xor to its fingerprint.  Those of
an absent key do so by chance: 2^-f.  Peeling finds the contents of the cells: a cell that only one
key needs is set last.  When peeling gets stuck, it starts again with another seed.

Bits of a filter: seed (u8), log2 of the segment length L (u8), then the cells, little-endian, in s
segments.  f, 8 or 16, is the probe_count beside it.  A key's hash h is mixed with the seed, modulo 2^63
and with C as in a Bloom filter::

    x = (h ^ seed * 0x14D049BB133111EB) * C
    x = (x ^ (x >> 32)) * 0x3F58476D1CE4E5B9
    x = x ^ (x >> 29)

The cells are ``a = (x >> 31) * ((s - 2) * L) >> 32``, ``(a + L) ^ ((x >> 18) mod L)`` and
``(a + 2 * L) ^ (x mod L)``; the fingerprint is the top f bits of the 63 in ``x * C``.

Source: T. M. Graf, D. Lemire, "Binary fuse filters: fast and smaller than xor filters", ACM Journal
of Experimental Algorithmics 27, 2022.  Here hashes have 63 bits, and small sets have shorter segments
(see :func:`~lsmkv.filters.maths.layouts.fuse_shape`).
"""

from __future__ import annotations

from typing import Final

from lsmkv.errors import Error
from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths.layouts import MAX_FUSE_SEGMENT, fuse_shape

HEADER_BYTES: Final = 2
# A seed fails with a chance below a half for few keys, and seldom for many.
MAX_SEEDS: Final = 256
_MAX_SEGMENT_LOG: Final = MAX_FUSE_SEGMENT.bit_length() - 1
_MIX: Final = 0x3F58_476D_1CE4_E5B9  # odd constants of splitmix64, cut to 63 bits
_SEED_STEP: Final = 0x14D0_49BB_1331_11EB


class FilterBuildError(Error):
    """No seed builds a static filter of these keys."""


def is_shape(bits: bytes, width: int) -> bool:
    """Whether ``bits`` are a header and three or more whole segments."""
    if len(bits) < HEADER_BYTES or bits[1] > _MAX_SEGMENT_LOG:
        return False
    segment_bytes = (width // 8) << bits[1]
    segments, rest = divmod(len(bits) - HEADER_BYTES, segment_bytes)
    return segments >= 3 and rest == 0


def build(hashes: list[int], width: int) -> bytes:
    """The bits of a filter of these distinct 63-bit hashes.  FilterBuildError: no seed works."""
    length, segments = fuse_shape(len(hashes))
    if length * segments * (width // 8) + HEADER_BYTES > MAX_BYTES:
        raise ValueError(f"{len(hashes)} keys are too many for one filter")
    cells = [0] * (length * segments)
    for seed in range(MAX_SEEDS):
        order = _peel(hashes, seed, length, segments)
        if order is not None:
            _assign(cells, order, width, length, segments)
            header = bytes((seed, length.bit_length() - 1))
            cell_bytes = width // 8
            return header + b"".join([cell.to_bytes(cell_bytes, "little") for cell in cells])
    raise FilterBuildError(
        f"no seed of {MAX_SEEDS} makes a binary fuse filter of {len(hashes)} hashes: are they "
        "distinct?"
    )


def may_contain(bits: bytes, start: int, byte_count: int, width: int, h: int) -> bool:
    """Whether ``bits[start : start + byte_count]``, if any, may hold the hash ``h``.  O(1)."""
    if byte_count < HEADER_BYTES:
        return True
    log = bits[start + 1]
    cell_bytes = width // 8
    segments = (byte_count - HEADER_BYTES) // cell_bytes >> log
    if log > _MAX_SEGMENT_LOG or segments < 3:
        return True
    word = _mix(h, bits[start])
    found = 0
    for cell in _cells_of(word, 1 << log, segments):
        at = start + HEADER_BYTES + cell_bytes * cell
        found ^= int.from_bytes(bits[at : at + cell_bytes], "little")
    return found == _fingerprint(word, width)


def _mix(h: int, seed: int) -> int:
    """Another 63-bit hash for each seed; one to one, so that distinct hashes stay distinct."""
    h ^= (seed * _SEED_STEP) & MASK_63
    h = (h * MULTIPLIER) & MASK_63
    h ^= h >> 32
    h = (h * _MIX) & MASK_63
    return h ^ (h >> 29)


def _fingerprint(word: int, width: int) -> int:
    return ((word * MULTIPLIER) & MASK_63) >> (63 - width)


def _cells_of(word: int, length: int, segments: int) -> tuple[int, int, int]:
    first = ((word >> 31) * ((segments - 2) * length)) >> 32
    second = (first + length) ^ ((word >> 18) & (length - 1))
    third = (first + 2 * length) ^ (word & (length - 1))
    return first, second, third


def _peel(hashes: list[int], seed: int, length: int, segments: int) -> list[tuple[int, int]] | None:
    """Mixed hashes, each with a cell that no later one needs; None when peeling gets stuck."""
    users = [0] * (length * segments)  # of each cell: how many hashes, and their xor
    words = [0] * (length * segments)
    for h in hashes:
        word = _mix(h, seed)
        for cell in _cells_of(word, length, segments):
            users[cell] += 1
            words[cell] ^= word
    alone = [cell for cell, count in enumerate(users) if count == 1]
    order: list[tuple[int, int]] = []
    while alone:
        cell = alone.pop()
        if users[cell] != 1:
            continue
        word = words[cell]
        order.append((word, cell))
        for other in _cells_of(word, length, segments):
            users[other] -= 1
            words[other] ^= word
            if users[other] == 1:
                alone.append(other)
    return order if len(order) == len(hashes) else None


def _assign(
    cells: list[int], order: list[tuple[int, int]], width: int, length: int, segments: int
) -> None:
    """Set the cells, all 0, so that each hash finds its fingerprint."""
    for word, own in reversed(order):
        first, second, third = _cells_of(word, length, segments)
        cells[own] = _fingerprint(word, width) ^ cells[first] ^ cells[second] ^ cells[third]
