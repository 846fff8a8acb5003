"""Queues in a cache, and functions whose results it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from caches import Clock
from lsmkv.cache import Cache
from threaded_stores import run_all

FIRST = 500_000_000_000_000


def test_a_queue_has_two_sides(cache: Cache) -> None:
    assert [cache.push(value) for value in "ab"] == [FIRST, FIRST + 1]
    assert cache.push("c", side="front") == FIRST - 1
    assert (cache.peek(), cache.peek(side="back")) == ((FIRST - 1, "c"), (FIRST + 1, "b"))
    assert [cache.pull()[1], cache.pull(side="back")[1], cache.pull()[1]] == ["c", "b", "a"]
    assert (cache.pull(), cache.peek(default=0)) == ((None, None), 0)


def test_queues_with_names_are_apart_from_each_other_and_from_other_keys(cache: Cache) -> None:
    cache["mail"] = cache["mail-"] = cache[1.5] = "no queue's"
    names = ("mail", "mail-", None)
    keys = [cache.push(name, name) for name in names]
    assert keys == [f"mail-{FIRST}", f"mail--{FIRST}", FIRST]
    assert [cache.pull(name) for name in names] == list(zip(keys, names, strict=True))
    assert len(cache) == 3


def test_what_is_put_before_the_front_is_pulled(cache: Cache) -> None:
    for value in "abc":
        cache.push(value)
    assert [cache.pull()[1], cache.pull()[1]] == ["a", "b"]
    cache[FIRST] = "again"
    assert [cache.pull()[1], cache.pull()[1], cache.pull()[1]] == ["again", "c", None]


def test_threads_pull_each_item_once(cache: Cache) -> None:
    for number in range(800):
        cache.push(number)
    pulled: list[Any] = []

    def pull() -> None:
        while (item := cache.pull()[1]) is not None:
            pulled.append(item)

    run_all(*[pull] * 8)
    assert sorted(pulled) == list(range(800))


def test_what_expired_in_a_queue_is_passed_over_and_goes(cache: Cache, clock: Clock) -> None:
    cache.push("a", expire=0.25)
    cache.push("b", expire=9, tag="t")
    clock.now += 0.5
    assert cache.peek(expire_time=True, tag=True) == ((FIRST + 1, "b"), clock.now + 8.5, "t")
    assert len(cache) == 1
    clock.now += 8.75
    assert cache.pull(expire_time=True, tag=True) == ((None, None), None, None)
    assert len(cache) == 0


def test_a_transaction_pulls_what_it_pushed_and_puts_it_back_if_it_fails(cache: Cache) -> None:
    cache.push("old")
    with pytest.raises(ZeroDivisionError), cache.transact():
        cache.push("new")
        assert [cache.pull()[1], cache.pull()[1]] == ["old", "new"]
        raise ZeroDivisionError
    assert (list(cache), cache.pull()[1]) == ([FIRST], "old")


def test_a_side_is_one_of_two(cache: Cache) -> None:
    with pytest.raises(ValueError, match="side='left': choose 'back' or 'front'"):
        cache.push(1, side="left")  # type: ignore[arg-type]


def test_memoize_keeps_results_by_arguments(cache: Cache) -> None:
    calls: list[Any] = []

    @cache.memoize(name="call", ignore={"verbose"})
    def call(*args: Any, **kwargs: Any) -> None:
        """Documented."""
        calls.append((args, kwargs))

    for _ in range(2):
        call(1, "a", verbose=True)
        call(1, "b", word=b"x", verbose=False)
        call((1, ("a",)), other=None)
    assert len(calls) == 3
    assert call.__doc__ == "Documented."
    assert call.__cache_key__(1, "a") in cache  # type: ignore[attr-defined]


def test_memoize_tells_types_apart(cache: Cache) -> None:
    text = cache.memoize()(str)
    assert [text(1), text(1.0), text(True)] == ["1", "1.0", "True"]


def test_memoize_forgets_what_expires_or_is_evicted(cache: Cache, clock: Clock) -> None:
    calls: list[int] = []

    @cache.memoize(name="f", expire=10, tag="t")
    def call() -> None:
        calls.append(1)

    for removed in (0, 1, 1):
        assert cache.evict("t") == removed
        call(), call()
    clock.now += 10
    call()
    assert len(calls) == 4


def test_memoize_needs_its_parentheses_and_arguments_that_are_keys(cache: Cache) -> None:
    with pytest.raises(TypeError, match=r"write @cache.memoize\(\) with parentheses"):
        cache.memoize(len)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\[1\] is list: make it a tuple"):
        cache.memoize()(len)([1])


def test_a_tag_or_expiry_that_is_wrong_is_refused_before_any_call(cache: Cache) -> None:
    with pytest.raises(TypeError, match=r"^\[1\] is list: make it a tuple$"):
        cache.memoize(tag=[1])
    with pytest.raises(TypeError, match="expire='5'"):
        cache.memoize(expire="5")  # type: ignore[arg-type]
