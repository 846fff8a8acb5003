"""How a cache lies in its store: entries, two lists of them, and their sizes.

A key of the store starts with one byte that says what it is; ``key`` and ``tag`` are packed by
FoundationDB's tuple encoding.

| key of the store | value |
|---|---|
| ``e`` key | head, the encoded value |
| ``o`` number (8 bytes) key | head: all entries, in the order in which they were stored |
| ``t`` tag key | head: the entries with a tag |
| ``s`` time (8) | the bytes (8) of entries that are gone by then |
| ``z`` | the format |

A head is the exact time when the entry expires (8 bytes, infinite for never), its number (8), its bytes
(8), the length of its tag (2), and the tag.  One batch writes all places of an entry.  The store drops
them by itself at the next whole second after the expiry, and a size at its time.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final, NamedTuple

from lsmkv.typed import DecodeError, Tuple, pack, unpack

ENTRY: Final = b"e"
STORED: Final = b"o"
TAGGED: Final = b"t"
SIZE: Final = b"s"
FORMAT_KEY: Final = b"z"
FORMAT: Final = b"lsmkv.cache 3"

SPAN_S: Final = 64  # for how much longer expired entries may count in sizes
_NEVER_S: Final = (1 << 64) - 1
_HEAD: Final = struct.Struct(">dQQH")
_LAST_S: Final = (1 << 40) - 1 - SPAN_S  # of what the store takes
_MOST: Final = 1 << 56
_LONGEST_KEY_BYTES: Final = 0xFFFF - 9
_KEYS: Final = Tuple()


class Entry(NamedTuple):
    """An entry without its value."""

    key: bytes
    expires: float
    number: int  # counts up with every value that is stored
    size_bytes: int
    tag: bytes  # packed; empty for none

    def head(self) -> bytes:
        return _HEAD.pack(self.expires, self.number, self.size_bytes, len(self.tag)) + self.tag

    def places(self) -> list[bytes]:
        """The keys of the store that have it, its value's first."""
        places = [ENTRY + self.key, STORED + self.number.to_bytes(8) + self.key]
        return [*places, TAGGED + self.tag + self.key] if self.tag else places

    def due_s(self) -> int | None:
        """When the store may drop its places."""
        return max(1, math.ceil(self.expires)) if self.expires < _LAST_S else None

    def span_s(self) -> int:
        """The time of the size in which it counts."""
        return (int(self.expires) // SPAN_S + 1) * SPAN_S if self.expires < _LAST_S else _NEVER_S


def read_entry(key: bytes, data: bytes) -> tuple[Entry, bytes]:
    """An entry and its encoded value.  ValueError: the bytes are of none."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes are too few")
    expires, number, size_bytes, tag_bytes = _HEAD.unpack_from(data)
    end = _HEAD.size + tag_bytes
    if not expires >= 0 or number >= _MOST or size_bytes >= _MOST or end > len(data):
        raise ValueError(f"expiry {expires}, number {number}, {size_bytes} bytes cannot be")
    return Entry(key, expires, number, size_bytes, data[_HEAD.size : end]), data[end:]


def new_entry(key: bytes, expires: float, number: int, tag: bytes, value: bytes) -> Entry:
    return Entry(key, expires, number, len(value) + 2 * (len(key) + len(tag)) + 64, tag)


class Sizes:
    """The sizes in memory, and the ends of the list of entries."""

    def __init__(self, by_span: dict[int, int], last_number: int) -> None:
        self.by_span, self.last_number = by_span, last_number
        self.total_bytes = sum(by_span.values())
        self.oldest = STORED  # no place is before it
        self._next_s = 0

    def add(self, span_s: int, size_bytes: int) -> tuple[bytes, bytes, int | None]:
        """Add to a size, unless it is gone; returns its key, value and time for the store."""
        old = self.by_span.get(span_s, 0)
        new = self.by_span[span_s] = max(0, old + size_bytes)
        self.total_bytes += new - old
        return SIZE + span_s.to_bytes(8), new.to_bytes(8), None if span_s == _NEVER_S else span_s

    def total_at(self, now: float) -> int:
        """The sum, without what is gone."""
        if now >= self._next_s:
            for span_s in [span_s for span_s in self.by_span if span_s <= now]:
                self.total_bytes -= self.by_span.pop(span_s)
            self._next_s = (int(now) // SPAN_S + 1) * SPAN_S
        return self.total_bytes


def packed_key(key: Any, beside_bytes: int = 0) -> bytes:
    """The bytes of a key, or of a tag beside a key.  TypeError, ValueError: it is none."""
    packed, most = pack((key,)), _LONGEST_KEY_BYTES - beside_bytes
    if len(packed) > most:
        size = f"a key or tag of {len(packed)} bytes"
        raise ValueError(f"{size} is over the limit of {most} bytes: use a hash of it")
    return packed


def decoded_key(packed: bytes) -> Any:
    """Decode a key, or a tag.  DecodeError: the bytes are of none."""
    try:
        (key,) = unpack(packed)
    except ValueError as error:
        raise DecodeError("stored key", packed, _KEYS, error, packed) from error
    return key


def expiry_time(expire: Any, now: float) -> float:
    """``expire`` seconds from ``now``, since the epoch; infinite for None."""
    try:
        expires = math.inf if expire is None else now + expire
        if expires >= 0 or expires < 0:  # neither is NaN
            return max(0.0, float(expires))
    except (TypeError, OverflowError):
        pass
    raise TypeError(f"expire={expire!r}: give seconds from now as a number, or None for never")
