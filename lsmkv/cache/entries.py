"""How a cache lies in its store: entries, two indexes of them, and their counts.

A key of the store starts with one byte that says what it is; ``key`` is the packed key of an entry
(FoundationDB's tuple encoding), ``expiry`` the exact time when it goes, infinite for never.

| key of the store | value |
|---|---|
| ``e`` key | expiry (8 bytes), number (8), length of the tag (2), the packed tag, the encoded value |
| ``s`` number (8) key | expiry (8), size (8): all entries, in the order in which they were stored |
| ``t`` tag key | expiry (8): the entries with a tag |
| ``z`` | the format; then the counts, of a cache that was closed |

One batch writes an entry with its places in the indexes.  The store drops all of them at the next whole
second after the expiry.
"""

from __future__ import annotations

import math
import struct
from typing import Final, NamedTuple

from lsmkv.typed import MsgPack

ENTRY: Final = b"e"
STORED: Final = b"s"
TAGGED: Final = b"t"
FORMAT_KEY: Final = b"z"
FORMAT: Final = b"lsmkv.cache 2\n"

NEVER: Final = math.inf
SPAN_S: Final = 16
"""For how much longer expired entries may count."""
LONGEST_KEY_BYTES: Final = 0xFFFF - 9
"""The longest packed key, or key and tag, that fits into a key of the store."""

_HEAD: Final = struct.Struct(">dQH")
_NUMBER: Final = struct.Struct(">Q")
_STORED: Final = struct.Struct(">dQ")
_TIME: Final = struct.Struct(">d")
_NEVER: Final = _TIME.pack(NEVER)
_LAST_S: Final = (1 << 40) - 2  # that the store takes
_MOST: Final = 1 << 62
_NOTE: Final = MsgPack[tuple[int, dict[float, tuple[int, int]]]](
    tuple[int, dict[float, tuple[int, int]]]
)


class About(NamedTuple):
    """An entry without its value."""

    key: bytes
    expires: float
    number: int
    """Counts up with every value that is stored."""
    tag: bytes
    """Packed; empty for none."""
    size_bytes: int
    """Of key and value."""

    def places(self) -> dict[bytes, bytes]:
        """Keys of the store that lead to the entry, and their values."""
        stored = STORED + _NUMBER.pack(self.number) + self.key
        places = {stored: _STORED.pack(self.expires, self.size_bytes)}
        if self.tag:
            places[TAGGED + self.tag + self.key] = _TIME.pack(self.expires)
        return places

    def packed(self, value: bytes) -> bytes:
        """What the store has at the entry's key."""
        return _HEAD.pack(self.expires, self.number, len(self.tag)) + self.tag + value


Entry = tuple[About, bytes]
"""An entry and its encoded value."""


def read_entry(key: bytes, data: bytes) -> Entry:
    """ValueError: the bytes are of none."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes are too few")
    expires, number, tag_bytes = _HEAD.unpack_from(data)
    end = _HEAD.size + tag_bytes
    if not expires >= 0 or number >= _MOST or end > len(data):
        raise ValueError(f"expiry {expires}, number {number}, a tag of {tag_bytes} bytes cannot be")
    about = About(key, expires, number, data[_HEAD.size : end], len(key) + len(data) - end)
    return about, data[end:]


def read_stored(place: bytes, data: bytes) -> tuple[int, float, int]:
    """Number, expiry and size at a place in the order of storing.  ValueError."""
    if len(place) < 9 or len(data) != _STORED.size:
        raise ValueError(f"{len(data)} bytes cannot be")
    number = int.from_bytes(place[1:9])
    expires, size_bytes = _STORED.unpack(data)
    if not expires >= 0 or max(number, size_bytes << 24) >= _MOST:
        raise ValueError(f"expiry {expires}, number {number} and size {size_bytes} cannot be")
    return number, expires, size_bytes


def due_s(data: bytes) -> float:
    """When the store may drop a place: a whole second after the expiry."""
    if data.startswith(_NEVER) or len(data) < _TIME.size:
        return NEVER
    (expires,) = _TIME.unpack_from(data)
    return max(1, int(expires) + 1) if expires < _LAST_S else NEVER


class Counts:
    """The number of entries and their bytes, by when they go.

    The store drops entries by itself.  They count no more once their part is due.
    """

    def __init__(self, last_number: int = 0) -> None:
        self.count = self.size_bytes = 0
        self.last_number = last_number
        self.next_due = NEVER
        self.parts: dict[float, tuple[int, int]] = {}

    def add(self, expires: float, count: int, size_bytes: int) -> None:
        """Count entries; below 0 some no more, unless their part is gone."""
        due = NEVER if expires >= _LAST_S else (int(expires) // SPAN_S + 1) * SPAN_S
        self._add(due, count, size_bytes)

    def _add(self, due: float, count: int, size_bytes: int) -> None:
        part = self.parts.get(due, (0, 0))
        if part[0] + count > 0:
            self.parts[due] = part[0] + count, part[1] + size_bytes
            if due < self.next_due:
                self.next_due = due
        else:
            count, size_bytes = -part[0], -part[1]
            self.parts.pop(due, None)
        self.count += count
        self.size_bytes += size_bytes

    def drop_due(self, now: float) -> None:
        for due in [due for due in self.parts if due <= now]:
            self._add(due, -self.parts[due][0], 0)
        self.next_due = min(self.parts, default=NEVER)

    def parts_after(self, due: float) -> dict[float, tuple[int, int]]:
        return {each: part for each, part in self.parts.items() if each > due}

    def pack(self) -> bytes:
        return _NOTE.encode((self.last_number, self.parts))

    @classmethod
    def read(cls, data: bytes) -> Counts:
        """ValueError: the bytes are of none."""
        last_number, parts = _NOTE.decode(data)
        counts = cls(last_number)
        for due, part in parts.items():
            counts._add(due, *part)
        if not 0 <= last_number < _MOST or counts.count > last_number:
            raise ValueError(f"{counts.count} entries, the last number {last_number}: it cannot be")
        return counts

    def copy(self) -> Counts:
        copied = Counts()
        copied.__dict__.update(self.__dict__, parts=self.parts.copy())
        return copied

    def __repr__(self) -> str:
        return f"{self.count} entries of {self.size_bytes} bytes"
