"""A storage that also counts the pages its reads touch, by purpose.

A device reads whole pages.  With ``direct_reads`` a store counts them itself, but then every read waits
for the device; this storage counts the same pages of ordinary reads.
"""

from __future__ import annotations

from collections import Counter

from lsmkv.stats import Stats
from lsmkv.storage.storage import DIRECT_ALIGNMENT_BYTES, RandomFile, ReadKind, Storage


class PageFile(RandomFile):
    """A file that adds the bytes of the pages it reads to ``page_bytes``."""

    __slots__ = ("_page_bytes",)

    def __init__(
        self,
        path: str,
        descriptor: int,
        size: int,
        stats: Stats,
        direct: bool,
        page_bytes: Counter[ReadKind],
    ) -> None:
        super().__init__(path, descriptor, size, stats, direct)
        self._page_bytes = page_bytes

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        first = offset // DIRECT_ALIGNMENT_BYTES
        end = -(-(offset + length) // DIRECT_ALIGNMENT_BYTES)
        self._page_bytes[kind] += (end - first) * DIRECT_ALIGNMENT_BYTES
        return super().pread(offset, length, kind, count)


class PageStorage(Storage):
    """Ordinary files; ``page_bytes`` has the bytes of the pages read, by purpose."""

    def __init__(self, *, direct_reads: bool = False) -> None:
        super().__init__(direct_reads=direct_reads)
        self.page_bytes: Counter[ReadKind] = Counter()

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return PageFile(path, descriptor, size, self.stats, direct, self.page_bytes)
