"""32-bit hashes of other stores, for comparison; a filter of ours uses none of them.

``murmur2`` is A. Appleby's MurmurHash2 (public domain), and ``lookup3`` is B. Jenkins's hashlittle
(``lookup3.c``, public domain).  Both are written from their published definitions.
"""

from __future__ import annotations

from typing import Final

MASK_32: Final = 0xFFFF_FFFF


def leveldb_hash(data: bytes, seed: int) -> int:
    """LevelDB's hash, similar to murmur (``util/hash.cc``).

    >>> hex(leveldb_hash(b"\\x62", 0xBC9F1D34))
    '0xef1345c4'
    """
    m = 0xC6A4A793
    h = seed ^ (len(data) * m & MASK_32)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        h = (h + int.from_bytes(data[at : at + 4], "little")) * m & MASK_32
        h ^= h >> 16
    if whole < len(data):
        h = (h + int.from_bytes(data[whole:], "little")) * m & MASK_32
        h ^= h >> 24
    return h


def murmur2(data: bytes, seed: int, *, signed_tail: bool = False) -> int:
    """MurmurHash2, 32 bits, of a little-endian machine.

    ``signed_tail`` is the form of Hadoop and HBase (``MurmurHash.java``), which read the last one to
    three bytes as Java's signed ones: from 0x80 on the hash is another.

    >>> murmur2(b"foobar", 0x9747B28C) - (1 << 32)  # of Kafka's tests
    -790332482
    """
    m = 0x5BD1E995
    h = seed ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & MASK_32
        k ^= k >> 24
        h = (h * m & MASK_32) ^ (k * m & MASK_32)
    if whole < len(data):
        for nth, byte in enumerate(data[whole:]):
            if signed_tail and byte >> 7:
                byte -= 256
            h ^= (byte << 8 * nth) & MASK_32
        h = h * m & MASK_32
    h ^= h >> 13
    h = h * m & MASK_32
    return h ^ h >> 15


def lookup3(data: bytes, seed: int) -> int:
    """Jenkins's hashlittle of lookup3, which Hadoop and HBase call JENKINS.

    >>> hex(lookup3(b"Four score and seven years ago", 0))  # of lookup3.c
    '0x17770551'
    """
    a = b = c = (0xDEADBEEF + len(data) + seed) & MASK_32
    if not data:
        return c
    last = (len(data) - 1) // 12 * 12
    for at in range(0, last, 12):
        a, b, c = _added(a, b, c, data[at : at + 12])
        for bits in (4, 6, 8, 16, 19, 4):
            a, c = ((a - c) & MASK_32) ^ _rotated(c, bits), (c + b) & MASK_32
            a, b, c = b, c, a
    a, b, c = _added(a, b, c, data[last:])
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotated(b, bits)) & MASK_32
        a, b, c = b, c, a
    return b


def _added(a: int, b: int, c: int, part: bytes) -> tuple[int, int, int]:
    """The state with up to twelve bytes added; missing ones are 0."""
    words = [int.from_bytes(part[at : at + 4], "little") for at in (0, 4, 8)]
    return (a + words[0]) & MASK_32, (b + words[1]) & MASK_32, (c + words[2]) & MASK_32


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & MASK_32
