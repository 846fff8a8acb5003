"""When to have the operating system fetch more of a table than was asked for.

A read at a random place is taken to cost a disk as much as 64 KiB in sequence (docs/design.md says
from what; it is more on a disk that turns).  So a table costs less to read whole than block by block,
if a 16th of its blocks or more will be asked for; but nobody knows whether they will.  This is the
ski-rental problem (Karlin, Manasse, Rudolph, Sleator 1988, Competitive snoopy caching): to rent, block
by block, until that has cost as much as buying, costs at most twice what the best choice would have
cost.  Looked up at random a table is asked for all over, so that it pays to buy earlier, after an
eighth, and by the MiB.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from lsmkv.stats import Stats
from lsmkv.storage.files import RandomFile

PART_BYTES: Final = 1024 * 1024
"""So much is fetched at once, at multiples of it."""

_RANDOM_READ_BYTES: Final = 64 * 1024  # so much in sequence costs a read at random
_SHARE: Final = 8  # of what reading it whole would cost is spent before
_ENDLESS: Final = 1 << 60


class ReadAround:
    """Counts the blocks read from one table, and fetches the rest in parts once it pays.

    No part is fetched twice, so that a store that is larger than was thought costs at most one reading.
    Any number of threads may use it: a part may be fetched by two at once, which does no harm.

    Args:
        file: the table.
        stats: what was fetched is counted there.
        may_fetch: False: nothing ever is; nor is anything of a file that cannot fetch.
    """

    def __init__(self, file: RandomFile, stats: Stats, may_fetch: bool) -> None:
        self._file = file
        self._stats = stats
        self._reads_left: i64 = _ENDLESS
        if may_fetch and file.can_fetch:
            self._reads_left = file.size // (_RANDOM_READ_BYTES * _SHARE)
        self._fetched = bytearray(-(-file.size // PART_BYTES))

    def note(self, offset: i64) -> None:
        """A block at ``offset`` was read.  O(1)."""
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
