"""The block cache: decoded blocks and filter chunks, within one byte budget.

Eviction is CLOCK (Corbato 1969): a hit only marks its item as visited, which takes no lock; the oldest
item is evicted first, but a marked one gets one more round.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from mypy_extensions import i64

from lsmkv.stats import Stats


class CacheItem:
    """An item that the cache can hold; ``charge_bytes`` is about its memory."""

    charge_bytes: int
    visited: bool

    def __init__(self, charge_bytes: int) -> None:
        self.charge_bytes = charge_bytes
        self.visited = False


class TableCacheSlots:
    """Slots for the blocks, or the filter chunks, of one table."""

    def __init__(self, first_key: int, slot_count: int) -> None:
        self.first_key = first_key  # of slot 0 in the cache's order; the others follow
        self.items: list[CacheItem | None] = [None] * slot_count
        self.closed = False

    def holds(self, slot: i64) -> bool:
        """Whether there is an item in ``slot``; neither counted nor a visit."""
        return self.items[slot] is not None


class BlockCache:
    """Items of all tables, evicted oldest first.  Thread-safe."""

    def __init__(self, capacity_bytes: int, stats: Stats) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._stats = stats
        self._order: OrderedDict[int, TableCacheSlots] = OrderedDict()  # taken slots, oldest first
        self._next_key = 0
        self._lock = threading.RLock()
        self._is_changing = False

    def slots(self, slot_count: int) -> TableCacheSlots:
        with self._lock:
            first_key = self._next_key
            self._next_key += slot_count
        return TableCacheSlots(first_key, slot_count)

    def get(self, slots: TableCacheSlots, slot: i64) -> CacheItem | None:
        """The item in ``slot``, marked as visited; None if there is none.  O(1)."""
        item = slots.items[slot]
        if item is None:
            self._stats.block_cache_misses += 1
            return None
        item.visited = True
        self._stats.block_cache_hits += 1
        return item

    def put(self, slots: TableCacheSlots, slot: i64, item: CacheItem) -> None:
        """Keep ``item`` in ``slot``, evicting others to make room.  O(1) amortised.

        An item larger than the whole budget is not kept, nor is one for slots that were cleared.
        """
        if item.charge_bytes > self.capacity_bytes:
            return
        with self._lock:
            # The lock is re-entrant: a finalizer run by this thread, within a put, may look keys up.
            if slots.closed or self._is_changing:
                return
            try:
                self._is_changing = True
                self._put(slots, slot, item)
            finally:
                self._is_changing = False

    def _put(self, slots: TableCacheSlots, slot: i64, item: CacheItem) -> None:
        self._drop(slots, slot)
        order = self._order
        while self.used_bytes + item.charge_bytes > self.capacity_bytes:
            # An interrupt may come after each call, so order, slot and bytes change between two calls.
            key = next(iter(order))
            owner = order[key]
            oldest = owner.items[key - owner.first_key]
            assert oldest is not None  # every key in the order has an item
            if oldest.visited:
                oldest.visited = False
                order.move_to_end(key)
            else:
                owner.items[key - owner.first_key] = None
                self.used_bytes -= oldest.charge_bytes
                self._stats.block_cache_evictions += 1
                del order[key]
        self._order[slots.first_key + slot] = slots
        slots.items[slot] = item
        self.used_bytes += item.charge_bytes

    def clear(self, slots: TableCacheSlots) -> None:
        """Empty a table's slots for good.  O(slots)."""
        with self._lock:
            slots.closed = True
            for slot in range(len(slots.items)):
                self._drop(slots, slot)

    def _drop(self, slots: TableCacheSlots, slot: i64) -> None:
        item = slots.items[slot]
        if item is not None:
            slots.items[slot] = None
            del self._order[slots.first_key + slot]
            self.used_bytes -= item.charge_bytes

    def __len__(self) -> int:
        return len(self._order)
