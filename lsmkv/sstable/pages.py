"""Sizes the blocks of a table to lie in one page each.

A device and the operating system read whole pages of 4 KiB, so a block of 4 KiB that begins within a
page costs two.  A block's stored size is known only once it is compressed.  So the ratio of the blocks
before tells how many bytes of entries will fill the page, and zeros fill what is left of it.  A block
that turns out larger crosses into the next page, and the block after it ends with that page.

Large entries that do not compress leave more of a page than zeros may fill.  The next block then takes
the entries that fit there, or one that crosses into the next page: only that one costs two pages.
"""

from __future__ import annotations

from typing import Final

PAGE_BYTES: Final = 4096
"""Bytes of a page; blocks are placed by it."""

MOST_PADDING_BYTES: Final = 384
"""The most that is left free at the end of a page, so that the next block begins with another."""

_MOST_RAW: Final = 2  # about so many times its size may a block have before compression
_WEIGHT: Final = 1 / 8  # of the newest block, in mean and deviation
_FIRST_DEVIATION: Final = 1 / 64  # of the first ratio, until more are known
_LEAST_RATIO: Final = 0.9  # of blocks that do not compress: small ones lose nothing


class PageFit:
    """Sizes blocks of about ``block_size`` bytes, as stored."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._ratio = 0.0  # stored bytes for each byte of entries, in the mean
        self._deviation = 0.0  # from it, in the mean
        self._entry_size = 0.0  # bytes of an entry, in the mean

    def entry_bytes(self, offset: int) -> int:
        """The most bytes of entries for a block at ``offset``.

        It ends with a page then, if the entries are small.  Small blocks share a page, large ones take
        several.
        """
        if self._ratio == 0.0:
            return self._block_size
        usual = self._usual_size()
        stored = PAGE_BYTES - offset % PAGE_BYTES
        if usual > stored and not (usual <= PAGE_BYTES and self._splits_pages()):
            stored += PAGE_BYTES * int((usual - stored) / PAGE_BYTES + 0.5)
        sharing = max(1, int(stored / usual + 0.5))
        return max(1, int(stored / sharing / (self._ratio + self._deviation)))

    def is_not_worth_compressing(self, entry_bytes: int) -> bool:
        """Whether a block is small, and those before it do not compress."""
        return self._is_small(entry_bytes) and self._splits_pages()

    def padding(self, entry_bytes: int, entry_count: int, offset: int, length: int) -> int:
        """Note a finished block of ``length`` bytes at ``offset``; returns how many follow it free."""
        ratio = length / entry_bytes
        entry_size = entry_bytes / entry_count
        if self._ratio == 0.0:
            self._ratio = ratio
            self._deviation = ratio * _FIRST_DEVIATION
            self._entry_size = entry_size
        elif not self._is_small(entry_bytes):  # which is mostly header and trailer
            difference = ratio - self._ratio
            self._ratio += difference * _WEIGHT
            self._deviation += (abs(difference) - self._deviation) * _WEIGHT
        self._entry_size += (entry_size - self._entry_size) * _WEIGHT
        left = -(offset + length) % PAGE_BYTES
        return left if left <= MOST_PADDING_BYTES and left < self._usual_size() / 2 else 0

    def _is_small(self, entry_bytes: int) -> bool:
        return 2 * entry_bytes < self._block_size

    def _splits_pages(self) -> bool:
        """Whether entries are larger than zeros may fill, and do not compress."""
        return self._entry_size > MOST_PADDING_BYTES and self._ratio > _LEAST_RATIO

    def _usual_size(self) -> float:
        return self._block_size * min(1.0, _MOST_RAW * self._ratio)
