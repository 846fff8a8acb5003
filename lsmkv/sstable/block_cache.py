"""The block cache: decoded blocks (and filter chunks) in memory, within one byte budget.

Each table has a *shelf*, with a place for each of its blocks, so that a look-up finds a cached block
by its number, without hashing.  Eviction is CLOCK (Corbato 1969): a hit only marks its item as
visited, which takes no lock and moves nothing; the oldest item goes first, and a marked one is given
one more round instead.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from mypy_extensions import i64

from lsmkv.stats import Stats


class CacheItem:
    """What the cache can hold.  ``charge_bytes`` is its memory, roughly."""

    charge_bytes: int
    visited: bool

    def __init__(self, charge_bytes: int) -> None:
        self.charge_bytes = charge_bytes
        self.visited = False


class TableCacheSlots:
    """Places for the blocks of one table; made by :meth:`BlockCache.shelf`."""

    def __init__(self, first_key: int, place_count: int) -> None:
        self.first_key = first_key
        self.items: list[CacheItem | None] = [None] * place_count
        self.closed = False

    def holds(self, place: i64) -> bool:
        """Whether there is an item at ``place``; neither counted nor a visit."""
        return self.items[place] is not None


class BlockCache:
    """Items on shelves, evicted oldest first (visited ones get a second chance).  Thread-safe."""

    def __init__(self, capacity_bytes: int, stats: Stats) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._stats = stats
        # Whose turn it is to go: each taken place by its number, oldest first.
        self._order: OrderedDict[int, TableCacheSlots] = OrderedDict()
        self._next_key = 0
        self._lock = threading.RLock()
        self._is_changing = False

    def shelf(self, place_count: int) -> TableCacheSlots:
        """A shelf with places 0 to ``place_count`` - 1, all empty."""
        with self._lock:
            first_key = self._next_key
            self._next_key += place_count
            return TableCacheSlots(first_key, place_count)

    def get(self, shelf: TableCacheSlots, place: i64) -> CacheItem | None:
        """The item at ``place``, marked as visited; None when there is none.  O(1)."""
        item = shelf.items[place]
        if item is None:
            self._stats.block_cache_misses += 1
            return None
        item.visited = True
        self._stats.block_cache_hits += 1
        return item

    def put(self, shelf: TableCacheSlots, place: i64, item: CacheItem) -> None:
        """Keep ``item`` at ``place``, evicting others to make room.

        An item larger than the whole budget is not kept, nor one for a shelf that was cleared.
        O(1) amortised.
        """
        if item.charge_bytes > self.capacity_bytes:
            return
        with self._lock:
            if shelf.closed or self._is_changing:  # by this thread, in which a finalizer looks up
                return
            try:
                self._is_changing = True
                self._put(shelf, place, item)
            finally:
                self._is_changing = False

    def _put(self, shelf: TableCacheSlots, place: i64, item: CacheItem) -> None:
        self._drop(shelf, place)
        order = self._order
        while self.used_bytes + item.charge_bytes > self.capacity_bytes:
            # An interrupt may come after each call: turn, place and bytes change between two.
            key = next(iter(order))
            owner = order[key]
            oldest = owner.items[key - owner.first_key]
            assert oldest is not None  # whatever has a turn has a place
            if oldest.visited:
                oldest.visited = False
                order.move_to_end(key)
            else:
                owner.items[key - owner.first_key] = None
                self.used_bytes -= oldest.charge_bytes
                self._stats.block_cache_evictions += 1
                del order[key]
        self._order[shelf.first_key + place] = shelf
        shelf.items[place] = item
        self.used_bytes += item.charge_bytes

    def clear(self, shelf: TableCacheSlots) -> None:
        """Empty a shelf for good: its table is no more.  O(places)."""
        with self._lock:
            shelf.closed = True
            for place in range(len(shelf.items)):
                self._drop(shelf, place)

    def _drop(self, shelf: TableCacheSlots, place: i64) -> None:
        item = shelf.items[place]
        if item is not None:
            shelf.items[place] = None
            del self._order[shelf.first_key + place]
            self.used_bytes -= item.charge_bytes

    def __len__(self) -> int:
        return len(self._order)
