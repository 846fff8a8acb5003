"""Queues in a cache, and its keys by prefix."""

from __future__ import annotations

from typing import Any

import pytest

from caches import Clock, cache, clock
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
    assert (list(cache), cache.peek()[1]) == ([FIRST], "old")


def test_a_side_is_one_of_two(cache: Cache) -> None:
    with pytest.raises(ValueError, match="side='left': choose 'back' or 'front'"):
        cache.push(1, side="left")  # type: ignore[arg-type]


def test_the_last_and_the_first_item_can_be_looked_at(cache: Cache) -> None:
    with pytest.raises(KeyError, match="empty"):
        cache.peekitem()
    cache["a"], cache["b"] = 1, 2
    assert (cache.peekitem(), cache.peekitem(last=False, tag=True)) == (("b", 2), (("a", 1), None))


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("a", ["a", "a\0", "ab"]),
        (b"a", [b"a"]),
        (("a",), [("a",), ("a", 1)]),
        ((), [("a",), ("a", 1), ("ab",)]),
    ],
)
def test_keys_are_listed_by_prefix(cache: Cache, prefix: Any, found: list[Any]) -> None:
    for key in ("a", "a\0", "ab", "b", b"a", ("a",), ("a", 1), ("ab",), 1):
        cache[key] = 1
    assert list(cache.iterkeys(prefix=prefix)) == found
    assert list(cache.iterkeys(reverse=True, prefix=prefix)) == found[::-1]
    with pytest.raises(TypeError, match="prefix=1: give what keys start with"):
        cache.iterkeys(prefix=1)
