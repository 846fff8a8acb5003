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

_digest: Final = mmh3.mmh3_x64_128_digest


def hash_key(key: bytes) -> i64:
    """The hash of ``key``: 0 <= h < 2**63, the same on every platform and in every process.

    >>> hash_key(b"")
    0
    >>> hash_key(b"lsmkv")
    3893542974706830610
    """
    return read_i64_le(_digest(key), 0) & MASK_63


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
