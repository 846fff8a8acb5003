"""Functions whose results a cache keeps."""

from __future__ import annotations

from typing import Any

import pytest

from caches import Clock, cache, clock
from lsmkv.cache import Cache

__all__ = ["cache", "clock"]  # fixtures


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
    @cache.memoize()
    def kind(number: float) -> str:
        return type(number).__name__

    assert [kind(1), kind(1.0), kind(True)] == ["int", "float", "bool"]


def test_memoize_forgets_what_expires_or_is_evicted(cache: Cache, clock: Clock) -> None:
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
