"""What a cache counts, and the functions whose results it keeps."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import event_loops
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

    @cache.memoize(name="call", ignore={"verbose"})
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
    @cache.memoize(name="kind", typed=True)
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

    @cache.memoize(name="call")
    async def call(number: int) -> int:
        await asyncio.sleep(0)
        calls.append(number)
        return number

    async def main() -> list[int]:
        return [await call(1), await call(1), await call(2)]

    assert asyncio.iscoroutinefunction(call)
    assert (event_loops.run(main()), calls) == ([1, 1, 2], [1, 2])


def test_memoize_needs_its_parentheses_and_arguments_that_are_keys(cache: Cache) -> None:
    with pytest.raises(TypeError, match=r"write @cache.memoize\(\) with parentheses"):
        cache.memoize(len)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"argument 0 of builtins\.len is no key: \[1\] is list: "):
        cache.memoize()(len)([1])


class Shop:
    def price(self, *what: Any, **details: Any) -> Any:
        return what


@pytest.mark.parametrize(
    ("arguments", "details", "said"),
    [
        (
            ([1],),
            {},
            r"argument 1 of .*Shop\.price is no key: \[1\] is list: make it a tuple; or leave",
        ),
        (
            (1, ("a", {1})),
            {},
            r"argument 2 of .* is no key: \{1\} is set: an element is None, bytes",
        ),
        ((), {"of": {}}, r"argument 'of' of .*; or leave it out with ignore=\{'of'\}$"),
    ],
)
def test_an_argument_that_is_no_key_is_named(
    cache: Cache, arguments: tuple[Any, ...], details: dict[str, Any], said: str
) -> None:
    price = cache.memoize(ignore={0})(Shop.price)
    with pytest.raises(TypeError, match=said):
        price(Shop(), *arguments, **details)
    with pytest.raises(
        TypeError, match=r"argument 0 of f .*Shop: .*; or leave it out with ignore=\{0\}"
    ):
        cache.memoize("f")(Shop.price)(Shop(), *arguments, **details)


def test_a_result_that_would_change_names_its_function(cache: Cache) -> None:
    @cache.memoize(name="pair")
    async def pair() -> tuple[int, int]:
        return 1, 2

    said = r"cannot keep what .*pair returned: value is tuple, which would come back as list: make it a"
    with pytest.raises(TypeError, match=said):
        event_loops.run(pair())
    with pytest.raises(TypeError, match=said.replace("pair", "Shop.price")):
        cache.memoize(ignore={0})(Shop.price)(Shop(), 1)


def test_a_tag_that_is_no_key_is_refused_before_any_call(cache: Cache) -> None:
    with pytest.raises(TypeError, match=r"^\[1\] is list: make it a tuple$"):
        cache.memoize(tag=[1])(len)


class Circle:
    def __init__(self, radius: int) -> None:
        self.radius = radius

    def area(self) -> int:
        return 3 * self.radius**2


def plain() -> int:
    return 1


def made() -> Callable[[], int]:
    def inner() -> int:
        return 1

    return inner


@pytest.mark.parametrize("function", [lambda: 1, made(), Circle(1).area])
def test_memoize_warns_of_a_name_that_others_may_have(
    cache: Cache, function: Callable[[], int]
) -> None:
    own = re.escape(f"{function.__module__}.{function.__qualname__}")
    told = rf"by name, and other functions may be named {own}, too: .* memoize\(name=\.\.\.\)"
    with pytest.warns(UserWarning, match=told) as caught:
        memoized = cache.memoize()(function)
    assert [warning.filename for warning in caught] == [__file__]
    assert memoized() == memoized()


@pytest.mark.parametrize(
    ("name", "function"),
    [("ones", lambda: 1), ("made", made()), ("unit area", Circle(1).area), (None, plain)],
)
def test_memoize_is_silent_where_the_name_is_the_functions_own(
    cache: Cache, name: str | None, function: Callable[[], int]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memoized = cache.memoize(name=name)(function)
    assert memoized() == memoized()


def times(factor: int) -> Callable[[int], int]:
    def multiplied(number: int) -> int:
        return factor * number

    return multiplied


def test_functions_with_names_of_their_own_share_no_results(cache: Cache) -> None:
    doubled = cache.memoize(name="doubled")(times(2))
    tripled = cache.memoize(name="tripled")(times(3))
    assert (doubled(5), tripled(5)) == (10, 15)
