"""How a cache lies in its store: entries, and indexes of them.

A key of the store starts with one byte that says what it is; ``key`` is the packed key of an entry
(FoundationDB's tuple encoding), ``about`` is :meth:`About.pack`.

| key of the store | value |
|---|---|
| ``e`` key | about, then the encoded value |
| ``s`` number (8 bytes) key | about: all entries as they were stored, the oldest first |
| ``x`` expiry (8 bytes) key | about: the entries that expire, the first first |
| ``t`` tag key | about: the entries with a tag, which is packed, too |
| ``f`` | the format, ``lsmkv.cache 1`` |
| ``m`` | count, size in bytes and last number, of a cache that was closed |

An entry and its places in the indexes are written in one batch.  The store's order does the rest: what
expires next is the first key with ``x``, what is evicted next is the first with ``s``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

Operation = tuple[bytes, bytes | None]
"""A key of the store and its new value, or None to delete it."""

ENTRY: Final = b"e"
STORED: Final = b"s"
EXPIRY: Final = b"x"
TAGGED: Final = b"t"
FORMAT_KEY: Final = b"f"
COUNTS_KEY: Final = b"m"
FORMAT: Final = b"lsmkv.cache 1"

NEVER: Final = math.inf

_HEAD: Final = struct.Struct(">QdQH")
_HEAD_BYTES: Final = _HEAD.size
_NUMBER: Final = struct.Struct(">Q")
_TIME: Final = struct.Struct(
    ">d"
)  # the order of its bytes is that of times, which are never negative
_NEVER_BYTES: Final = _TIME.pack(NEVER)
_COUNTS: Final = struct.Struct(">QQQ")
MOST: Final = (1 << 63) - 1
"""The largest number, size and count: what ``len`` can return."""
LONGEST_KEY_BYTES: Final = 0xFFFF - 9
"""The longest packed key, or key and tag, that fits into a key of the store."""


class About(NamedTuple):
    """An entry without its value."""

    number: int
    """Counts up with every value that is stored."""
    expires: float
    """Seconds since the epoch; infinite for never."""
    size_bytes: int
    """Of key and value."""
    tag: bytes
    """Packed; empty for none."""

    def pack(self) -> bytes:
        return _HEAD.pack(self.number, self.expires, self.size_bytes, len(self.tag)) + self.tag

    def is_expired(self, now: float) -> bool:
        return self.expires <= now

    def places(self, key: bytes) -> Iterator[bytes]:
        """The keys of the store that lead to an entry."""
        yield STORED + _NUMBER.pack(self.number) + key
        if self.expires != NEVER:
            yield expiry_key(self.expires) + key
        if self.tag:
            yield TAGGED + self.tag + key


def expiry_key(expires: float) -> bytes:
    return EXPIRY + _TIME.pack(expires)


def read_about(data: bytes) -> tuple[About, bytes]:
    """An entry's description, and the bytes after it.  ValueError if it has none."""
    try:
        number, expires, size_bytes, tag_bytes = _HEAD.unpack_from(data)
    except struct.error:
        raise ValueError(f"{len(data)} bytes are too few") from None
    end = _HEAD_BYTES + tag_bytes
    if len(data) < end or number > MOST or size_bytes > MOST or data[8:16] > _NEVER_BYTES:
        raise ValueError(
            f"number {number}, expiry {expires}, {size_bytes} bytes and a tag of {tag_bytes} "
            f"cannot be, in {len(data)} bytes"
        )
    return About(number, expires, size_bytes, data[_HEAD_BYTES:end]), data[end:]


def put_operations(key: bytes, about: About, value: bytes) -> list[Operation]:
    """Write an entry and its places."""
    packed = about.pack()
    return [(ENTRY + key, packed + value), *((place, packed) for place in about.places(key))]


def delete_operations(key: bytes, about: About) -> list[Operation]:
    """Remove an entry and its places."""
    return [(ENTRY + key, None), *((place, None) for place in about.places(key))]


def key_of_place(place: bytes, about: About) -> bytes:
    """The packed key of the entry to which a place leads."""
    start = 1 + (len(about.tag) if place.startswith(TAGGED) else 8)
    return place[start:]


def pack_counts(count: int, size_bytes: int, last_number: int) -> bytes:
    return _COUNTS.pack(count, size_bytes, last_number)


def read_counts(data: bytes) -> tuple[int, int, int]:
    """Count, size in bytes and last number.  ValueError: it is none of these."""
    if len(data) != _COUNTS.size:
        raise ValueError(f"{len(data)} bytes are not {_COUNTS.size}")
    counts: tuple[int, int, int] = _COUNTS.unpack(data)
    count, size_bytes, last_number = counts
    if max(counts) > MOST or count > min(size_bytes, last_number):  # each has bytes and a number
        raise ValueError(f"count, size and last number cannot be {counts}")
    return counts
