"""Reading and writing a cache, keys and values, and its opening and closing."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import BytesIO
from typing import Any

import pytest

import lsmkv
from caches import Clock, check
from lsmkv.cache import Cache
from lsmkv.cache.entries import Sizes
from lsmkv.typed import DecodeError, Json
from threaded_stores import run_all


def test_a_missing_key_is_none_a_default_or_an_error(cache: Cache) -> None:
    assert (cache.get("key"), cache.get("key", 7), "key" in cache) == (None, 7, False)
    assert (cache.delete("key"), cache.touch("key")) == (False, False)
    for use in (cache.__getitem__, cache.__delitem__, lambda key: cache.incr(key, default=None)):
        with pytest.raises(KeyError, match="key"):
            use("key")


def test_details_come_with_a_value_on_request(cache: Cache, clock: Clock) -> None:
    cache.set("key", b"value", expire=5, tag="data")
    assert cache.get("key", read=True).read() == b"value"
    assert cache.pop("key", expire_time=True, tag=True) == (b"value", clock.now + 5, "data")
    assert cache.pop("key", 0, expire_time=True, tag=True) == (0, None, None)


def test_a_detail_that_there_is_not_is_named_before_anything_changes(cache: Cache) -> None:
    key = cache.push(1)
    for use in (cache.get, cache.pop, cache.pull):
        with pytest.raises(TypeError, match="unexpected arguments: expires"):
            use(key, expires=True)
    assert list(cache) == [key]


def test_a_value_may_be_read_from_a_file(cache: Cache) -> None:
    assert cache.set("key", BytesIO(b"value"), read=True)
    assert not cache.add("key", BytesIO(b"other"), read=True)
    assert cache["key"] == b"value"


def test_incr_takes_no_other_values(cache: Cache) -> None:
    for value in ("1", None, True, [1]):
        cache["key"] = value
        with pytest.raises(TypeError, match="not a number"):
            cache.incr("key")


def test_incr_keeps_expiry_and_tag(cache: Cache, clock: Clock) -> None:
    cache.set("key", 1, expire=10, tag="t")
    assert cache.incr("key", 2) == 3
    assert cache.get("key", expire_time=True, tag=True) == (3, clock.now + 10, "t")


def test_threads_that_count_lose_nothing(cache: Cache) -> None:
    run_all(*[lambda: [cache.incr("key") for _ in range(100)]] * 8)
    assert cache["key"] == 800


def test_hits_and_misses_are_counted_on_request(cache: Cache) -> None:
    cache["a"] = 1
    cache.get("a")
    assert cache.stats() == (0, 0)
    cache.get("a"), cache["a"], cache.get("b"), "a" in cache
    assert cache.stats(enable=False, reset=True) == (2, 1)
    assert (cache["a"], cache.stats()) == (1, (0, 0))


def test_keys_of_all_kinds_are_told_apart_and_come_in_order(cache: Cache) -> None:
    keys = [None, b"a", "a", (), ("a",), ("a", 1), ("ab",), ("b", "a"), -1, 0, 1, 1.0, False, True]
    for number, key in enumerate(reversed(keys)):
        cache[key] = number
    assert list(map(repr, cache)) == list(map(repr, keys))
    assert list(reversed(cache)) == keys[::-1]
    assert [cache[key] for key in keys] == list(range(len(keys)))[::-1]


@pytest.mark.parametrize(
    ("prefix", "found"),
    [("a", ["a", "a\0", "ab"]), (b"a", [b"a"]), (("a",), [("a",), ("a", 1)])],
)
def test_keys_are_listed_by_prefix(cache: Cache, prefix: Any, found: list[Any]) -> None:
    for key in ("a", "a\0", "ab", "b", b"a", ("a",), ("a", 1), ("ab",), 1):
        cache[key] = 1
    assert list(cache.iterkeys(prefix=prefix)) == found
    assert list(cache.iterkeys(reverse=True, prefix=prefix)) == found[::-1]
    with pytest.raises(TypeError, match="prefix=1: give what keys start with"):
        cache.iterkeys(prefix=1)


def test_a_key_of_another_type_is_refused(cache: Cache) -> None:
    for use in (cache.get, cache.delete, cache.touch, cache.incr, cache.pop):
        with pytest.raises(TypeError, match="list"):
            use(("a", ["b"]))


def test_the_longest_key_and_tag_are_named(cache: Cache) -> None:
    with pytest.raises(ValueError, match=r"of 65527 bytes is over the limit of 65526 bytes"):
        cache["k" * 65525] = 1
    with pytest.raises(ValueError, match=r"a key or tag of 5525 bytes is over the limit of 5524"):
        cache.set("k" * 60000, 1, tag="t" * 5523)
    cache["k" * 65524] = 1
    cache.set("k" * 60000, 1, tag="t" * 5522)
    assert len(cache) == cache.evict("t" * 5522) + 1


@pytest.mark.parametrize("value", [(1, 2), {"a": [(1,)]}, {1}, 1 << 64, "\ud800", object()])
def test_a_value_that_would_change_is_refused(cache: Cache, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        cache["key"] = value
    assert "key" not in cache


def test_a_codec_takes_its_own_values(path: str) -> None:
    with Cache(path, value=Json(datetime.date)) as cache:
        cache["launch"] = datetime.date(2024, 5, 7)
        assert cache["launch"] == datetime.date(2024, 5, 7)
        with pytest.raises(ValueError, match="date"):
            cache["launch"] = "soon"


def test_a_value_that_another_codec_wrote_is_named(path: str) -> None:
    with Cache(path) as cache:
        cache["key"] = b"bytes"
    with Cache(path, value=Json()) as cache, pytest.raises(DecodeError, match="'key'"):
        cache["key"]


def test_a_transaction_is_seen_at_its_end_by_others_and_at_once_by_itself(cache: Cache) -> None:
    seen: list[Any] = []

    def look() -> None:
        seen.append((cache.get("a"), cache.get("b")))

    with ExitStack() as stack:
        stack.enter_context(cache.transact())
        cache["a"] = 1
        cache.incr("a")
        with cache.transact():
            cache["b"] = 1
        assert (cache["a"], cache["b"], len(cache)) == (2, 1, 2)
        run_all(look)
    assert seen == [(None, None)]
    assert (cache["a"], cache["b"]) == (2, 1)


@pytest.mark.parametrize("use", [Cache.clear, Cache.cull, lambda cache: cache.evict("t")])
def test_a_transaction_that_raises_puts_back_what_it_removed(
    cache: Cache, use: Callable[[Cache], object]
) -> None:
    cache.set("key", "value" * 9, tag="t")
    cache.size_limit_bytes = 100
    with pytest.raises(ZeroDivisionError), cache.transact():
        cache.push("item")
        use(cache)
        assert "key" not in cache
        raise ZeroDivisionError
    assert list(cache) == ["key"]
    assert cache.cull() == 1


def test_a_write_that_fails_half_way_spoils_its_transaction(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="a write inside transact"), cache.transact():
        cache["a"] = 1
        with monkeypatch.context() as patch, suppress(TypeError):
            patch.setattr(Sizes, "add", None)
            cache["b"] = 1
    assert list(cache) == []
    cache["c"] = 1


def test_a_cache_opens_with_the_size_that_it_had(path: str) -> None:
    with Cache(path) as cache:
        for number in range(100):
            cache.set(number, "v" * number, expire=number if number % 2 else None, tag=number % 3)
        sizes = len(cache), cache.volume()
    with Cache(path) as cache:
        assert (len(cache), cache.volume()) == sizes
        cache[1] = cache[200] = 1
        check(cache)


def test_another_store_is_no_cache(path: str) -> None:
    with lsmkv.open(path) as db:
        db[b"key"] = b"value"
    with pytest.raises(ValueError, match="is a store, but no cache"):
        Cache(path)
    with lsmkv.open(path) as db:
        assert dict(db) == {b"key": b"value"}


def test_one_process_writes_and_others_read(path: str) -> None:
    with Cache(path) as cache:
        cache["key"] = 1
        with pytest.raises(lsmkv.LockedError):
            Cache(path)
        with Cache(path, read_only=True) as reader:
            assert (reader["key"], len(reader), reader.peek()) == (1, 1, (None, None))
            with pytest.raises(lsmkv.ReadOnlyError):
                reader["key"] = 2


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ({"default_ttl_s": 1}, r"default_ttl_s \(set and add take expire=\)"),
        ({"size_limit": 3}, "no such option: size_limit .did you mean 'size_limit_bytes'"),
        ({"size_limit_bytes": -1}, "size_limit_bytes=-1: must be an int from 0 on"),
        ({"cull_limit": 1.5}, "cull_limit=1.5: must be an int from 0 on"),
        ({"eviction_policy": "least-recently-used"}, "choose 'least-recently-stored' or 'none'"),
        ({"value": Json}, "give a codec"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_with_advice(
    path: str, setting: dict[str, Any], advice: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=advice):
        Cache(path, **setting)
    assert not os.path.exists(path)
