"""Decides when to fetch more of a table than one block.

A random read is assumed to cost as much as 64 KiB in sequence.  How many blocks will be asked for is
unknown: the ski-rental problem (Karlin, Manasse, Rudolph, Sleator 1988, Competitive snoopy caching).
To read blocks until they have cost as much as the table costs at most twice the best choice.  Random
lookups spread over the whole table, so it pays to fetch after an eighth already, and by the MiB.

It pays only while memory keeps what was fetched.  Before a part is fetched, pages of earlier parts are
looked for: when one that was in memory before is gone, the store fetches no more.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from lsmkv.stats import Stats
from lsmkv.storage.files import RandomFile

PART_BYTES: Final = 1024 * 1024
"""Bytes fetched at once, at multiples of it."""

_RANDOM_READ_BYTES: Final = 64 * 1024  # bytes in sequence that cost as much as a random read
_SHARE: Final = 8  # one part in 8 of the cost of the whole table is spent on blocks first
_ENDLESS: Final = 1 << 60
_LOOKS: Final = 4  # earlier parts that are looked for before one is fetched: some microseconds

# What is known of a part.
_FETCHED: Final = 1
_SEEN: Final = 2  # in memory, after it was fetched


class Eviction:
    """Whether memory has lost pages that a store had fetched around; its tables share it."""

    def __init__(self) -> None:
        self.was_seen = False


class ReadAround:
    """Counts the blocks read from a table; fetches the rest once it pays."""

    def __init__(self, file: RandomFile, stats: Stats, may_fetch: bool, eviction: Eviction) -> None:
        self._file = file
        self._stats = stats
        self._eviction = eviction
        self._reads_left: i64 = _ENDLESS
        if may_fetch and file.can_fetch:
            self._reads_left = file.size // (_RANDOM_READ_BYTES * _SHARE)
        self._parts = bytearray(-(-file.size // PART_BYTES))
        self._next_look = 0

    def note(self, offset: i64) -> None:
        if self._reads_left > 0:
            self._reads_left -= 1
            return
        part = offset // PART_BYTES
        if self._parts[part] or self._is_evicted():
            return
        self._parts[part] = _FETCHED
        start = part * PART_BYTES
        length = min(PART_BYTES, self._file.size - start)
        self._stats.read_around_bytes += length
        self._file.fetch(start, length)

    def _is_evicted(self) -> bool:
        """Whether memory has lost a part; looks for a few, by turns."""
        parts, eviction = self._parts, self._eviction
        looks = 0
        for _ in range(len(parts)):
            if eviction.was_seen or looks == _LOOKS:
                break
            part = self._next_look = (self._next_look + 1) % len(parts)
            if not parts[part]:
                continue
            looks += 1
            # Its last page: the fetch of a part that is not seen may be under way.
            if self._file.is_in_memory(min((part + 1) * PART_BYTES, self._file.size) - 1):
                parts[part] = _SEEN
            elif parts[part] == _SEEN:
                eviction.was_seen = True
        return eviction.was_seen
