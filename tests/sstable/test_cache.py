"""The block cache: its budget, its evictions, and use by many threads."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.sstable.block_cache import BlockCache, CacheItem
from lsmkv.stats import Stats
from time_limits import join

actions = st.lists(
    st.tuples(st.sampled_from(["put", "get", "clear"]), st.integers(0, 12), st.integers(0, 50)),
    max_size=60,
)


class Model:
    """What a cache with second chances holds: sizes of slots, and whether each was visited."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.held: dict[int, tuple[int, bool]] = {}  # oldest first
        self.evictions = 0

    def used_bytes(self) -> int:
        return sum(size for size, _ in self.held.values())

    def put(self, key: int, size: int) -> None:
        if size > self.capacity_bytes:
            return
        self.held.pop(key, None)
        while self.held and self.used_bytes() + size > self.capacity_bytes:
            oldest = next(iter(self.held))
            old_size, was_visited = self.held.pop(oldest)
            if was_visited:
                self.held[oldest] = old_size, False
            else:
                self.evictions += 1
        self.held[key] = size, False

    def get(self, key: int) -> bool:
        if key in self.held:
            self.held[key] = self.held[key][0], True
        return key in self.held


@given(st.integers(0, 100), actions)
@example(30, [("put", 0, 10), ("get", 0, 0), *(("put", key, 10) for key in range(1, 6))])
@example(50, [*(("put", key, 10) for key in range(5)), ("put", 5, 35)])
@example(100, [("put", 1, 60), ("put", 2, 101), ("put", 1, 100)])
def test_a_cache_evicts_the_oldest_that_was_not_visited_and_keeps_its_budget(
    capacity_bytes: int, done: list[tuple[str, int, int]]
) -> None:
    stats, model = Stats(), Model(capacity_bytes)
    cache = BlockCache(capacity_bytes, stats)
    slot_sets = [cache.slots(3) for _ in range(5)]
    present: dict[int, CacheItem] = {}
    hits = misses = 0
    for action, key, size in done:
        slots, place = slot_sets[key // 3], key % 3
        if action == "put":
            item = CacheItem(size)
            cache.put(slots, place, item)
            if not slots.closed:
                model.put(key, size)
                present[key] = item if size <= capacity_bytes else present.get(key, item)
        elif action == "get":
            is_hit = model.get(key)
            hits, misses = hits + is_hit, misses + (not is_hit)
            assert cache.get(slots, place) is (present[key] if is_hit else None)
        else:
            cache.clear(slots)
            for each in range(key - place, key - place + 3):
                model.held.pop(each, None)
        # To ask whether something is there is neither counted nor a visit.
        held = {each for each in range(15) if slot_sets[each // 3].holds(each % 3)}
        assert held == model.held.keys()
        assert (len(cache), cache.used_bytes) == (len(held), model.used_bytes())
    assert (stats.block_cache_hits, stats.block_cache_misses) == (hits, misses)
    assert stats.block_cache_evictions == model.evictions


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
