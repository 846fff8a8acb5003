"""The block cache: its budget, its evictions, and use by many threads."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.sstable.block_cache import BlockCache, CacheItem
from lsmkv.stats import Stats
from time_limits import join


class OneShelf:
    """A cache with the 100 slots of one table."""

    def __init__(self, capacity_bytes: int, stats: Stats) -> None:
        self.cache = BlockCache(capacity_bytes, stats)
        self.slots = self.cache.slots(100)

    def put(self, place: int, item: CacheItem) -> None:
        self.cache.put(self.slots, place, item)

    def get(self, place: int) -> CacheItem | None:
        return self.cache.get(self.slots, place)

    def holds(self, place: int) -> bool:
        return self.slots.holds(place)

    @property
    def used_bytes(self) -> int:
        return self.cache.used_bytes

    def __len__(self) -> int:
        return len(self.cache)


def cache_of(capacity_bytes: int) -> OneShelf:
    return OneShelf(capacity_bytes, Stats())


def held(cache: OneShelf, places: range) -> list[int]:
    return [place for place in places if cache.holds(place)]


def test_put_items_are_found() -> None:
    cache = cache_of(100)
    item = CacheItem(10)
    cache.put(1, item)
    assert cache.get(1) is item


def test_other_items_are_not_found() -> None:
    assert cache_of(100).get(1) is None


def test_hits_and_misses_are_counted() -> None:
    stats = Stats()
    cache = OneShelf(100, stats)
    cache.put(1, CacheItem(10))
    cache.get(1)
    cache.get(1)
    cache.get(2)
    assert (stats.block_cache_hits, stats.block_cache_misses) == (2, 1)


def test_peeking_is_neither_counted_nor_a_visit() -> None:
    stats = Stats()
    cache = OneShelf(20, stats)
    cache.put(1, CacheItem(10))
    cache.put(2, CacheItem(10))
    assert cache.holds(1) and not cache.holds(3)
    cache.put(3, CacheItem(10))
    assert held(cache, range(5)) == [2, 3]
    assert (stats.block_cache_hits, stats.block_cache_misses) == (0, 0)


def test_the_oldest_item_is_evicted_first() -> None:
    cache = cache_of(30)
    for key in range(4):
        cache.put(key, CacheItem(10))
    assert held(cache, range(5)) == [1, 2, 3]


def test_a_visited_item_gets_one_more_round() -> None:
    cache = cache_of(30)
    for key in range(3):
        cache.put(key, CacheItem(10))
    cache.get(0)
    cache.put(3, CacheItem(10))
    assert held(cache, range(5)) == [0, 2, 3]


def test_a_second_chance_is_not_a_third() -> None:
    cache = cache_of(30)
    for key in range(3):
        cache.put(key, CacheItem(10))
    cache.get(0)
    for key in range(3, 6):  # the first insertion uses up the visit, the third evicts 0
        cache.put(key, CacheItem(10))
    assert not cache.holds(0)


def test_if_all_were_visited_the_oldest_is_evicted() -> None:
    cache = cache_of(30)
    for key in range(3):
        cache.put(key, CacheItem(10))
        cache.get(key)
    cache.put(3, CacheItem(10))
    assert held(cache, range(5)) == [1, 2, 3]


def test_only_as_many_items_are_evicted_as_needed() -> None:
    cache = cache_of(50)
    for key in range(5):
        cache.put(key, CacheItem(10))
    cache.put(5, CacheItem(35))
    assert held(cache, range(6)) == [4, 5]
    assert cache.used_bytes == 45


def test_evictions_are_counted() -> None:
    stats = Stats()
    cache = OneShelf(20, stats)
    for key in range(5):
        cache.put(key, CacheItem(10))
    assert stats.block_cache_evictions == 3


def test_an_item_of_just_the_budget_is_kept() -> None:
    cache = cache_of(100)
    cache.put(1, CacheItem(100))
    assert cache.holds(1)


def test_an_item_over_the_budget_is_not_kept_and_drives_nothing_out() -> None:
    cache = cache_of(100)
    cache.put(1, CacheItem(60))
    cache.put(2, CacheItem(101))
    assert held(cache, range(3)) == [1]


def test_a_cache_of_no_bytes_keeps_nothing() -> None:
    cache = cache_of(0)
    cache.put(1, CacheItem(1))
    assert len(cache) == 0


def test_a_new_item_under_a_key_takes_the_place_of_the_old() -> None:
    cache = cache_of(100)
    cache.put(1, CacheItem(60))
    newer = CacheItem(70)
    cache.put(1, newer)
    assert cache.get(1) is newer
    assert (len(cache), cache.used_bytes) == (1, 70)


def test_clear_empties_the_slots_of_one_table_alone() -> None:
    cache = BlockCache(100, Stats())
    left, right = cache.slots(3), cache.slots(3)
    for place in range(3):
        cache.put(left, place, CacheItem(10))
        cache.put(right, place, CacheItem(10))
    cache.clear(left)
    assert left.items == [None] * 3
    assert all(right.holds(place) for place in range(3))
    assert (len(cache), cache.used_bytes) == (3, 30)


def test_clear_is_no_eviction() -> None:
    stats = Stats()
    cache = OneShelf(100, stats)
    cache.put(1, CacheItem(10))
    cache.cache.clear(cache.slots)
    assert stats.block_cache_evictions == 0


def test_cleared_slots_take_nothing_more() -> None:
    cache = cache_of(100)
    cache.cache.clear(cache.slots)
    cache.put(1, CacheItem(10))
    assert not cache.holds(1)
    assert (len(cache), cache.used_bytes) == (0, 0)


def test_tables_share_the_budget() -> None:
    cache = BlockCache(20, Stats())
    left, right = cache.slots(2), cache.slots(2)
    for slots, place in ((left, 1), (right, 1), (right, 0)):
        cache.put(slots, place, CacheItem(10))
    assert left.items == [None, None]
    assert right.holds(0) and right.holds(1)


actions = st.lists(
    st.tuples(st.sampled_from(["put", "get", "clear"]), st.integers(0, 12), st.integers(0, 50)),
    max_size=60,
)


@given(st.integers(0, 100), actions)
def test_the_budget_is_kept_whatever_is_done(
    capacity_bytes: int, done: list[tuple[str, int, int]]
) -> None:
    cache = BlockCache(capacity_bytes, Stats())
    slot_sets = [cache.slots(3) for _ in range(5)]
    present: dict[int, CacheItem] = {}
    for action, key, size in done:
        slots, place = slot_sets[key // 3], key % 3
        if action == "put":
            item = CacheItem(size)
            cache.put(slots, place, item)
            if size <= capacity_bytes and not slots.closed:
                present[key] = item
                assert slots.holds(place)
        elif action == "get":
            found = cache.get(slots, place)
            assert found is None or found is present[key]
        else:
            cache.clear(slots)
            assert not slots.holds(place)
        kept = [present[key] for key in present if slot_sets[key // 3].holds(key % 3)]
        assert cache.used_bytes == sum(item.charge_bytes for item in kept) <= capacity_bytes
        assert len(cache) == len(kept)


@pytest.mark.parametrize("seed", [1, 2])
def test_many_threads_keep_the_budget_and_get_only_what_was_put(seed: int) -> None:
    cache = BlockCache(3000, Stats())
    slot_sets = [cache.slots(20) for _ in range(5)]
    wrong: list[str] = []

    def work(number: int) -> None:
        chances = random.Random(f"{seed} {number}")
        for _ in range(3000):
            key = chances.randrange(100)
            slots, place = slot_sets[key // 20], key % 20
            found = cache.get(slots, place)
            if found is None:
                cache.put(slots, place, CacheItem(10 + key))
            elif found.charge_bytes != 10 + key:
                wrong.append(f"{found!r} at {key}")
            if chances.random() < 0.002:
                slot_sets[key // 20] = cache.slots(20)
                cache.clear(slots)
            if cache.used_bytes > 3000:
                wrong.append(f"{cache.used_bytes} bytes used")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert not wrong
    for slots in slot_sets:
        cache.clear(slots)
    assert (len(cache), cache.used_bytes) == (0, 0)
