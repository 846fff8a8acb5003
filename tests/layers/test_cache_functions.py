"""What a cache counts, and the functions whose results it keeps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from caches import Clock, cache, clock
from lsmkv.cache import Cache

__all__ = ["cache", "clock"]  # fixtures


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
