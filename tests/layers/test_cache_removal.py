"""What a cache removes by itself: expired entries, the oldest, and by tag."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from caches import Clock, cache, clock
from lsmkv.cache import Cache
from lsmkv.cache.book import Book
from lsmkv.typed import pack

__all__ = ["cache", "clock"]  # fixtures


# Expiry


def test_writes_remove_what_is_expired(path: str, clock: Clock) -> None:
    with Cache(path, cull_limit=3) as cache:
        for number in range(10):
            cache.set(number, number, expire=number + 1)
        clock.now += 8
        cache["key"] = 1
        assert len(cache) == 11 - 3
        cache["key"] = 1
        cache["key"] = 1
        assert list(cache) == ["key", 8, 9]
        assert cache.check() == []


def test_expire_removes_all_that_is_expired(path: str, clock: Clock) -> None:
    with Cache(path, cull_limit=0) as cache:
        for number in range(2500):
            cache.set(number, number, expire=1)
        cache["kept"] = 1
        assert cache.expire() == 0
        assert cache.expire(clock.now + 1) == 2500
        assert list(cache) == ["kept"]
        assert cache.check() == []


def test_an_entry_that_expires_before_those_already_removed_is_found(
    path: str, clock: Clock
) -> None:
    with Cache(path, cull_limit=0) as cache:
        cache.set("late", 1, expire=100)
        clock.now += 200
        assert cache.expire() == 1
        cache.set("early", 1, expire=-150)
        assert cache.expire() == 1


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
        with pytest.raises(ValueError, match=r"expire is an int of \d+ bits, more than a float"):
            use()
    with pytest.raises(ValueError, match=r"now is an int of \d+ bits, more than a float"):
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


def test_the_volume_follows_what_is_there(cache: Cache) -> None:
    cache["key"] = b"v" * 1000
    assert 1000 < cache.volume() < 1020
    cache["key"] = b""
    assert 0 < cache.volume() < 20
    del cache["key"]
    assert cache.volume() == 0


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


# Interrupts


def interrupted_after(commit: Callable[[Any], None]) -> Callable[[Any], None]:
    def interrupted(operations: Any) -> None:
        commit(operations)
        raise KeyboardInterrupt

    return interrupted


def test_counts_are_right_after_an_interrupt_that_came_once_the_commit_was_done(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt), cache.transact():
        cache.set("a", 1)
        cache.set("b", 2)
        monkeypatch.setattr(cache._book, "_commit", interrupted_after(cache._book._commit))
    monkeypatch.undo()
    assert (len(cache), cache.check()) == (2, [])
    assert (cache.clear(), len(cache)) == (2, 0)


def test_counts_are_right_at_the_write_after_an_interrupted_one(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.set("old", 1)
    assert cache.expire() == 0
    monkeypatch.setattr(cache._book, "_commit", interrupted_after(cache._book._commit))
    with pytest.raises(KeyboardInterrupt):
        cache.set("key", 1, expire=10)
    with pytest.raises(KeyboardInterrupt):
        cache.delete("old")
    monkeypatch.undo()
    cache.set("other", 1)
    assert (len(cache), cache.check()) == (2, [])
    assert cache.expire(1e13) == 1


def test_each_batch_of_an_eviction_by_tag_begins_where_the_one_before_ended(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[bytes] = []
    listed = Book._listed

    def noted(book: Book, prefix: bytes, start: bytes, stop: bytes | None = None) -> Any:
        starts.append(start)
        return listed(book, prefix, start, stop)

    with Cache(path, cull_limit=0) as cache:
        with cache.transact():
            for number in range(2500):
                cache.set(number, number, tag="t")
            cache.set(2500, 2500, tag="other")
        monkeypatch.setattr(Book, "_listed", noted)
        assert cache.evict("t") == 2500
        assert [start[-len(pack((999,))) :] for start in starts[1:]] == [
            pack((999,)),
            pack((1999,)),
            pack((2499,)),
        ]
        assert (list(cache), cache.check()) == ([2500], [])
