"""Reading and writing a cache, and its opening and closing, by several threads and callbacks."""

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
from threaded_stores import run_all, wait_until
from time_limits import in_time

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


def test_threads_that_count_lose_nothing(cache: Cache) -> None:
    def count(_number: int) -> None:
        for _ in range(100):
            cache.incr("key")

    run_in_threads(count)
    assert cache["key"] == 800


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


@pytest.mark.parametrize("use", [Cache.clear, Cache.cull, Cache.expire, Cache.check, Cache.close])
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
        assert "an index and the entries disagree at b't" in cache.check()[0]


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


def write_until_closed(cache: Cache) -> None:
    with suppress(lsmkv.ClosedError):
        for number in range(5000):
            cache.set(number, b"value" * 20)
    cache.close()


def test_a_callback_may_close_a_cache_whose_writer_waits_for_it(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer holds the lock of the cache."""
    monkeypatch.setattr("lsmkv.cache.book._PATIENCE_S", 0.01)

    def on_event(event: lsmkv.Event) -> None:
        if isinstance(event, lsmkv.FlushEnded):
            urgency = opened.db._engine.background.urgency
            wait_until(lambda: bool(opened.closed or urgency.waiting))
            opened.close()

    options = lsmkv.Options(write_buffer_size_bytes=8192, max_immutable_memtables=1)
    opened = Cache(path, on_event=on_event, options=options)
    in_time(lambda: write_until_closed(opened))
    with Cache(path) as again:
        assert again.check() == []


def test_a_cache_is_closed_by_many_threads_beside_writers(path: str) -> None:
    opened = Cache(path)
    opened.set("key", b"value")

    def close() -> None:
        opened.close()
        assert not opened.db._engine._ending.locked()

    run_all(*[close] * 4, *[lambda: write_until_closed(opened)] * 3)
    with Cache(path) as again:
        assert again.check() == []
        assert again["key"] == b"value"
