"""The one hash of a key.

It is the low 63 bits of the first half of MurmurHash3 x64-128 with seed 0 (Appleby's reference
implementation, by way of ``mmh3``).  With 63 bits it is the same non-negative number in a Python
integer and in a machine word.

The digest of a key is all 128 bits, little-endian: its first 63 bits are the hash, and its first byte
is the low byte of the hash.
"""

from __future__ import annotations

from typing import Final

import mmh3
from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from lsmkv.encoding.words import COMPILED

MASK_63: Final = i64(0x7FFF_FFFF_FFFF_FFFF)
DIGEST_BYTES: Final = 16

_digest: Final = mmh3.mmh3_x64_128_digest

# MurmurHash3 x64-128's multipliers, as signed words.
_C1: Final = i64(0x87C3_7B91_1142_53D5 - (1 << 64))
_C2: Final = i64(0x4CF5_AD43_2745_937F)
_F1: Final = i64(0xFF51_AFD7_ED55_8CCD - (1 << 64))
_F2: Final = i64(0xC4CE_B9FE_1A85_EC53 - (1 << 64))
_ONE: Final = i64(1)


def hash_key(key: bytes) -> i64:
    """The hash of ``key``: 0 <= h < 2**63, the same on every platform and in every process.

    >>> hash_key(b"")
    0
    >>> hash_key(b"lsmkv")
    3893542974706830610
    """
    if COMPILED:
        first, _second = _halves(key, 0, len(key))
        return first & MASK_63
    return read_i64_le(_digest(key), 0) & MASK_63


def digests(keys: list[bytes]) -> bytes:
    """The digests of ``keys``, :data:`DIGEST_BYTES` each."""
    if not COMPILED:
        return b"".join(map(_digest, keys))
    out = BytesWriter()
    for key in keys:
        append_digest(out, key, 0, len(key))
    return out.getvalue()


def packed_hashes(hashes: list[int]) -> bytes:
    """Bytes in the form of :func:`digests` that have these hashes."""
    out = BytesWriter()
    for h in hashes:
        write_i64_le(out, h)
        write_i64_le(out, 0)
    return out.getvalue()


def append_digest(out: BytesWriter, data: bytes, at: i64, end: i64) -> None:
    """Append the digest of the key ``data[at:end]`` to ``out``; compiled builds only."""
    first, second = _halves(data, at, end)
    write_i64_le(out, first)
    write_i64_le(out, second)


def append_fingerprint(out: BytesWriter, data: bytes, at: i64, end: i64) -> None:
    """Append the low byte of the hash of ``data[at:end]``; compiled builds only."""
    first, _second = _halves(data, at, end)
    out.append(u8(first & 0xFF))


def _halves(key: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Both halves of MurmurHash3 of ``key[at:end]``, signed; compiled builds only, where it is faster."""
    length = end - at
    h1: i64 = 0
    h2: i64 = 0
    while at + 16 <= end:
        k1 = read_i64_le(key, at) * _C1
        k1 = ((k1 << 31) | ((k1 >> 33) & 0x7FFF_FFFF)) * _C2
        h1 ^= k1
        h1 = ((h1 << 27) | ((h1 >> 37) & 0x7FF_FFFF)) + h2
        h1 = h1 * 5 + 0x52DC_E729
        k2 = read_i64_le(key, at + 8) * _C2
        k2 = ((k2 << 33) | ((k2 >> 31) & 0x1_FFFF_FFFF)) * _C1
        h2 ^= k2
        h2 = ((h2 << 31) | ((h2 >> 33) & 0x7FFF_FFFF)) + h1
        h2 = h2 * 5 + 0x3849_5AB5
        at += 16
    if at + 8 < end:
        k2 = _tail(key, at + 8, end) * _C2
        h2 ^= ((k2 << 33) | ((k2 >> 31) & 0x1_FFFF_FFFF)) * _C1
    if at < end:
        k1 = (read_i64_le(key, at) if at + 8 <= end else _tail(key, at, end)) * _C1
        h1 ^= ((k1 << 31) | ((k1 >> 33) & 0x7FFF_FFFF)) * _C2
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    # The finalizer of both, in line: calls would take a quarter of the whole time.
    h1 = (h1 ^ ((h1 >> 33) & 0x7FFF_FFFF)) * _F1
    h1 = (h1 ^ ((h1 >> 33) & 0x7FFF_FFFF)) * _F2
    h1 ^= (h1 >> 33) & 0x7FFF_FFFF
    h2 = (h2 ^ ((h2 >> 33) & 0x7FFF_FFFF)) * _F1
    h2 = (h2 ^ ((h2 >> 33) & 0x7FFF_FFFF)) * _F2
    h2 ^= (h2 >> 33) & 0x7FFF_FFFF
    h1 += h2
    return h1, h2 + h1


def _tail(key: bytes, at: i64, end: i64) -> i64:
    """The one to seven bytes of ``key[at:end]`` as a little-endian number."""
    if end >= 8:  # read the eight bytes up to the end, and drop the first ones
        shift = 8 * (end - at)
        return (read_i64_le(key, end - 8) >> (64 - shift)) & ((_ONE << shift) - 1)
    number: i64 = 0
    while end > at:
        end -= 1
        number = (number << 8) | key[end]
    return number


def hashes_of(packed: bytes) -> list[int]:
    return [read_i64_le(packed, at) & MASK_63 for at in range(0, len(packed), DIGEST_BYTES)]


def murmur3_32(data: bytes, seed: int) -> int:
    """MurmurHash3 x86-32 of ``data`` (Appleby): 0 <= h < 2**32.  ``seed`` is a 32-bit number.

    >>> hex(murmur3_32(b"hello", 0))
    '0x248bfa47'
    """
    return mmh3.hash(data, seed, signed=False)


def murmur3_128(data: bytes) -> tuple[int, int]:
    """The two 64-bit halves of MurmurHash3 x64-128 with seed 0."""
    return mmh3.hash64(data, 0, signed=False)
