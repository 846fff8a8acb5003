"""Queues in a cache."""

from __future__ import annotations

from typing import Any

import pytest

from caches import Clock, cache, clock, run_in_threads
from lsmkv.cache import Cache

__all__ = ["cache", "clock"]  # fixtures

FIRST = 500_000_000_000_000


def test_a_queue_has_two_sides(cache: Cache) -> None:
    assert [cache.push(value) for value in "ab"] == [FIRST, FIRST + 1]
    assert cache.push("c", side="front") == FIRST - 1
    assert (cache.peek(), cache.peek(side="back")) == ((FIRST - 1, "c"), (FIRST + 1, "b"))
    assert [cache.pull()[1], cache.pull(side="back")[1], cache.pull()[1]] == ["c", "b", "a"]
    assert (cache.pull(), cache.peek(default=0)) == ((None, None), 0)


def test_queues_with_names_are_apart_from_each_other_and_from_other_keys(cache: Cache) -> None:
    cache["mail"] = cache["mail-"] = cache[1.5] = "no queue's"
    assert cache.push(1, "mail") == f"mail-{FIRST}"
    assert cache.push(2, "mail-") == f"mail--{FIRST}"
    cache.push(3)
    assert [cache.pull(name) for name in ("mail", "mail-", None)] == [
        (f"mail-{FIRST}", 1),
        (f"mail--{FIRST}", 2),
        (FIRST, 3),
    ]
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

    def pull(_number: int) -> None:
        while (item := cache.pull()[1]) is not None:
            pulled.append(item)

    run_in_threads(pull)
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
