"""The block cache: decoded blocks, filter chunks and single entries, within one byte budget.

Eviction is S3-FIFO (Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023), in
bytes.  A new item enters a small queue, which has a tenth of the memory.  At its end it moves to the
main queue if it was hit twice; otherwise it is evicted, and its key is remembered for a while.  A
remembered item that comes again enters the main queue at once.  There an item gets as many more rounds
as it had hits, up to three.  Before anything has to leave, new items fill both queues.  A hit only
counts, and takes no lock.

Entries (:mod:`lsmkv.sstable.entry_cache`) get a share of the memory, which is found as in ARC (Megiddo
and Modha, FAST 2003).  A block that is read and was evicted lately would be here if blocks had more
memory; it moves the share a step towards blocks.  An entry does the same for entries.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.expiry import Expiring
from lsmkv.filters.hashing import hash_key
from lsmkv.sstable.entry_cache import MOST_HITS, SMALL_DIVISOR, EntryCache
from lsmkv.stats import Stats

_HITS_TO_STAY: Final = 2  # in the small queue
_LEAST_BLOCK_BYTES: Final = 32 * 1024  # of memory that entries leave to blocks
_LEAST_SHARE: Final = 0.02  # of the memory, for entries
_MOST_SHARE: Final = 0.95
_STEP: Final = 0.0005  # of the memory; at least
_STEP_BYTES: Final = 2048
PLACE_BYTES: Final = 150  # of memory: an item's place in a queue, and one in the memory of keys


class CacheItem:
    """An item that the cache can hold."""

    def __init__(self, size_bytes: int) -> None:
        # About its memory, with its places in the queues.
        self.charge_bytes: int = size_bytes + PLACE_BYTES
        self.hits: i64 = 0  # how often it was found since it entered its queue, up to three


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
    """Items of all tables.  Thread-safe.

    Tables reserve the memory of their indexes and resident filters, which the cache may not use: all
    together keep to ``budget_bytes``, unless indexes alone exceed it.
    """

    def __init__(self, capacity_bytes: int, stats: Stats, budget_bytes: int = _NO_BUDGET) -> None:
        self.capacity_bytes = capacity_bytes  # what the cache may use now
        self._most_bytes = capacity_bytes
        self.budget_bytes = budget_bytes
        self.reserved_bytes = 0  # what tables have reserved
        self._has_refused = False
        self.used_bytes = 0  # about the memory of blocks and filter chunks
        self._stats = stats
        self.miss_count: i64 = 0  # how often an item was not found
        self.entries = EntryCache()  # single entries, which have a share of the memory
        self._set_entry_share(0.5)
        # By key, oldest first: taken slots, and the charges of items that left the small queue.
        self._small: OrderedDict[int, TableCacheSlots] = OrderedDict()
        self._main: OrderedDict[int, TableCacheSlots] = OrderedDict()
        self._main_bytes = 0
        self._left: OrderedDict[int, int] = OrderedDict()
        self._left_bytes = 0
        self._has_evicted = False
        self._next_key = 0
        self.lock = threading.RLock()  # serialises changes; re-entrant
        self._is_changing = False

    def slots(self, slot_count: int) -> TableCacheSlots:
        with self.lock:
            first_key = self._next_key
            self._next_key += slot_count
        return TableCacheSlots(first_key, slot_count)

    def get(self, slots: TableCacheSlots, slot: i64) -> CacheItem | None:
        """The item in ``slot``, as a hit; None if there is none.  O(1)."""
        item = slots.items[slot]
        if item is None:
            self.miss_count += 1
            self._stats.block_cache_misses += 1
            return None
        if item.hits < MOST_HITS:
            item.hits += 1
        self._stats.block_cache_hits += 1
        return item

    def put(self, slots: TableCacheSlots, slot: i64, item: CacheItem) -> None:
        """Keep ``item`` in ``slot``, evicting others to make room.  O(1) amortised.

        An item larger than all memory for blocks is not kept, nor is one for slots that were cleared.
        """
        if item.charge_bytes > self._capacity_for_blocks():
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
        key: int = slots.first_key + slot
        has_left = key in self._left
        if has_left:
            self._forget(key)
            share = self._entry_share
            self._set_entry_share(share - self._step() * max(1.0, share / (1 - share)))
        self._make_room(item.charge_bytes)
        if self.used_bytes + item.charge_bytes > self._capacity_for_blocks():
            return  # tables have reserved the rest meanwhile
        item.hits = 0
        if has_left or self._fills_main():
            self._main[key] = slots
            self._main_bytes += item.charge_bytes
        else:
            self._small[key] = slots
        slots.items[slot] = item
        self.used_bytes += item.charge_bytes

    def _fills_main(self) -> bool:
        """Whether the small queue is full, and nothing has left yet."""
        small_bytes = self.used_bytes - self._main_bytes
        return not self._has_evicted and small_bytes >= self._capacity_for_blocks() // SMALL_DIVISOR

    def _capacity_for_blocks(self) -> int:
        return self.capacity_bytes - int(self.entries.used_bytes)

    def _make_room(self, size_bytes: int) -> None:
        """Evict items until one of this size fits, or none is left."""
        small, main = self._small, self._main
        capacity_bytes = self._capacity_for_blocks()
        while (small or main) and self.used_bytes + size_bytes > capacity_bytes:
            self._has_evicted = True
            small_bytes = capacity_bytes // SMALL_DIVISOR
            if not small or self._main_bytes > capacity_bytes - small_bytes:
                self._evict_from_main()
            else:
                self._evict_from_small()

    # An interrupt may come after each call, so queue, slot and bytes change between two calls.

    def _evict_from_small(self) -> None:
        """Evict the oldest item of the small queue that may not stay."""
        small, main, left = self._small, self._main, self._left
        while small:
            key = next(iter(small))
            owner = small[key]
            oldest = owner.items[key - owner.first_key]
            assert oldest is not None  # every key in a queue has an item
            charge_bytes = oldest.charge_bytes
            if oldest.hits >= _HITS_TO_STAY:
                oldest.hits = 0
                main[key] = owner
                self._main_bytes += charge_bytes
                del small[key]
                continue
            self._drop(owner, key - owner.first_key)
            self._stats.block_cache_evictions += 1
            capacity_bytes = self._capacity_for_blocks()
            most_bytes = capacity_bytes - capacity_bytes // SMALL_DIVISOR
            while left and self._left_bytes + charge_bytes > most_bytes:
                self._forget(next(iter(left)))
            left[key] = charge_bytes
            self._left_bytes += charge_bytes
            return

    def _evict_from_main(self) -> None:
        """Evict the oldest item of the main queue without more rounds."""
        main = self._main
        while True:
            key = next(iter(main))
            owner = main[key]
            oldest = owner.items[key - owner.first_key]
            assert oldest is not None
            if oldest.hits == 0:
                break
            oldest.hits -= 1
            main.move_to_end(key)
        self._drop(owner, key - owner.first_key)
        self._stats.block_cache_evictions += 1

    def _forget(self, key: int) -> None:
        self._left_bytes -= self._left[key]
        del self._left[key]

    # Entries

    def _step(self) -> float:
        """How much of the memory one step moves."""
        return max(_STEP, _STEP_BYTES / max(self.capacity_bytes, _STEP_BYTES))

    def _set_entry_share(self, share: float) -> None:
        """Set the share of the memory that entries may take."""
        self._entry_share = min(max(share, _LEAST_SHARE), _MOST_SHARE)
        wanted = int(self.capacity_bytes * self._entry_share)
        self.entries.target_bytes = max(0, min(wanted, self.capacity_bytes - _LEAST_BLOCK_BYTES))
        self.entries.trim()

    def put_entry(self, key: bytes, h: i64, held: bytes | Expiring, epoch: i64) -> None:
        """Keep an entry that a lookup read from disk; not from an older ``epoch``.  O(1) amortised."""
        entries = self.entries
        if entries.epoch != epoch or not entries.target_bytes:
            return
        with self.lock:
            if entries.epoch != epoch or self._is_changing:
                return
            try:
                self._is_changing = True
                self._set_entry_share(self._entry_share)  # tables may have reserved memory
                if entries.put(key, h, held):
                    share = self._entry_share
                    self._set_entry_share(share + self._step() * max(1.0, (1 - share) / share))
                self._make_room(0)
            finally:
                self._is_changing = False

    def forget_entries(self, keys: list[bytes]) -> None:
        with self.lock:
            try:
                self._is_changing = True
                for key in keys:
                    self.entries.forget(key, hash_key(key))
            finally:
                self._is_changing = False

    def next_epoch(self, *, keep: bool) -> i64:
        """Begin another epoch of entries, which it returns; without ``keep`` the present ones go."""
        with self.lock:
            self.entries.epoch += 1
            if not keep:
                self.entries.clear()
            return self.entries.epoch

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
                    self._set_entry_share(self._entry_share)
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
            key: int = slots.first_key + slot
            is_in_main = key in self._main
            slots.items[slot] = None
            self.used_bytes -= item.charge_bytes
            if is_in_main:
                self._main_bytes -= item.charge_bytes
                del self._main[key]
            else:
                del self._small[key]

    def __len__(self) -> int:
        return len(self._small) + len(self._main)


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
