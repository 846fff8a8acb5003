"""Bloom filter bits: building and asking a filter.

The probes of a key come from its one 63-bit hash h by a multiplicative sequence
h_i = h_{i-1} * C mod 2^63, with h_0 = h and C = 0x1E3779B97F4A7C15.  The i-th bit is the top 32 bits of
h_i scaled to the filter, ``(h_i >> 31) * m >> 32`` (Lemire, "Fast random integer generation in an
interval", 2019).  The probes are h_1 to h_k, where k is the probe_count beside the filter; the filter may
hold the key if all of their bits are set.

A filter of m bits is m / 8 bytes and nothing else; bit b is bit ``b % 8`` (from the least significant)
of byte ``b // 8``.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le
from librt.vecs import vec
from mypy_extensions import i64, u8

from lsmkv.filters.hashing import DIGEST_BYTES, MASK_63, packed_hashes

MULTIPLIER: Final = 0x1E37_79B9_7F4A_7C15
"""2^64 / golden ratio (Knuth, TAOCP 3, 6.4), cut to 63 bits; odd, so the map h -> h*C is one to one.

The same scheme, with 2^32 / golden ratio and 32 bits of the hash, gives RocksDB the bits of a key
within its cache line (``util/bloom_impl.h``, ``FastLocalBloomImpl``).  Here a probe can be any bit.
"""

MAX_BITS: Final = (1 << 31) - 8
"""A scaled probe is a 63-bit product, so a filter has less than 2^31 bits."""

MAX_BYTES: Final = MAX_BITS // 8


def build(hashes: list[int], byte_count: int, probe_count: int) -> bytes:
    """A filter of these 63-bit hashes.  O(len(hashes) * probe_count)."""
    return build_from_digests(packed_hashes(hashes), byte_count, probe_count)


def build_from_digests(packed: bytes, byte_count: i64, probe_count: i64) -> bytes:
    """As :func:`build`, of the hashes in :func:`~lsmkv.filters.hashing.digests`."""
    bits = vec[u8]([0] * byte_count)
    bit_count = byte_count * 8
    ones = vec[u8]([1, 2, 4, 8, 16, 32, 64, 128])  # looked up: a shifted bit would be no u8
    multiplier: i64 = MULTIPLIER
    mask = MASK_63
    at: i64 = 0
    while at < len(packed):
        h = read_i64_le(packed, at) & mask
        for _probe in range(probe_count):  # named: mypyc boxes "_" each time round
            h = (h * multiplier) & mask
            bit = ((h >> 31) * bit_count) >> 32
            place = bit >> 3
            bits[place] = bits[place] | ones[bit & 7]
        at += DIGEST_BYTES
    return bytes(bits)


def may_contain(bits: bytes, start: i64, byte_count: i64, probe_count: i64, h: i64) -> bool:
    """Whether ``bits[start : start + byte_count]``, if any, may hold the hash ``h``.  O(probe_count)."""
    bit_count: i64 = byte_count * 8
    if bit_count == 0:
        return True
    for _probe in range(probe_count):  # named: mypyc boxes "_" each time round
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = ((h >> 31) * bit_count) >> 32
        if not (bits[start + (bit >> 3)] >> (bit & 7)) & 1:
            return False
    return True


# For filters that grow key by key (:mod:`lsmkv.filters.family`)


def set_bits(bits: bytearray, probe_count: i64, h: i64) -> None:
    bit_count: i64 = len(bits) * 8
    for _probe in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = ((h >> 31) * bit_count) >> 32
        bits[bit >> 3] |= 1 << (bit & 7)


def has_bits(bits: bytearray, probe_count: i64, h: i64) -> bool:
    """Whether the filter ``bits`` may hold the hash ``h``.  O(probe_count)."""
    bit_count: i64 = len(bits) * 8
    for _probe in range(probe_count):
        h = (h * MULTIPLIER) & MASK_63
        bit: i64 = ((h >> 31) * bit_count) >> 32
        if not (bits[bit >> 3] >> (bit & 7)) & 1:
            return False
    return True
