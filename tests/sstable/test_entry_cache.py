"""The entry cache by itself: what it gives, its budget, and what it evicts."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from interruptions import at_each_place
from lsmkv.encoding.entries import Absent
from lsmkv.encoding.expiry import Expiring, Held
from lsmkv.filters.hashing import hash_key
from lsmkv.sstable.block_cache import BlockCache, CacheItem
from lsmkv.sstable.entry_cache import SLOT_BYTES, EntryCache
from lsmkv.stats import Stats


def of_size(target_bytes: int) -> EntryCache:
    cache = EntryCache()
    cache.target_bytes = target_bytes
    return cache


def found(cache: EntryCache, key: bytes, h: int | None = None) -> Held | Absent:
    return cache.get(key, hash_key(key) if h is None else h)


def put(cache: EntryCache, key: bytes, value: bytes = b"v" * 100) -> bool:
    return cache.put(key, hash_key(key), value)


names = st.sampled_from([b"", b"a", b"ab", b"abc", b"b" * 30, b"c" * 300])
actions = st.lists(
    st.tuples(st.sampled_from(["put", "get", "forget", "clear"]), names, st.binary(max_size=300))
)


@given(st.integers(0, 6000), actions, st.integers(0, 2))
def test_it_gives_what_was_put_and_keeps_its_budget(
    target_bytes: int, done: list[tuple[str, bytes, bytes]], hash_count: int
) -> None:
    cache, put_last = of_size(target_bytes), dict[bytes, Held]()

    def hashed(key: bytes) -> int:  # many keys of one hash; 0 is a hash, too
        return hash_key(key) % hash_count if hash_count else hash_key(key)

    for action, key, value in done:
        if action == "put":
            if isinstance(cache.get(key, hashed(key)), Absent):
                held = value if len(value) % 2 else Expiring(value, len(value) << 30)
                cache.put(key, hashed(key), held)
                put_last[key] = held
        elif action == "forget":
            cache.forget(key, hashed(key))
            put_last.pop(key, None)
        elif action == "clear":
            cache.clear()
            put_last.clear()
        present = 0
        for name in [b"", b"a", b"ab", b"abc", b"b" * 30, b"c" * 300]:
            is_here = cache.holds(name, hashed(name))
            held_now = cache.get(name, hashed(name))
            assert isinstance(held_now, Absent) is not is_here
            if not isinstance(held_now, Absent):
                expected = put_last[name]
                if isinstance(expected, Expiring):
                    assert isinstance(held_now, Expiring)
                    assert held_now.value == expected.value
                    assert held_now.expires_at_s == expected.expires_at_s
                else:
                    assert held_now == expected
                present += 1
        assert len(cache) == present
        assert 0 <= cache.used_bytes <= target_bytes
        assert (cache.used_bytes == 0) is (present == 0)


def test_entries_that_are_found_stay_while_others_pass() -> None:
    cache = of_size(64 * 1024)
    hot = [b"hot %d" % number for number in range(50)]
    for key in hot:
        put(cache, key)
    for number in range(5_000):
        put(cache, b"%08d" % number)
        found(cache, hot[number % len(hot)])
    assert all(cache.holds(key, hash_key(key)) for key in hot)


def test_an_entry_that_comes_again_soon_was_evicted_lately_and_one_that_comes_late_was_not() -> (
    None
):
    cache = of_size(64 * 1024)
    for number in range(1_000):
        put(cache, b"%08d" % number)
    evicted = [
        b"%08d" % number
        for number in range(1_000)
        if not cache.holds(b"%08d" % number, hash_key(b"%08d" % number))
    ]
    assert put(cache, evicted[-1])
    assert [put(cache, key) for key in evicted[:100]].count(True) == 0


def test_a_key_is_told_from_one_that_begins_with_it_and_has_its_hash() -> None:
    cache = of_size(64 * 1024)
    cache.put(b"a", 7, b"bc")
    assert isinstance(cache.get(b"ab", 7), Absent)
    assert isinstance(cache.get(b"abc", 7), Absent)


def test_its_memory_is_what_python_counts() -> None:
    cache = of_size(1 << 22)
    for number in range(10_000):
        put(cache, b"%016d" % number)
    slots = cache._slots
    arrays = 10 * len(slots.records) + 4 * 4 * len(slots.records) + 20 * len(slots.heads)
    objects = sum((record.__sizeof__() + 15) // 16 * 16 for record in slots.records if record)
    assert 0.9 < int(cache.used_bytes) / (objects + arrays) < 1.3
    assert cache.used_bytes == (160 + SLOT_BYTES) * len(cache)


def test_blocks_and_entries_share_one_budget_and_the_one_that_is_missed_gets_more() -> None:
    cache, chances = BlockCache(1 << 20, Stats()), random.Random(1)
    slots = cache.slots(1000)
    epoch = cache.next_epoch(keep=False)

    def ask(block_count: int, key_count: int) -> None:
        for _ in range(10_000):
            if block_count:
                block = chances.randrange(block_count)
                if cache.get(slots, block) is None:
                    cache.put(slots, block, CacheItem(4096))
            if key_count:
                key = b"%016d" % chances.randrange(key_count)
                if isinstance(found(cache.entries, key), Absent):
                    cache.put_entry(key, hash_key(key), b"v" * 100, epoch)
            assert cache.used_bytes + cache.entries.used_bytes <= cache.capacity_bytes

    ask(0, 6_000)
    entries_bytes = cache.entries.used_bytes
    assert int(entries_bytes) > 0.75 * cache.capacity_bytes
    ask(400, 0)
    assert int(cache.entries.used_bytes) < 0.2 * cache.capacity_bytes
    ask(0, 6_000)
    assert int(cache.entries.used_bytes) > 0.75 * cache.capacity_bytes


def test_entries_give_way_when_tables_reserve_memory() -> None:
    cache = BlockCache(1 << 20, Stats(), budget_bytes=1 << 20)
    epoch = cache.next_epoch(keep=False)
    for number in range(10_000):
        cache.put_entry(b"%d" % number, hash_key(b"%d" % number), b"v" * 100, epoch)
    cache.reserve(900_000)
    assert cache.entries.used_bytes <= cache.capacity_bytes == (1 << 20) - 900_000
    cache.reserve(140_000)
    assert cache.entries.used_bytes == 0


def test_an_entry_cache_that_is_interrupted_holds_whole_entries_or_none() -> None:
    cache = BlockCache(36 * 1024, Stats())  # room for some twenty entries
    epoch = cache.next_epoch(keep=False)
    numbers = iter(range(10**6))

    def change() -> None:
        for _ in range(3):
            number = next(numbers)
            key = b"%d" % (number * 7 % 60)
            cache.entries.get(key, hash_key(key))
            cache.put_entry(key, hash_key(key), key * 10, epoch)
            cache.forget_entries([b"%d" % (number % 60)])

    def check() -> None:
        keys = [b"%d" % number for number in range(60)]
        found = {key: cache.entries.get(key, hash_key(key)) for key in keys}
        held = {key: value for key, value in found.items() if not isinstance(value, Absent)}
        assert held == {key: key * 10 for key in held}
        assert len(held) == len(cache.entries)
        objects = [(8 + 11 * len(key) + 33 + 15) // 16 * 16 for key in held]
        assert cache.entries.used_bytes == sum(objects) + SLOT_BYTES * len(held)
        assert cache.entries.used_bytes <= cache.entries.target_bytes

    for _ in range(40):
        change()
    assert at_each_place(change, check)
