"""The cache-line blocked Bloom filter: all probes of a key fall into one line of 64 bytes.

A lookup touches one cache line, however large the filter.  Its rate is higher than a Bloom filter's:
keys fall into lines by chance, and overfull lines err more than underfull ones make good.

The first multiple of a key's hash (h_1 of :mod:`lsmkv.filters.bloom`) chooses one of n lines,
``(h_1 >> 31) * n >> 32``.  The top 9 bits of each of the next k multiples, h_2 to h_(k+1), choose a bit
of it.  A filter is its lines; k is the probe_count beside it.

Sources: F. Putze, P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters", WEA 2007;
RocksDB, ``util/bloom_impl.h``, ``FastLocalBloomImpl``, has the same scheme with 32-bit words: one half
of the hash chooses the line, and multiples of the other half its bits.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from lsmkv.filters.bloom import MULTIPLIER
from lsmkv.filters.hashing import MASK_63

LINE_SHIFT: Final = 9  # 2**9 bits in a line
BIT_SHIFT: Final = 63 - LINE_SHIFT


def set_in_line(bits: bytearray, probe_count: i64, h: i64) -> None:
    h = (h * MULTIPLIER) & MASK_63
    line_count: i64 = len(bits) >> 6
    first: i64 = ((h >> 31) * line_count) >> 32 << LINE_SHIFT
    for _probe in range(probe_count):  # named: mypyc boxes "_" each time round
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = first + (h >> BIT_SHIFT)
        bits[bit >> 3] |= 1 << (bit & 7)


def has_in_line(bits: bytearray, probe_count: i64, h: i64) -> bool:
    """Whether the filter ``bits`` may hold the hash ``h``.  It has a line or more.  O(probe_count)."""
    h = (h * MULTIPLIER) & MASK_63
    line_count: i64 = len(bits) >> 6
    first: i64 = ((h >> 31) * line_count) >> 32 << LINE_SHIFT
    for _probe in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = first + (h >> BIT_SHIFT)
        if not (bits[bit >> 3] >> (bit & 7)) & 1:
            return False
    return True
