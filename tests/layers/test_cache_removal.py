"""What a cache removes by itself: expired entries, the oldest, and by tag."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from caches import Clock, cache, clock
from lsmkv.cache import Cache

__all__ = ["cache", "clock"]  # fixtures


# Expiry


def test_an_entry_goes_at_its_exact_time_and_the_store_never_drops_it_before(
    cache: Cache, clock: Clock
) -> None:
    cache.set("key", 1, expire=0.5, tag="t")
    cache.set("whole", 1, expire=1)
    cache.db.flush()
    clock.now += 0.375
    assert (cache.get("key", expire_time=True), cache.touch("key", 1.5)) == (
        (1, clock.now + 0.125),
        True,
    )
    clock.now += 0.5
    assert ("key" in cache, "whole" in cache) == (True, True)
    clock.now += 0.125
    assert ("key" in cache, "whole" in cache) == (True, False)
    clock.now += 0.875
    assert (cache.get("key"), cache.add("key", 2), cache["key"]) == (None, True, 2)


def test_the_store_drops_what_is_expired_and_nothing_is_left(path: str, clock: Clock) -> None:
    with Cache(path) as cache:
        for number in range(100):
            cache.set(number, b"v" * 100, expire=number % 10 + 0.5, tag="t")
        cache.set("kept", 1)
        clock.now += 11
        cache.db.compact_range(force=True)
        assert cache.db.approximate_count() == 3  # the entry, its place and the format
        clock.now += 16
        assert (len(cache), cache.volume() < 20, cache.check()) == (1, True, [])


def test_expire_counts_what_expired_at_once(path: str, clock: Clock) -> None:
    with Cache(path) as cache:
        for number in range(2500):
            cache.set(number, number, expire=1.5)
        cache["kept"] = 1
        assert cache.expire() == 0
        clock.now += 1.75  # the store shows them still
        assert (len(cache), cache.expire(), list(cache)) == (2501, 2500, ["kept"])
        cache.set("soon", 1, expire=5)
        clock.now += 5  # the store shows it no more
        assert (cache.expire(), len(cache)) == (1, 1)
        cache.set("later", 1, expire=9)
        assert (cache.expire(clock.now + 9), list(cache), cache.check()) == (1, ["kept"], [])


def test_a_key_that_expired_and_is_set_again_counts_once(cache: Cache, clock: Clock) -> None:
    for _ in range(100):
        cache.set("key", 1, expire=1)
        clock.now += 2
    assert len(cache) <= 9  # those of the last 16 seconds
    clock.now += 16
    assert (len(cache), cache.volume()) == (0, 0)


@pytest.mark.parametrize("expire", ["5", True])
def test_an_expiry_is_a_number(cache: Cache, expire: Any) -> None:
    with pytest.raises(TypeError, match="give seconds from now, or None for never"):
        cache.set("key", 1, expire=expire)
    with pytest.raises(ValueError, match="expire=nan"):
        cache.set("key", 1, expire=math.nan)


@pytest.mark.parametrize(("sign", "digits"), [(1, 400), (-1, 400), (1, 5000)])
def test_an_expiry_that_no_float_can_hold_is_named(cache: Cache, sign: int, digits: int) -> None:
    expire = sign * 10**digits
    uses: list[Callable[[], object]] = [
        lambda: cache.set("key", 1, expire=expire),
        lambda: cache.add("key", 1, expire=expire),
        lambda: cache.touch("key", expire),
        lambda: cache.memoize(expire=expire)(abs)(-1),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="expire is more than a float"):
            use()
    with pytest.raises(ValueError, match="now is more than a float"):
        cache.expire(expire)
    assert list(cache) == []


def test_the_moment_of_expire_is_a_number(cache: Cache) -> None:
    with pytest.raises(ValueError, match="now=nan: give seconds since the epoch"):
        cache.expire(math.nan)
    with pytest.raises(TypeError, match="now='5': give seconds since the epoch"):
        cache.expire("5")  # type: ignore[arg-type]


def test_an_infinite_expiry_is_never(cache: Cache) -> None:
    cache.set("key", 1, expire=math.inf)
    assert cache.get("key", expire_time=True) == (1, None)
    assert cache.expire(1e300) == 0


# Size


def test_the_oldest_entries_are_evicted_over_the_limit(path: str) -> None:
    with Cache(path, size_limit_bytes=10_000) as cache:
        for number in range(30):
            cache[number] = b"v" * 1000
        assert cache.volume() <= 10_000
        assert list(cache) == list(range(30 - len(cache), 30))
        assert len(cache) == 9
        assert cache.check() == []


def test_storing_an_entry_again_makes_it_the_youngest(path: str) -> None:
    with Cache(path, size_limit_bytes=3500) as cache:
        for key in ("a", "b", "c", "a", "d"):
            cache[key] = b"v" * 1000
        assert list(cache) == ["a", "c", "d"]


def test_without_a_policy_nothing_is_evicted(path: str) -> None:
    with Cache(path, size_limit_bytes=1000, eviction_policy="none") as cache:
        for number in range(10):
            cache[number] = b"v" * 1000
        assert (len(cache), cache.cull()) == (10, 0)


def test_cull_removes_expired_entries_first(path: str, clock: Clock) -> None:
    with Cache(path, cull_limit=0) as cache:
        cache["oldest"] = b"v" * 1000
        for number in range(10):
            cache.set(number, b"v" * 1000, expire=1)
        clock.now += 2
        cache.size_limit_bytes = 2000
        assert cache.cull() == 10
        assert list(cache) == ["oldest"]


@pytest.mark.parametrize("name", ["size_limit_bytes", "cull_limit"])
def test_limits_are_checked_whenever_they_are_set(cache: Cache, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}=1.5: must be an int"):
        setattr(cache, name, 1.5)
    with pytest.raises(ValueError, match=f"{name}=-1: must be 0 or more"):
        setattr(cache, name, -1)


def test_other_policies_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="choose 'least-recently-stored' or 'none'"):
        Cache(path, eviction_policy="least-recently-used")  # type: ignore[arg-type]
    assert not Path(path).exists()


# Tags


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
