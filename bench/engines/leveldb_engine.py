"""LevelDB, through plyvel."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any, Final

from .base import MIB, Engine, Pairs, Settings, Store, walk
from .leveldb_files import resident_sizes

_LEVEL0_FILES: Final = 4
"""The files of level 0 that start a compaction (LevelDB's ``kL0_CompactionTrigger``)."""

_LEVEL1_SIZE_BYTES: Final = 10 * MIB
"""The limit of level 1; each further level may be ten times as large."""

_MAPS: Final = 1000
"""LevelDB maps so many tables of a process into memory, and reads the others with pread."""

_BEYOND: Final = b"\xff" * 64
_POLL_S: Final = 0.002


class LevelDBStore(Store):
    """An open LevelDB.  It counts nothing, and does not verify checksums on reads by default."""

    def __init__(self, directory: str, settings: Settings) -> None:
        import plyvel

        self._directory = directory
        self._db = plyvel.DB(
            directory,
            create_if_missing=True,
            bloom_filter_bits=round(settings.bits_per_key),
            lru_cache_size=settings.cache_size_bytes,
            write_buffer_size=settings.write_buffer_size_bytes,
            block_size=settings.block_size_bytes,
            compression="snappy" if settings.compression == "zstd" else None,
        )
        self.get = self._db.get
        self.put = self._db.put
        self.put_sync = partial(self._db.put, sync=True)

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        with self._db.write_batch(transaction=True, sync=sync) as batch:
            put = batch.put
            for key, value in pairs:
                put(key, value)

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        if not reverse:
            return walk(self._db.iterator(start=start), limit)
        return walk(self._db.iterator(stop=start, include_stop=True, reverse=True), limit)

    def settle(self) -> None:
        # Compacting a range without keys only flushes the memtable.
        self._db.compact_range(start=_BEYOND, stop=_BEYOND + b"\xff")
        while self._compaction_due():
            time.sleep(_POLL_S)

    def compact(self) -> None:
        """Merge everything into one run; without bounds plyvel's ``compact_range`` compacts nothing."""
        self._db.compact_range(start=b"\0", stop=_BEYOND)
        self.settle()

    def metadata_bytes(self) -> int:
        sizes = resident_sizes(self._directory)
        return sizes.index_bytes + sizes.filter_bytes

    def cached_bytes(self) -> int:
        """The bytes of the block cache, if blocks are compressed, and of the memtables."""
        return int(self._db.get_property(b"leveldb.approximate-memory-usage"))

    def _compaction_due(self) -> bool:
        """Whether a level exceeds its limit (``VersionSet::Finalize``)."""
        files, size_bytes = [0] * 7, [0] * 7
        level = 0
        for line in self._db.get_property(b"leveldb.sstables").splitlines():
            if heading := re.match(rb"--- level (\d+) ---", line):
                level = int(heading[1])
            elif table := re.match(rb" \d+:(\d+)\[", line):
                files[level] += 1
                size_bytes[level] += int(table[1])
        # The last level has no limit.
        return files[0] >= _LEVEL0_FILES or any(
            size_bytes[level] >= _LEVEL1_SIZE_BYTES * 10 ** (level - 1) for level in range(1, 6)
        )


def map_taker(path: str, is_new: bool) -> Any:
    """An open store that takes up all maps of this process, so that others are read by calls."""
    import plyvel

    store: Any = plyvel.DB(
        path, create_if_missing=True, write_buffer_size=64 * 1024, max_open_files=4 * _MAPS
    )
    keys = [b"%06d" % number for number in range(_MAPS + 100)]
    if is_new:
        for key in keys:
            store.put(key, bytes(70_000))
    for key in keys:
        assert store.get(key) is not None
    return store


class LevelDB(Engine):
    """LevelDB; its library has no zstd, so Snappy stands for it."""

    name = "leveldb"
    distribution = module = "plyvel"
    store = LevelDBStore

    def version(self) -> str:
        import plyvel

        return f"{plyvel.__leveldb_version__} (plyvel {super().version()})"
