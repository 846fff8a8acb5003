"""The block cache: decoded blocks and filter chunks, within one byte budget.

Eviction is CLOCK (Corbato 1969): a hit only marks its item as visited, which takes no lock; the oldest
item is evicted first, but a marked one gets one more round.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

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


_NO_BUDGET: Final = 1 << 50


class BlockCache:
    """Items of all tables, evicted oldest first.  Thread-safe.

    Tables reserve the memory of their indexes and resident filters, which the cache may not use: all
    together keep to ``budget_bytes``, unless indexes alone exceed it.

    Attributes:
        capacity_bytes: what the cache may use now.
        reserved_bytes: what tables have reserved.
        lock: serialises changes; re-entrant.
    """

    def __init__(self, capacity_bytes: int, stats: Stats, budget_bytes: int = _NO_BUDGET) -> None:
        self.capacity_bytes = capacity_bytes
        self._most_bytes = capacity_bytes
        self.budget_bytes = budget_bytes
        self.reserved_bytes = 0
        self._has_refused = False
        self.used_bytes = 0
        self._stats = stats
        self._order: OrderedDict[int, TableCacheSlots] = OrderedDict()  # taken slots, oldest first
        self._next_key = 0
        self.lock = threading.RLock()
        self._is_changing = False

    def slots(self, slot_count: int) -> TableCacheSlots:
        with self.lock:
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
        with self.lock:
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
        self._make_room(item.charge_bytes)
        if self.used_bytes + item.charge_bytes > self.capacity_bytes:
            return  # tables have reserved the rest meanwhile
        self._order[slots.first_key + slot] = slots
        slots.items[slot] = item
        self.used_bytes += item.charge_bytes

    def _make_room(self, size_bytes: int) -> None:
        """Evict items until one of this size fits, or none is left."""
        order = self._order
        while order and self.used_bytes + size_bytes > self.capacity_bytes:
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

    # The budget

    def reserve(self, more_bytes: int) -> None:
        """Take memory from the cache for indexes and filters; or give it back, if negative."""
        with self.lock:
            self.reserved_bytes += more_bytes
            left = max(0, self.budget_bytes - self.reserved_bytes)
            self.capacity_bytes = min(self._most_bytes, left)
            if not self._is_changing:
                try:
                    self._is_changing = True
                    self._make_room(0)
                finally:
                    self._is_changing = False

    def is_first_refusal(self) -> bool:
        """Whether nobody has asked this before: one warning is enough."""
        is_first = not self._has_refused
        self._has_refused = True
        return is_first

    def clear(self, slots: TableCacheSlots) -> None:
        """Empty a table's slots for good.  O(slots)."""
        with self.lock:
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


class TableMemory:
    """The memory that a table's index and filters reserve in the budget.

    It is reserved before it is used, so that blocks have left the cache by then.
    """

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self._index_bytes = 0
        self._filter_bytes = 0
        self._reserved_bytes = 0
        self._is_released = False

    def hold_index(self, size_bytes: int) -> None:
        with self._cache.lock:
            self._index_bytes = size_bytes
            self._reserve()

    def hold_filters(self, size_bytes: int) -> None:
        with self._cache.lock:
            self._filter_bytes = size_bytes
            self._reserve()

    def admits_filters(self, size_bytes: int) -> bool:
        """Whether such filters leave the cache a quarter of the budget."""
        cache = self._cache
        # No product: compiled code dies of one of large numbers that an interrupt cuts short.
        return cache.reserved_bytes + size_bytes <= cache.budget_bytes - cache.budget_bytes // 4

    def residency(self, wanted: str, size_bytes: int) -> str:
        """The residency of filters that are about to be loaded: ``cached`` if there is no room."""
        if wanted != "resident":
            return wanted
        with self._cache.lock:
            if not self.admits_filters(size_bytes):
                return "cached"
            self.hold_filters(size_bytes)
            return wanted

    def release(self) -> None:
        """Give everything back for good: the table left the tree."""
        with self._cache.lock:
            self._is_released = True
            self._reserve()

    def _reserve(self) -> None:
        wanted = 0 if self._is_released else self._index_bytes + self._filter_bytes
        more = wanted - self._reserved_bytes
        self._reserved_bytes = wanted
        self._cache.reserve(more)
