"""Whoever knows the keys can make absent ones that pass every filter, and cost a read each."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Final

import mmh3
import pytest

import lsmkv

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C3_7B91_1142_53D5
_C2: Final = 0x4CF5_AD43_2745_937F
_F1: Final = 0xFF51_AFD7_ED55_8CCD
_F2: Final = 0xC4CE_B9FE_1A85_EC53


def inverse(odd: int) -> int:
    return pow(odd, -1, 1 << 64)


def turned(word: int, bits: int) -> int:
    """``word``, rotated to the left."""
    bits %= 64
    return (word << bits | word >> (64 - bits)) & _MASK


def mixed(word: int, first: int, bits: int, second: int) -> int:
    return turned(word * first & _MASK, bits) * second & _MASK


def unmixed(word: int, first: int, bits: int, second: int) -> int:
    return turned(word * inverse(second) & _MASK, -bits) * inverse(first) & _MASK


def unfinished(word: int) -> int:
    word ^= word >> 33
    word = word * inverse(_F2) & _MASK
    word ^= word >> 33
    word = word * inverse(_F1) & _MASK
    return word ^ word >> 33


def alike(key: bytes) -> bytes:
    """Another key with the digest of ``key``, of 16 bytes, and 16 bytes more: MurmurHash3, inverted."""
    h1, h2 = mmh3.hash64(key, 0, signed=False)
    h2 = h2 - h1 & _MASK
    h1, h2 = unfinished(h1 - h2 & _MASK), unfinished(h2)
    h2 = h2 - h1 & _MASK
    h1, h2 = h1 - h2 & _MASK ^ 32, h2 ^ 32
    k1, k2 = struct.unpack("<QQ", key)
    a1 = turned(mixed(k1, _C1, 31, _C2), 27) * 5 + 0x52DC_E729 & _MASK
    a2 = (turned(mixed(k2, _C2, 33, _C1), 31) + a1) * 5 + 0x3849_5AB5 & _MASK
    k2 = turned((h2 - 0x3849_5AB5) * inverse(5) - h1 & _MASK, -31) ^ a2
    k1 = turned((h1 - 0x52DC_E729) * inverse(5) - a2 & _MASK, -27) ^ a1
    return key + struct.pack("<QQ", unmixed(k1, _C1, 31, _C2), unmixed(k2, _C2, 33, _C1))


def alike_for_all_seeds(key: bytes) -> bytes:
    """Another key of 32 bytes, with the digest of ``key`` whatever the seed (Aumasson, Bernstein)."""
    k1, k2, k3, k4 = struct.unpack("<QQQQ", key)
    k1 = unmixed(mixed(k1, _C1, 31, _C2) ^ 1 << 36, _C1, 31, _C2)
    k2 = unmixed(mixed(k2, _C2, 33, _C1) ^ 1 << 32, _C2, 33, _C1)
    k3 = unmixed(mixed(k3, _C1, 31, _C2) ^ 1 << 63, _C1, 31, _C2)
    return struct.pack("<QQQQ", k1, k2, k3, k4)


@pytest.mark.parametrize("policy", ["bloom", "ribbon"])
def test_keys_of_equal_digests_cost_a_read_each_time_and_are_never_found(
    tmp_path: Path, policy: str
) -> None:
    keys = [b"%016d" % (2 * number) for number in range(1000)]
    with lsmkv.open(
        tmp_path / "db", filter_policy=policy, adaptive_filters=True, block_cache_size_bytes=0
    ) as db:
        db.update(dict.fromkeys(keys, b"v" * 100))
        db.flush()
        asked = [alike(key) for key in keys]
        for _ in range(2):
            before = db.stats()
            assert all(db.get(key) is None for key in asked)
            spent = db.stats() - before
            assert spent.block_reads + spent.range_negatives == len(keys)
            assert spent.block_reads > 0.95 * len(keys)
            assert spent.filter_lessons == 0


def test_a_secret_seed_would_not_help_keys_of_32_bytes() -> None:
    draw = random.Random(7)
    for _ in range(100):
        key, seed = draw.randbytes(32), draw.getrandbits(32)
        other = alike_for_all_seeds(key)
        assert other != key and mmh3.hash64(other, seed) == mmh3.hash64(key, seed)
