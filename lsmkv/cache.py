"""The block cache: decoded blocks (and filter chunks) in memory, within one byte budget.

Eviction is CLOCK (Corbato 1969): a hit only marks its item as visited, which takes no lock and
moves nothing; the oldest item goes first, and a marked one is given one more round instead.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from lsmkv.stats import Stats


class CacheItem:
    """What the cache can hold.  ``charge_bytes`` is its memory, roughly."""

    charge_bytes: int
    visited: bool

    def __init__(self, charge_bytes: int) -> None:
        self.charge_bytes = charge_bytes
        self.visited = False


class BlockCache:
    """Items by number, evicted oldest first (visited ones get a second chance).  Thread-safe."""

    def __init__(self, capacity_bytes: int, stats: Stats) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._stats = stats
        self._items: OrderedDict[int, CacheItem] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: int) -> CacheItem | None:
        """The item under ``key``, marked as visited; None when it is not here.  O(1)."""
        item = self._items.get(key)
        if item is None:
            self._stats.block_cache_misses += 1
            return None
        item.visited = True
        self._stats.block_cache_hits += 1
        return item

    def peek(self, key: int) -> bool:
        """Whether ``key`` is here, without counting or marking it."""
        return key in self._items

    def put(self, key: int, item: CacheItem) -> None:
        """Keep ``item`` under ``key``, evicting others to make room.

        An item larger than the whole budget is not kept.  O(1) amortised.
        """
        if item.charge_bytes > self.capacity_bytes:
            return
        with self._lock:
            replaced = self._items.pop(key, None)
            if replaced is not None:
                self.used_bytes -= replaced.charge_bytes
            while self.used_bytes + item.charge_bytes > self.capacity_bytes:
                oldest_key, oldest = self._items.popitem(last=False)
                if oldest.visited:
                    oldest.visited = False
                    self._items[oldest_key] = oldest
                else:
                    self.used_bytes -= oldest.charge_bytes
                    self._stats.block_cache_evictions += 1
            self._items[key] = item
            self.used_bytes += item.charge_bytes

    def discard(self, keys: range) -> None:
        """Drop whatever is held under ``keys``: blocks of a table that is no more.  O(len(keys))."""
        with self._lock:
            for key in keys:
                item = self._items.pop(key, None)
                if item is not None:
                    self.used_bytes -= item.charge_bytes

    def __len__(self) -> int:
        return len(self._items)
