"""The sections of an open table that are read at first use: its index and its filters."""

from __future__ import annotations

import threading
from typing import Final

from lsmkv.encoding.checksums import running_checksum
from lsmkv.errors import note_full_budget
from lsmkv.sstable.block_cache import BlockCache, TableCacheSlots, TableMemory
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.table_end import check_tail
from lsmkv.sstable.table_filters import FilterKind, TableFilters
from lsmkv.stats import Stats
from lsmkv.storage.storage import RandomFile, ReadKind

_PATIENCE_S: Final = 1.0
"""How long a thread waits for another that loads the same table, before it loads it too.

It must not wait for ever.  A finalizer may run in any thread that holds a lock (the block cache's, a
logging handler's, or one of these) and look keys up: two such threads would wait for each other.
"""


class LazySections:
    """Index and filters of a table, and its share of the memory."""

    def __init__(
        self,
        file: RandomFile,
        footer: Footer,
        properties: TableProperties,
        kind: FilterKind,
        cache: BlockCache,
        residency: str,
        stats: Stats,
    ) -> None:
        self._file = file
        self._footer = footer
        self._properties = properties
        self.kind = kind
        self._cache = cache
        self._residency = residency
        self._stats = stats
        # Spares threads from loading at once; what protects is that equal results are put in place by
        # assignments, index and filters last.  Re-entrant: a finalizer may run while this thread loads.
        self._loading = threading.RLock()
        self._is_obsolete = False
        # index, filters: None before they are loaded.
        self.index: TableIndex | None = None
        self.filters: TableFilters | None = None
        # The slots of its blocks in the cache; there are none before ``index``.
        self.blocks: TableCacheSlots = cache.slots(0)
        self.memory = TableMemory(cache)

    def load_index(self) -> TableIndex:
        waited = self._loading.acquire(timeout=_PATIENCE_S)
        try:
            index = self.index
            if index is not None:
                return index
            loaded = _read_index(self._file, self._footer, self._properties)
            blocks = self._cache.slots(loaded.block_count)
            self.memory.hold_index(loaded.memory_bytes)
            index = self.index
            if index is not None:  # this thread's finalizer, or an impatient thread, was faster
                return index
            self.blocks = blocks
            self.index = loaded  # last: whoever sees the index needs the slots
        finally:
            if waited:
                self._loading.release()
        if self._is_obsolete:
            self._cache.clear(self.blocks)
        return loaded

    def load_filters(self) -> TableFilters:
        index = self.load_index() if self.index is None else self.index
        waited = self._loading.acquire(timeout=_PATIENCE_S)
        try:
            filters = self.filters
            if filters is not None:
                return filters
            residency = self.memory.residency(self._residency, self._footer.filters_length)
            loaded = TableFilters(
                self._file,
                self._footer,
                self._properties,
                self.kind,
                index,
                self._cache,
                residency,
                self._stats,
            )
            filters = self.filters
            if filters is not None:
                return filters
            self.memory.hold_filters(loaded.memory_bytes)
            self.filters = loaded
        finally:
            if waited:
                self._loading.release()
        cache = self._cache
        if residency != self._residency and cache.is_first_refusal():
            note_full_budget(self._file.path, cache.budget_bytes, cache.reserved_bytes)
        if self._is_obsolete:
            loaded.section.clear_cache()
        loaded.section.report_damage()
        return loaded

    def leave_cache(self) -> None:
        self._is_obsolete = True  # first: who loads it now looks afterwards
        self.memory.release()
        self._cache.clear(self.blocks)
        filters = self.filters
        if filters is not None:
            filters.section.clear_cache()


# Index and properties share a checksum, which is checked at opening
# too (``table_end.read_end``): damage is found at once, although the index is not kept.


def _read_index(file: RandomFile, footer: Footer, properties: TableProperties) -> TableIndex:
    section = file.pread(footer.index_offset, footer.index_length, ReadKind.INDEX)
    running = running_checksum()
    running.update(section)
    running.update(file.pread(footer.properties_offset, footer.properties_length, ReadKind.INDEX))
    check_tail(running.intdigest(), file.path, footer)
    return TableIndex(section, file.path, footer, properties)
