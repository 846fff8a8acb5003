"""The cache: one behaviour each, and a model of all."""

from __future__ import annotations

import asyncio
import datetime
import math
import pickle
import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
from lsmkv.cache import Cache, PlainValue
from lsmkv.cache import cache as cache_module
from lsmkv.typed import DecodeError, Json


class Clock:
    """The time that caches see."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cache_module, "time", clock)
    return clock


@pytest.fixture
def cache(path: str) -> Iterator[Cache]:
    with Cache(path) as opened:
        yield opened
        if not opened.closed:
            assert opened.check() == []


# Values and keys

ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
)
STRUCTURES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(ATOMS | STRUCTURES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    codec = PlainValue()
    back = codec.decode(codec.encode(value))
    assert (back, type(back)) == (value, type(value))


def test_values_that_are_no_numbers_come_back() -> None:
    codec = PlainValue()
    assert math.isnan(codec.decode(codec.encode(math.nan)))
    assert math.isnan(codec.decode(codec.encode([math.nan]))[0])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2), r"value is tuple, which would come back as list"),
        ({"a": [1, (2,)]}, r"value\['a'\]\[1\] is tuple, which would come back as list"),
        (bytearray(b"x"), r"value is bytearray, which would come back as bytes: make it bytes"),
        (
            {1, 2},
            r"value is set: a value is bytes, str, .*Cache\(path, value=lsmkv.typed.Json\(set\)",
        ),
        (datetime.date(2024, 5, 7), r"value is date: "),
        ([datetime.datetime(2024, 5, 7)], r"value\[0\] is datetime: "),
        ({frozenset(): 3}, r"value has the key frozenset\(\), a frozenset: keys of a dict are"),
        (object(), r"value is object: "),
    ],
)
def test_a_value_that_would_change_is_refused(cache: Cache, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        cache.set("key", value)
    assert "key" not in cache


def test_an_integer_in_a_structure_has_at_most_64_bits(cache: Cache) -> None:
    with pytest.raises(ValueError, match="64"):
        cache.set("key", [1 << 64])
    cache["key"] = 1 << 64
    assert cache["key"] == 1 << 64


def test_text_that_is_no_utf8_is_refused(cache: Cache) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        cache["key"] = "\ud800"


def test_keys_of_all_kinds_are_told_apart_and_come_in_order(cache: Cache) -> None:
    keys = [None, b"a", "a", (), ("a",), ("a", 1), ("ab",), ("b", "a"), -1, 0, 1, 1.0, False, True]
    for number, key in enumerate(reversed(keys)):
        cache[key] = number
    assert list(cache) == keys
    assert list(map(type, cache)) == list(map(type, keys))
    assert list(reversed(cache)) == keys[::-1]
    assert [cache[key] for key in keys] == list(range(len(keys)))[::-1]


def test_a_key_of_another_type_is_refused(cache: Cache) -> None:
    for use in (cache.get, cache.delete, cache.touch, cache.incr, cache.pop):
        with pytest.raises(TypeError, match="list"):
            use(("a", ["b"]))


def test_a_codec_takes_its_own_values(path: str) -> None:
    with Cache(path, value=Json(datetime.date)) as cache:
        cache["launch"] = datetime.date(2024, 5, 7)
        assert cache["launch"] == datetime.date(2024, 5, 7)
        with pytest.raises(ValueError, match="date"):
            cache["launch"] = "soon"


def test_a_value_that_another_codec_wrote_is_named(path: str) -> None:
    with Cache(path) as cache:
        cache["key"] = "text"
    with Cache(path, value=Json()) as cache, pytest.raises(DecodeError, match="'key'"):
        cache["key"]


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


def test_incr_keeps_expiry_and_tag(cache: Cache, clock: Clock) -> None:
    cache.set("key", 1, expire=10, tag="t")
    assert cache.incr("key", 2) == 3
    assert cache.get("key", expire_time=True, tag=True) == (3, clock.now + 10, "t")


def test_incr_of_an_expired_number_starts_anew(cache: Cache, clock: Clock) -> None:
    cache.set("key", 5, expire=10)
    clock.now += 10
    assert cache.incr("key") == 1
    assert cache.get("key", expire_time=True) == (1, None)


def run_in_threads(work: Callable[[int], object], count: int = 8) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


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


# Expiry


def test_an_expired_entry_is_not_there(cache: Cache, clock: Clock) -> None:
    cache.set("key", 1, expire=10)
    clock.now += 9.9
    assert "key" in cache
    clock.now += 0.1
    assert ("key" in cache, cache.get("key"), cache.pop("key"), cache.delete("key")) == (
        False,
        None,
        None,
        False,
    )
    assert (len(cache), list(cache)) == (1, ["key"])  # not removed yet
    assert cache.add("key", 2)


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


def test_touch_moves_the_expiry(cache: Cache, clock: Clock) -> None:
    cache.set("key", 1, expire=10)
    assert cache.touch("key", 20)
    clock.now += 15
    assert cache["key"] == 1
    assert cache.touch("key")
    clock.now += 1e9
    assert cache.get("key", expire_time=True) == (1, None)


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


@pytest.mark.parametrize(
    "use", [Cache.clear, Cache.cull, Cache.expire, Cache.check, Cache.close, list]
)
def test_what_scans_is_not_for_transactions(cache: Cache, use: Callable[[Cache], object]) -> None:
    with cache.transact(), pytest.raises(RuntimeError, match=r"inside transact\(\): do it before"):
        use(cache)


# Statistics and functions


def test_hits_and_misses_are_counted_on_request(cache: Cache) -> None:
    cache["a"] = 1
    cache.get("a")
    assert cache.stats() == (0, 0)
    cache.get("a"), cache["a"], cache.get("b"), "a" in cache
    assert cache.stats(enable=False, reset=True) == (2, 1)
    cache.get("a")
    assert cache.stats() == (0, 0)


def test_memoize_keeps_results_by_arguments(cache: Cache) -> None:
    calls: list[Any] = []

    @cache.memoize(ignore={"verbose"})
    def call(*args: Any, **kwargs: Any) -> None:
        """Documented."""
        calls.append((args, kwargs))

    for _ in range(2):
        call(1, "a", verbose=True)
        call(1, "b", word=b"x", verbose=False)
        call((1, ("a",)), other=None)
    call(True, "a")
    call(1.0, "a")
    assert len(calls) == 3
    assert call.__doc__ == "Documented."
    assert call.__cache_key__(1, "a") in cache  # type: ignore[attr-defined]


def test_memoize_tells_types_apart_on_request(cache: Cache) -> None:
    @cache.memoize(typed=True)
    def kind(number: float) -> str:
        return type(number).__name__

    assert [kind(1), kind(1.0), kind(True)] == ["int", "float", "bool"]


def test_memoize_forgets_what_expires(cache: Cache, clock: Clock) -> None:
    calls: list[int] = []

    @cache.memoize(name="f", expire=10, tag="t")
    def call() -> None:
        calls.append(1)

    call(), call()
    clock.now += 10
    call()
    assert cache.evict("t") == 1
    call()
    assert len(calls) == 3


def test_memoize_takes_coroutine_functions(cache: Cache) -> None:
    calls: list[int] = []

    @cache.memoize()
    async def call(number: int) -> int:
        await asyncio.sleep(0)
        calls.append(number)
        return number

    async def main() -> list[int]:
        return [await call(1), await call(1), await call(2)]

    assert asyncio.iscoroutinefunction(call)
    assert (asyncio.run(main()), calls) == ([1, 1, 2], [1, 2])


def test_memoize_needs_its_parentheses_and_arguments_that_are_keys(cache: Cache) -> None:
    with pytest.raises(TypeError, match=r"write @cache.memoize\(\) with parentheses"):
        cache.memoize(len)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list"):
        cache.memoize()(len)([1])


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


# All of it, beside a model

KEYS = st.sampled_from(["a", "b", b"a", 1, ("a", 1)])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers(0, 9), st.sampled_from([None, 1, 2, 5])),
    st.tuples(st.just("add"), KEYS, st.integers(0, 9), st.sampled_from([None, 1, 5])),
    st.tuples(st.just("incr"), KEYS),
    st.tuples(st.just("touch"), KEYS, st.sampled_from([None, 1, 5])),
    st.tuples(st.just("pop"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("wait"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["expire", "cull", "clear", "reopen", "evict"])),
)


class Model:
    """A dict of values and expiries."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.entries: dict[Any, tuple[int, float]] = {}

    def live(self) -> dict[Any, int]:
        return {k: v for k, (v, expires) in self.entries.items() if expires > self.clock.now}

    def until(self, expire: float | None) -> float:
        return math.inf if expire is None else self.clock.now + expire

    def apply(self, name: str, key: Any = None, *rest: Any) -> Any:
        present = self.live().get(key)
        if name == "set" or (name == "add" and present is None):
            self.entries[key] = rest[0], self.until(rest[1])
            return True
        if name == "add":
            return False
        if name == "incr":
            expires = math.inf if present is None else self.entries[key][1]
            self.entries[key] = (present or 0) + 1, expires
            return self.entries[key][0]
        if name == "touch" and present is not None:
            self.entries[key] = present, self.until(rest[0])
        if name in ("pop", "delete"):
            if present is not None:
                del self.entries[key]
            return present if name == "pop" else present is not None
        if name in ("clear", "evict"):
            self.entries = {}
        return present is not None if name == "touch" else None


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_it_is_a_dict_whose_entries_expire(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    clock = Clock()
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_module, "time", clock)
        cache, model = Cache(path), Model(clock)
        for name, *arguments in steps:
            if name == "wait":
                clock.now += arguments[0]
            elif name == "reopen":
                cache.close()
                cache = Cache(path)
            elif name in ("expire", "cull", "clear"):
                getattr(cache, name)()
                model.apply(name)
            elif name == "evict":
                cache.clear()
                model.apply(name)
            elif name in ("set", "add"):
                key, value, expire = arguments
                done = getattr(cache, name)(key, value, expire=expire, tag="t")
                assert done == model.apply(name, *arguments)
            else:
                assert getattr(cache, name)(*arguments) == model.apply(name, *arguments)
            live = model.live()
            assert {key: cache[key] for key in cache if key in cache} == live
        assert cache.check() == []
        cache.close()
