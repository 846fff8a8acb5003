"""Reading and writing a cache, and its opening and closing."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest

import lsmkv
from caches import Clock, cache, clock, run_in_threads
from lsmkv.cache import Cache

__all__ = ["cache", "clock"]  # fixtures


# Reading and writing


def test_a_missing_key_is_none_a_default_or_an_error(cache: Cache) -> None:
    assert (cache.get("key"), cache.get("key", 7), "key" in cache) == (None, 7, False)
    with pytest.raises(KeyError, match="key"):
        cache["key"]
    with pytest.raises(KeyError, match="key"):
        del cache["key"]
    assert (cache.delete("key"), cache.touch("key")) == (False, False)


def test_details_come_with_a_value_on_request(cache: Cache, clock: Clock) -> None:
    cache.set("key", b"value", expire=5, tag="data")
    value, expires, tag = cache.get("key", read=True, expire_time=True, tag=True)
    assert (value.read(), expires, tag) == (b"value", clock.now + 5, "data")
    assert cache.pop("key", expire_time=True, tag=True) == (b"value", clock.now + 5, "data")
    assert cache.pop("key", 0, expire_time=True, tag=True) == (0, None, None)


def test_a_value_may_be_read_from_a_file(cache: Cache) -> None:
    assert cache.set("key", BytesIO(b"value"), read=True)
    assert not cache.add("key", BytesIO(b"other"), read=True)
    assert cache["key"] == b"value"


def test_incr_takes_no_other_values(cache: Cache) -> None:
    for value in ("1", None, True, [1]):
        cache["key"] = value
        with pytest.raises(TypeError, match="not a number"):
            cache.incr("key")
        assert cache["key"] == value


def test_incr_names_a_sum_that_is_too_large(cache: Cache) -> None:
    cache["key"] = 10**400
    with pytest.raises(ValueError, match="keep the value and delta both int"):
        cache.incr("key", 0.5)
    assert cache.incr("key", 1) == 10**400 + 1


def test_incr_keeps_expiry_and_tag(cache: Cache, clock: Clock) -> None:
    cache.set("key", 1, expire=10, tag="t")
    assert cache.incr("key", 2) == 3
    assert cache.get("key", expire_time=True, tag=True) == (3, clock.now + 10, "t")


def test_incr_of_an_expired_number_starts_anew(cache: Cache, clock: Clock) -> None:
    cache.set("key", 5, expire=10)
    clock.now += 10
    assert cache.incr("key") == 1
    assert cache.get("key", expire_time=True) == (1, None)


def test_threads_that_count_lose_nothing(cache: Cache) -> None:
    def count(_number: int) -> None:
        for _ in range(100):
            cache.incr("key")

    run_in_threads(count)
    assert cache["key"] == 800


def test_of_threads_that_add_a_key_one_does(cache: Cache) -> None:
    added: list[tuple[int, int]] = []

    def add(thread: int) -> None:
        added.extend((key, thread) for key in range(50) if cache.add(key, thread))

    run_in_threads(add)
    assert len(added) == 50
    assert {key: cache[key] for key in cache} == dict(added)


def test_of_threads_that_pop_a_key_one_gets_it(cache: Cache) -> None:
    for key in range(100):
        cache[key] = key
    popped: list[int] = []
    run_in_threads(lambda _: popped.extend(filter(None, map(cache.pop, range(100)))))
    assert sorted(popped) == list(range(1, 100))


# Transactions


def test_a_transaction_is_seen_at_its_end_by_others_and_at_once_by_itself(cache: Cache) -> None:
    seen: list[Any] = []

    def look(_number: int) -> None:
        seen.append((cache.get("a"), cache.get("b")))

    with cache.transact():
        cache["a"] = 1
        cache.incr("a")
        with cache.transact():
            cache["b"] = 1
        assert (cache["a"], cache["b"]) == (2, 1)
        run_in_threads(look, 1)
    look(0)
    assert seen == [(None, None), (2, 1)]


def test_a_transaction_that_raises_changes_nothing(cache: Cache) -> None:
    cache["a"] = 1
    before = len(cache), cache.volume()
    with pytest.raises(ZeroDivisionError), cache.transact():
        cache["b"] = b"v" * 1000
        del cache["a"]
        assert (cache.get("a"), len(cache)) == (None, 1)
        1 / 0  # noqa: B018
    assert (cache["a"], cache.get("b"), (len(cache), cache.volume())) == (1, None, before)


def test_an_inner_transaction_that_raises_changes_nothing_and_the_outer_goes_on(
    cache: Cache,
) -> None:
    cache["kept"] = 1
    with cache.transact():
        cache["outer"] = 1
        with suppress(ZeroDivisionError), cache.transact():
            cache["outer"] = 2
            del cache["kept"]
            with cache.transact():
                cache["innermost"] = 1
            1 / 0  # noqa: B018
        assert [cache.get(key) for key in ("outer", "kept", "innermost")] == [1, 1, None]
        assert len(cache) == 2
        with cache.transact():
            cache["inner"] = 1
    assert {key: cache[key] for key in cache} == {"inner": 1, "kept": 1, "outer": 1}


def test_an_inner_transaction_ends_with_the_outer(cache: Cache) -> None:
    with suppress(ZeroDivisionError), cache.transact():
        with cache.transact():
            cache["inner"] = 1
        1 / 0  # noqa: B018
    assert (list(cache), len(cache)) == ([], 0)


@pytest.mark.parametrize(
    "use", [Cache.clear, Cache.cull, Cache.expire, Cache.check, Cache.close, list]
)
def test_what_scans_is_not_for_transactions(cache: Cache, use: Callable[[Cache], object]) -> None:
    with cache.transact(), pytest.raises(RuntimeError, match=r"inside transact\(\): do it before"):
        use(cache)


# Opening and closing


def test_a_cache_that_was_closed_or_not_opens_with_the_same_counts(path: str) -> None:
    with Cache(path) as cache:
        for number in range(100):
            cache.set(number, "v" * number, expire=number if number % 2 else None, tag=number % 3)
        sizes = len(cache), cache.volume()
    with Cache(path) as cache:
        assert (len(cache), cache.volume()) == sizes
        cache._db.close()  # as a process that is killed: nothing notes the counts
    with Cache(path) as cache:
        assert (len(cache), cache.volume()) == sizes
        cache[1] = 1
        assert cache.check() == []


def test_check_reports_an_index_that_does_not_fit(path: str) -> None:
    with Cache(path) as cache:
        cache.set("key", 1, tag="t")
        (place,) = cache._db.keys(prefix=b"t")
        cache._db.delete(place)
        assert len(cache.check()) == 1
        assert "an index lacks b't" in cache.check()[0]


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
            assert (reader["key"], len(reader)) == (1, 1)
            with pytest.raises(lsmkv.ReadOnlyError):
                reader["key"] = 2


def test_a_closed_cache_is_of_no_use(path: str) -> None:
    cache = Cache(path)
    cache.close()
    cache.close()
    uses: list[Callable[[Any], object]] = [cache.get, cache.delete, lambda key: cache.set(key, 1)]
    for use in uses:
        with pytest.raises(lsmkv.ClosedError):
            use("key")
    assert "closed" in repr(cache)


def test_it_cannot_be_pickled(cache: Cache) -> None:
    with pytest.raises(TypeError, match="read_only=True in other processes"):
        pickle.dumps(cache)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("size_limit", r"did you mean 'size_limit_bytes'\?"),
        ("timeout", "nothing times out here: leave it out"),
        ("tag_index", "leave it out"),
        ("disk", r"value=lsmkv\.typed\.Json\(\)"),
        ("cache_size", r"did you mean 'block_cache_size_bytes'\?"),
    ],
)
def test_a_setting_that_is_not_there_is_refused_with_advice(
    path: str, name: str, advice: str
) -> None:
    wrong: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=rf"^no such option: {name} \(.*{advice}\)$"):
        Cache(path, **wrong)
    assert not os.path.exists(path)
