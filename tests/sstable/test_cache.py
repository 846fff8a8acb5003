"""The block cache: its budget, its evictions, and use by many threads."""

from __future__ import annotations

import random
import threading
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.sstable.block_cache import BlockCache, CacheItem
from lsmkv.stats import Stats
from time_limits import join

actions = st.lists(
    st.tuples(st.sampled_from(["put", "get", "clear"]), st.integers(0, 12), st.integers(0, 50)),
    max_size=100,
)


class Model:
    """What a cache of S3-FIFO holds: charges and hits by key, oldest first."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.small: dict[int, list[int]] = {}
        self.main: dict[int, list[int]] = {}
        self.left: dict[int, int] = {}
        self.evictions = 0
        self.has_evicted = False

    @property
    def held(self) -> dict[int, list[int]]:
        return self.small | self.main

    def used_bytes(self) -> int:
        return _charges(self.held)

    def put(self, key: int, charge: int) -> None:
        if charge > self.capacity_bytes:
            return
        self.drop(key)
        small_bytes, has_left = self.capacity_bytes // 10, self.left.pop(key, None) is not None
        while self.held and self.used_bytes() + charge > self.capacity_bytes:
            self.has_evicted = True
            if not self.small or _charges(self.main) > self.capacity_bytes - small_bytes:
                self.evict_from_main()
            else:
                self.evict_from_small(self.capacity_bytes - small_bytes)
        is_filling = not self.has_evicted and _charges(self.small) >= small_bytes
        (self.main if has_left or is_filling else self.small)[key] = [charge, 0]

    def evict_from_small(self, most_left_bytes: int) -> None:
        while self.small:
            oldest = next(iter(self.small))
            charge, hits = self.small.pop(oldest)
            if hits < 2:
                while self.left and sum(self.left.values()) + charge > most_left_bytes:
                    del self.left[next(iter(self.left))]
                self.left[oldest] = charge
                self.evictions += 1
                return
            self.main[oldest] = [charge, 0]

    def evict_from_main(self) -> None:
        while True:
            oldest = next(iter(self.main))
            charge, hits = self.main.pop(oldest)
            if hits == 0:
                self.evictions += 1
                return
            self.main[oldest] = [charge, min(hits, 3) - 1]

    def get(self, key: int) -> bool:
        if key in self.held:
            self.held[key][1] += 1
        return key in self.held

    def drop(self, key: int) -> None:
        self.small.pop(key, None)
        self.main.pop(key, None)


def _charges(queue: dict[int, list[int]]) -> int:
    return sum(charge for charge, _ in queue.values())


@given(st.integers(0, 2000), actions)
@example(500, [("put", 0, 10), ("get", 0, 0), *(("put", key, 10) for key in range(1, 6))])
@example(250, [("put", 1, 60), ("put", 2, 101), ("put", 1, 100)])
def test_a_cache_is_two_queues_and_a_memory_of_keys_and_keeps_its_budget(
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
                model.put(key, item.charge_bytes)
                fits = item.charge_bytes <= capacity_bytes
                present[key] = item if fits else present.get(key, item)
        elif action == "get":
            is_hit = model.get(key)
            hits, misses = hits + is_hit, misses + (not is_hit)
            assert cache.get(slots, place) is (present[key] if is_hit else None)
        else:
            cache.clear(slots)
            for each in range(key - place, key - place + 3):
                model.drop(each)
        # To ask whether something is there is neither counted nor a visit.
        held = {each for each in range(15) if slot_sets[each // 3].holds(each % 3)}
        assert held == model.held.keys()
        assert (len(cache), cache.used_bytes) == (len(held), model.used_bytes())
    assert (stats.block_cache_hits, stats.block_cache_misses) == (hits, misses)
    assert stats.block_cache_evictions == model.evictions


@pytest.mark.parametrize(
    ("capacity_bytes", "hits", "digest"),
    [(20_000, 21_162, "bdeb2140d782f2c6"), (50_000, 25_553, "e23d6a02001311b0")],
)
def test_the_hits_are_those_of_libcachesim(capacity_bytes: int, hits: int, digest: str) -> None:
    # Counted with ``libcachesim.S3FIFO(capacity_bytes)`` of libcachesim 0.3.5, whose licence is another:
    # each request has the key as ``obj_id`` and the item's charge as ``obj_size``.
    chances = random.Random(7)
    cache = BlockCache(capacity_bytes, Stats())
    slots = cache.slots(500)
    found = bytearray()
    for turn in range(30_000):
        key = chances.randrange(400)
        if turn % 3 < 2:
            key = min(399, int(chances.paretovariate(0.7))) + turn // 10_000 * 20
        found.append(cache.get(slots, key) is not None)
        if not found[-1]:
            cache.put(slots, key, CacheItem(10 + key * 37 % 90))
    assert (sum(found), sha256(found).hexdigest()[:16]) == (hits, digest)


@pytest.mark.parametrize("seed", [1, 2])
def test_many_threads_keep_the_budget_and_get_only_what_was_put(seed: int) -> None:
    cache = BlockCache(9000, Stats())
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
            elif found.charge_bytes != CacheItem(10 + key).charge_bytes:
                wrong.append(f"{found!r} at {key}")
            if chances.random() < 0.002:
                slot_sets[key // 20] = cache.slots(20)
                cache.clear(slots)
            if cache.used_bytes > 9000:
                wrong.append(f"{cache.used_bytes} bytes used")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert not wrong
    for slots in slot_sets:
        cache.clear(slots)
    assert (len(cache), cache.used_bytes) == (0, 0)
