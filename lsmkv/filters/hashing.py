"""The one hash of a key, and what is taken from it.

A look-up hashes its key once; the hash is handed down to every filter and block it meets.  It is
the low 63 bits of the first half of MurmurHash3 x64-128 with seed 0 (Appleby's reference
implementation, by way of ``mmh3``): 63 bits, so that it is the same non-negative number whether
it is held in a Python integer or a machine word.

The other functions are what the hash strategies of :mod:`lsmkv.filters.strategies` are made of.
"""

from __future__ import annotations

from typing import Final

import mmh3
from librt.strings import read_i64_le
from mypy_extensions import i64

MASK_63: Final = i64(0x7FFF_FFFF_FFFF_FFFF)
DIGEST_BYTES: Final = 16

# Of MurmurHash3, as machine words with a sign.
_FACTOR_1: Final = i64(-0x783C_846E_EEBD_AC2B)
_FACTOR_2: Final = i64(0x4CF5_AD43_2745_937F)
_FACTOR_3: Final = i64(-0x00AE_5028_12AA_7333)
_FACTOR_4: Final = i64(-0x3B31_4601_E57A_13AD)
_ONE: Final = i64(1)

_digest: Final = mmh3.mmh3_x64_128_digest


def hash_key(key: bytes) -> i64:
    """The hash of ``key``: 0 <= h < 2**63, the same on every platform and in every process.

    >>> hash_key(b"")
    0
    >>> hash_key(b"lsmkv")
    3893542974706830610
    """
    if _IS_COMPILED:
        return _first_half(key) & MASK_63
    return read_i64_le(_digest(key), 0) & MASK_63


def _first_half(key: bytes) -> i64:
    """The first half of the digest, in machine integers, which wrap.  No object is made for it."""
    length = i64(len(key))
    h1: i64 = 0
    h2: i64 = 0
    at: i64 = 0
    while at + 16 <= length:
        h1 = _rotated(h1 ^ _mixed_1(read_i64_le(key, at)), 27) + h2
        h1 = h1 * 5 + 0x52DC_E729
        h2 = _rotated(h2 ^ _mixed_2(read_i64_le(key, at + 8)), 31) + h1
        h2 = h2 * 5 + 0x3849_5AB5
        at += 16
    if at + 8 <= length:
        h1 ^= _mixed_1(read_i64_le(key, at))
        if at + 8 < length:
            h2 ^= _mixed_2(_last_word(key, at + 8, length))
    elif at < length:
        h1 ^= _mixed_1(_last_word(key, at, length))
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    return _finished(h1) + _finished(h2)


def _mixed_1(word: i64) -> i64:
    return _rotated(word * _FACTOR_1, 31) * _FACTOR_2


def _mixed_2(word: i64) -> i64:
    return _rotated(word * _FACTOR_2, 33) * _FACTOR_1


def _rotated(word: i64, count: i64) -> i64:
    return (word << count) | ((word >> (64 - count)) & ((_ONE << count) - 1))


def _last_word(key: bytes, at: i64, end: i64) -> i64:
    word: i64 = 0
    while end > at:
        end -= 1
        word = (word << 8) | key[end]
    return word


def _finished(word: i64) -> i64:
    word = (word ^ ((word >> 33) & 0x7FFF_FFFF)) * _FACTOR_3
    word = (word ^ ((word >> 33) & 0x7FFF_FFFF)) * _FACTOR_4
    return word ^ ((word >> 33) & 0x7FFF_FFFF)


def _wraps(number: i64) -> bool:
    """Whether integers are machine words here."""
    return number * number < 0


_IS_COMPILED: Final = _wraps(0xFFFF_FFFF)


def digests(keys: list[bytes]) -> bytes:
    """What the hash of each key is taken from, :data:`DIGEST_BYTES` each, one after another.

    For many keys at once: no integer is made of any.  The hash itself is the first 63 bits of a
    digest (little-endian); its low byte is the digest's first.
    """
    return b"".join(map(_digest, keys))


def hashes_of(packed: bytes) -> list[int]:
    """The hashes in :func:`digests`.

    >>> hashes_of(digests([b"", b"lsmkv"])) == [hash_key(b""), hash_key(b"lsmkv")]
    True
    """
    return [read_i64_le(packed, at) & MASK_63 for at in range(0, len(packed), DIGEST_BYTES)]


def murmur3_32(data: bytes, seed: int) -> int:
    """MurmurHash3 x86-32 of ``data`` (Appleby): 0 <= h < 2**32.  ``seed`` is a 32-bit number.

    >>> hex(murmur3_32(b"hello", 0))
    '0x248bfa47'
    """
    return mmh3.hash(data, seed, signed=False)


def murmur3_128(data: bytes) -> tuple[int, int]:
    """The two halves of MurmurHash3 x64-128 of ``data`` with seed 0, 64 bits each."""
    return mmh3.hash64(data, 0, signed=False)
