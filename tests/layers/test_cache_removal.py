"""What a cache removes by itself: expired entries, the oldest, and by tag."""

from __future__ import annotations

import math
from typing import Any

import pytest

from caches import Clock, check
from lsmkv.cache import Cache
from lsmkv.cache.entries import SPAN_S


def test_an_entry_goes_at_its_exact_time_and_the_store_never_drops_it_before(
    cache: Cache, clock: Clock
) -> None:
    cache.set("key", 1, expire=0.5, tag="t")
    cache.set("whole", 1, expire=1)
    cache.db.flush()
    clock.now += 0.375
    assert cache.get("key", expire_time=True) == (1, clock.now + 0.125)
    assert cache.touch("key", 1.5)
    clock.now += 0.5
    assert ("key" in cache, "whole" in cache) == (True, True)
    clock.now += 0.125
    assert ("key" in cache, "whole" in cache) == (True, False)
    clock.now += 0.875
    assert (cache.get("key"), cache.add("key", 2)) == (None, True)


def test_the_store_drops_what_is_expired_and_nothing_is_left(path: str, clock: Clock) -> None:
    with Cache(path) as cache:
        for number in range(100):
            cache.set(number, b"v" * 100, expire=number % 10 + 0.5, tag="t")
        cache.set("kept", 1)
        clock.now += 11
        assert len(cache) == 1
        clock.now += SPAN_S
        cache.db.compact_range(force=True)
        assert cache.db.approximate_count() == 4  # the entry, its place and size, and the format
        assert cache.volume() < 100


def test_expire_removes_what_the_store_still_has(path: str, clock: Clock) -> None:
    with Cache(path) as cache:
        for number in range(2500):
            cache.set(number, number, expire=1.5)
        cache["kept"] = 1
        assert cache.expire() == 0
        clock.now += 1.75
        assert (len(cache), cache.expire(), list(cache)) == (2501, 2500, ["kept"])
        cache.set("later", 1, expire=9)
        assert (cache.expire(clock.now + 9), list(cache)) == (1, ["kept"])


def test_what_expires_makes_room_within_the_limit(path: str, clock: Clock) -> None:
    with Cache(path, size_limit_bytes=10_000) as cache:
        cache["oldest"] = b"v" * 1000
        for number in range(100):
            cache.set(number, b"v" * 2000, expire=10)
            clock.now += SPAN_S
        assert "oldest" in cache


@pytest.mark.parametrize("expire", ["5", math.nan, 10**400, -(10**400)])
def test_an_expiry_is_a_number(cache: Cache, expire: Any) -> None:
    told = r"expire=.*: give seconds from now as a number"
    with pytest.raises(TypeError, match=told):
        cache.set("key", 1, expire)
    with pytest.raises(TypeError, match=told):
        cache.touch("key", expire)
    assert list(cache) == []


def test_the_oldest_entries_are_evicted_over_the_limit(path: str) -> None:
    with Cache(path, size_limit_bytes=10_000) as cache:
        for number in range(30):
            cache[number] = b"v" * 1000
            assert cache.volume() <= 10_000
        assert list(cache) == list(range(21, 30))
        check(cache)


def test_a_transaction_evicts_too(path: str) -> None:
    with Cache(path, size_limit_bytes=10_000) as cache:
        with cache.transact():
            for number in range(30):
                cache[number] = b"v" * 1000
        assert len(cache) == 9
        check(cache)


def test_storing_an_entry_again_makes_it_the_youngest(path: str) -> None:
    with Cache(path, size_limit_bytes=3500) as cache:
        for key in ("a", "b", "c", "a", "d"):
            cache[key] = b"v" * 1000
        assert list(cache) == ["a", "c", "d"]


def test_the_order_of_storing_outlives_the_process(path: str) -> None:
    for key in ("b", "a", "c"):
        with Cache(path) as cache:
            cache[key] = b"v" * 1000
    with Cache(path, size_limit_bytes=2500) as cache:
        assert (cache.cull(), list(cache)) == (1, ["a", "c"])


def test_one_write_evicts_no_more_than_its_limit(path: str) -> None:
    with Cache(path, cull_limit=2) as cache:
        for number in range(10):
            cache[number] = b"v" * 1000
        cache.size_limit_bytes = 0
        cache[10] = 1
        assert (len(cache), cache.cull(), len(cache)) == (9, 9, 0)


def test_without_a_policy_nothing_is_evicted(path: str) -> None:
    with Cache(path, size_limit_bytes=1000, eviction_policy="none") as cache:
        for number in range(10):
            cache[number] = b"v" * 1000
        assert (len(cache), cache.cull()) == (10, 0)


def test_cull_removes_expired_entries_first(path: str, clock: Clock) -> None:
    with Cache(path, cull_limit=0) as cache:
        cache["oldest"] = b"v" * 1000
        for number in range(10):
            cache.set(number, b"v" * 1000, expire=0.25)
        clock.now += 0.5
        cache.size_limit_bytes = 2000
        assert cache.cull() == 10
        assert list(cache) == ["oldest"]


def test_evict_removes_what_has_the_tag(cache: Cache) -> None:
    for number in range(2500):
        cache.set(number, number, tag="odd" if number % 2 else "even")
    cache.set("untagged", 1)
    cache.set("longer", 1, tag="even longer")
    assert cache.evict("even") == 1250
    assert len(cache) == 1252
    assert (cache.evict("even"), "longer" in cache, "untagged" in cache) == (0, True, True)


def test_a_value_that_is_stored_again_loses_its_tag(cache: Cache) -> None:
    cache.set("key", 1, tag="t")
    cache.set("key", 2)
    assert cache.evict("t") == 0


def test_no_tag_is_no_tag_to_evict(cache: Cache) -> None:
    with pytest.raises(ValueError, match="tag=None"):
        cache.evict(None)


@pytest.mark.parametrize(("tag", "others"), [("a", ["a\0b", "a\0"]), (("a",), [("a", None)])])
def test_evict_removes_no_tag_that_begins_alike(cache: Cache, tag: Any, others: list[Any]) -> None:
    cache.set("mine", 1, tag=tag)
    for number, other in enumerate(others):
        cache.set(f"other {number}", 1, tag=other)
    assert (cache.evict(tag), "mine" in cache, len(cache)) == (1, False, len(others))
