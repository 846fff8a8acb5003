"""Readers of a store's tables, without the store."""

from __future__ import annotations

import os

from lsmkv.inspection.store_info import StoreInfo
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.reader import TableReader
from lsmkv.stats import Stats
from lsmkv.storage.storage import Storage


def open_tables(path: str, info: StoreInfo, cache_bytes: int = 0) -> list[TableReader]:
    """Readers of a store's tables, newest data first, with resident filters and one block cache."""
    storage = Storage(Stats())
    cache = BlockCache(cache_bytes, storage.stats)
    return [
        TableReader(
            storage,
            os.path.join(path, table.file_name),
            cache,
            meta=None,
            filter_residency="resident",
        )
        for table in info.tables()
    ]


def keys_of(table: TableReader) -> list[bytes]:
    """A table's keys, in order."""
    found: list[bytes] = []
    for number in range(table.index.block_count):
        found += table.block(number, False).keys()
    return found
