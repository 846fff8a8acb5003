"""Checksums of everything on disk and in object storage.

Every checksum on disk is XXH3-64 (https://github.com/Cyan4973/xxHash), seeded so that bytes moved
from one place or file to another do not check out there.  Where no seed is told, it is 0.  In object
storage XXH3-128 names files.
"""

from __future__ import annotations

from typing import Final

import xxhash
from librt.strings import read_i32_be
from mypy_extensions import i32

RunningChecksum = xxhash.xxh3_64
_digest: Final = xxhash.xxh3_64_digest


def checksum(data: bytes, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(data, seed)


def running_checksum() -> RunningChecksum:
    """Computes :func:`checksum` with seed 0 of data that arrives in pieces."""
    return xxhash.xxh3_64(seed=0)


def content_checksum(data: bytes) -> str:
    """The XXH3-128 of ``data`` in hexadecimal."""
    return xxhash.xxh3_128_hexdigest(data)


def running_content_checksum() -> xxhash.xxh3_128:
    """Computes :func:`content_checksum` of data that arrives in pieces."""
    return xxhash.xxh3_128()


def short_checksum(data: bytes, seed: int) -> i32:
    """The low 32 bits of :func:`checksum`, signed.  Only the low 64 bits of ``seed`` count."""
    return read_i32_be(_digest(data, seed), 4)  # digests are big-endian
