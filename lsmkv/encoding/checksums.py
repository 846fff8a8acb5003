"""Checksums: XXH3-64 of what is on disk."""

from __future__ import annotations

from typing import Final

import xxhash
from librt.strings import read_i32_be
from mypy_extensions import i32

_digest: Final = xxhash.xxh3_64_digest


def checksum(data: bytes, seed: int) -> int:
    """XXH3-64 of ``data``, an unsigned 64-bit integer."""
    return xxhash.xxh3_64_intdigest(data, seed)


def running_checksum() -> xxhash.xxh3_64:
    """What :func:`checksum` with the seed 0 comes to, of bytes that are handed over in pieces."""
    return xxhash.xxh3_64(seed=0)


def short_checksum(data: bytes, seed: int) -> i32:
    """The low half of :func:`checksum`, as the signed integer that those 32 bits make.

    Of a larger ``seed`` the low 64 bits count.
    """
    return read_i32_be(_digest(data, seed), 4)  # digests are big-endian
