"""The block cache: its budget, who goes first, and use by many threads."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.cache import BlockCache, CacheItem
from lsmkv.stats import Stats


def cache_of(capacity_bytes: int) -> BlockCache:
    return BlockCache(capacity_bytes, Stats())


def held(cache: BlockCache, keys: range) -> list[int]:
    return [key for key in keys if cache.peek(key)]


def test_what_was_put_is_found() -> None:
    cache = cache_of(100)
    item = CacheItem(10)
    cache.put(1, item)
    assert cache.get(1) is item


def test_what_was_not_put_is_not_found() -> None:
    assert cache_of(100).get(1) is None


def test_hits_and_misses_are_counted() -> None:
    stats = Stats()
    cache = BlockCache(100, stats)
    cache.put(1, CacheItem(10))
    cache.get(1)
    cache.get(1)
    cache.get(2)
    assert (stats.block_cache_hits, stats.block_cache_misses) == (2, 1)


def test_a_peek_is_neither_counted_nor_a_visit() -> None:
    stats = Stats()
    cache = BlockCache(20, stats)
    cache.put(1, CacheItem(10))
    cache.put(2, CacheItem(10))
    assert cache.peek(1) and not cache.peek(3)
    cache.put(3, CacheItem(10))
    assert held(cache, range(5)) == [2, 3]
    assert (stats.block_cache_hits, stats.block_cache_misses) == (0, 0)


def test_the_oldest_goes_first() -> None:
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
    for key in range(3, 6):  # the first of them uses up the visit, the third comes round to 0 again
        cache.put(key, CacheItem(10))
    assert not cache.peek(0)


def test_when_all_were_visited_the_oldest_goes() -> None:
    cache = cache_of(30)
    for key in range(3):
        cache.put(key, CacheItem(10))
        cache.get(key)
    cache.put(3, CacheItem(10))
    assert held(cache, range(5)) == [1, 2, 3]


def test_as_many_go_as_the_new_item_needs() -> None:
    cache = cache_of(50)
    for key in range(5):
        cache.put(key, CacheItem(10))
    cache.put(5, CacheItem(35))
    assert held(cache, range(6)) == [4, 5]
    assert cache.used_bytes == 45


def test_evictions_are_counted() -> None:
    stats = Stats()
    cache = BlockCache(20, stats)
    for key in range(5):
        cache.put(key, CacheItem(10))
    assert stats.block_cache_evictions == 3


def test_an_item_of_just_the_budget_is_kept() -> None:
    cache = cache_of(100)
    cache.put(1, CacheItem(100))
    assert cache.peek(1)


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


def test_discard_drops_the_keys_of_a_range_and_no_others() -> None:
    cache = cache_of(100)
    for key in range(6):
        cache.put(key, CacheItem(10))
    cache.discard(range(2, 4))
    assert held(cache, range(10)) == [0, 1, 4, 5]
    assert cache.used_bytes == 40


def test_discard_is_no_eviction() -> None:
    stats = Stats()
    cache = BlockCache(100, stats)
    cache.put(1, CacheItem(10))
    cache.discard(range(10))
    assert stats.block_cache_evictions == 0


actions = st.lists(
    st.tuples(st.sampled_from(["put", "get", "discard"]), st.integers(0, 12), st.integers(0, 50)),
    max_size=60,
)


@given(st.integers(0, 100), actions)
def test_the_budget_is_kept_whatever_is_done(
    capacity_bytes: int, done: list[tuple[str, int, int]]
) -> None:
    cache = cache_of(capacity_bytes)
    present: dict[int, CacheItem] = {}
    for action, key, size in done:
        if action == "put":
            item = CacheItem(size)
            cache.put(key, item)
            if size <= capacity_bytes:
                present[key] = item
                assert cache.peek(key)
        elif action == "get":
            found = cache.get(key)
            assert found is None or found is present[key]
        else:
            cache.discard(range(key, key + 2))
            assert not cache.peek(key)
        kept = [present[key] for key in present if cache.peek(key)]
        assert cache.used_bytes == sum(item.charge_bytes for item in kept) <= capacity_bytes
        assert len(cache) == len(kept)


@pytest.mark.parametrize("seed", [1, 2])
def test_many_threads_keep_the_budget_and_get_only_what_was_put(seed: int) -> None:
    cache = cache_of(3000)
    wrong: list[str] = []

    def work(number: int) -> None:
        chances = random.Random(f"{seed} {number}")
        for _ in range(3000):
            key = chances.randrange(100)
            found = cache.get(key)
            if found is None:
                cache.put(key, CacheItem(10 + key))
            elif found.charge_bytes != 10 + key:
                wrong.append(f"{found!r} under {key}")
            if chances.random() < 0.01:
                cache.discard(range(key, key + 3))
            if cache.used_bytes > 3000:
                wrong.append(f"{cache.used_bytes} bytes used")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    cache.discard(range(100))
    assert (len(cache), cache.used_bytes) == (0, 0)
