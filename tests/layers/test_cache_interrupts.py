"""An interrupt (Ctrl-C) at any place in the cache: nothing hangs, and nothing is half done or lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

import event_loops
from caches import check
from interruptions import at_each_place
from lsmkv.cache import Cache

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(
        sys.version_info >= (3, 14),
        reason="there Python may be interrupted between a lock and the block that it is taken for",
    ),
]

TAGGED = ("a", "b", "c")


def fill(cache: Cache) -> None:
    for key in TAGGED:
        cache.set(key, "old", tag="tag", expire=100)
    cache.set("other", "old")
    cache.delete("new")


def write_two(cache: Cache) -> None:
    with cache.transact():
        cache.set("a", "new")
        cache.set("b", "new")


def write_two_whatever_comes(cache: Cache) -> None:
    with suppress(RuntimeError), cache.transact():
        cache.set("a", "new")
        with suppress(KeyboardInterrupt), cache.transact():
            cache.set("b", "new")


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("write", [write_two, write_two_whatever_comes])
def test_an_interrupted_transaction_takes_place_or_not_and_leaves_the_lock(
    cache: Cache, write: Callable[[Cache], None], stride: int
) -> None:
    fill(cache)

    def look() -> None:
        check(cache)
        assert (cache["a"], cache["b"]) in (("old", "old"), ("new", "new")) or write != write_two
        fill(cache)

    assert at_each_place(lambda: write(cache), look, stride=stride, keep_traceback=True)


def test_writes_after_an_interrupted_transaction_are_no_part_of_it(cache: Cache) -> None:
    """Also while something keeps the traceback."""
    acknowledged: list[int] = []

    def write() -> None:
        try:
            write_two(cache)
        finally:
            sys.setprofile(None)  # no interrupt from here on
            acknowledged.append(cache.incr("after"))

    def look() -> None:
        assert cache.get("after", 0) == len(acknowledged)

    assert at_each_place(write, look, keep_traceback=True)


ACTS: dict[str, Callable[[Cache], object]] = {
    "set": lambda cache: cache.set("new", 1, expire=100, tag="tag"),
    "set over another": lambda cache: cache.set("a", 1),
    "pop": lambda cache: cache.pop("a"),
    "evict": lambda cache: cache.evict("tag"),
    "expire": lambda cache: cache.expire(1e13),
    "cull": Cache.cull,
    "clear": Cache.clear,
}


@pytest.mark.parametrize("stride", [31, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("act", ACTS)
def test_an_interrupted_write_leaves_the_cache_whole_and_usable(
    cache: Cache, act: str, stride: int
) -> None:
    def prepare() -> None:
        cache.size_limit_bytes = 1 << 30
        cache.db.compact_range(force=True)  # else scans pass what earlier rounds deleted
        fill(cache)
        check(cache)
        assert list(cache) == [*TAGGED, "other"]
        cache.size_limit_bytes = 0

    prepare()
    assert at_each_place(lambda: ACTS[act](cache), prepare, stride=stride, keep_traceback=True)


def test_a_transaction_is_entered_once(cache: Cache) -> None:
    block = cache.transact()
    with block:
        cache.set("a", 1)
    with pytest.raises(RuntimeError, match="entered already: make another"), block:
        cache.set("b", 1)
    assert list(cache) == ["a"]


def test_a_task_cannot_write_into_the_transaction_of_another(cache: Cache) -> None:
    async def first() -> None:
        with cache.transact():
            cache["a"] = 1
            await asyncio.sleep(0)
            assert cache["a"] == 1
            raise ZeroDivisionError

    async def second() -> None:
        with pytest.raises(RuntimeError, match="await nothing in its block"):
            cache["b"] = 2
        with pytest.raises(RuntimeError, match="await nothing in its block"), cache.transact():
            pass

    async def both() -> None:
        with suppress(ZeroDivisionError):
            await asyncio.gather(first(), second())

    event_loops.run(both())
    assert list(cache) == []
    cache["b"] = 3
