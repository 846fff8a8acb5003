"""Decides when to fetch more of a table than one block.

A random read is assumed to cost as much as 64 KiB in sequence.  How many blocks will be asked for is
unknown: the ski-rental problem (Karlin, Manasse, Rudolph, Sleator 1988, Competitive snoopy caching).
To read blocks until they have cost as much as the table costs at most twice the best choice.  Random
lookups spread over the whole table, so it pays to fetch after an eighth already, and by the MiB.
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


class ReadAround:
    """Counts the blocks read from a table; fetches the rest once it pays.

    No part is fetched twice, except by two threads at once, which does no harm.
    """

    def __init__(self, file: RandomFile, stats: Stats, may_fetch: bool) -> None:
        self._file = file
        self._stats = stats
        self._reads_left: i64 = _ENDLESS
        if may_fetch and file.can_fetch:
            self._reads_left = file.size // (_RANDOM_READ_BYTES * _SHARE)
        self._fetched = bytearray(-(-file.size // PART_BYTES))

    def note(self, offset: i64) -> None:
        if self._reads_left > 0:
            self._reads_left -= 1
            return
        part = offset // PART_BYTES
        if not self._fetched[part]:
            self._fetched[part] = 1
            start = part * PART_BYTES
            length = min(PART_BYTES, self._file.size - start)
            self._stats.read_around_bytes += length
            self._file.fetch(start, length)
