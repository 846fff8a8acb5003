"""Keys and values of a cache, what it counts, and the functions whose results it keeps."""

from __future__ import annotations

import asyncio
import datetime
import re
import warnings
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import event_loops
from caches import Clock, cache, clock
from lsmkv.cache import Cache, PlainValue
from lsmkv.typed import DecodeError, Json

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
        (([1],), {}, r"argument 1 of .*Shop\.price is no key: \[1\] is list: make it a tuple; or"),
        ((1, ("a", {1})), {}, r"argument 2 of .* is no key: \{1\} is set: an element is None, b"),
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


class Size(IntEnum):
    LARGE = 3


class Name(str):
    __slots__ = ()


ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
)
PARTS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
STRUCTURES = st.recursive(
    PARTS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(PARTS | st.tuples(PARTS, st.tuples(PARTS)), inner)
    ),
    max_leaves=5,
)


@given(ATOMS | STRUCTURES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    codec = PlainValue()
    back = codec.decode(codec.encode(value))
    assert (back, repr(back)) == (value, repr(value))  # 1, 1.0 and True are told apart


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2), r"value is tuple, which would come back as list"),
        ({"a": [1, (2,)]}, r"value\['a'\]\[1\] is tuple, which would come back as list"),
        ({1, 2}, r"value is set: a value is bytes, str, .*Cache\(path, value=.*Json\(set\)"),
        (datetime.date(2024, 5, 7), r"value is date: "),
        ({("a", (frozenset(),)): 3}, r"has the key \('a', .*, with a frozenset: keys of a dict"),
        ([bytearray(b"x")], r"value\[0\] is bytearray, which would come back as bytes: make it b"),
        ({"a": [Size.LARGE]}, r"value\['a'\]\[0\] is Size: "),
        ({Size.LARGE: 1}, r"value has the key <Size.LARGE: 3>, with a Size: keys of a dict are"),
        ([Name("ada")], r"value\[0\] is Name: "),
        ([{1}], r"value\[0\] is set: .*Cache\(path, value=lsmkv.typed.Json\(\.\.\.\)\)$"),
        (object(), r"value is object: .*; convert it$"),  # no codec takes it
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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("\ud800", r"value is '\\ud800', with a lone surrogate at 0, which has no UTF-8: store b"),
        ({"a": ["b\ud800"]}, r"value\['a'\]\[0\] is 'b\\ud800', with a lone surrogate at 1"),
        ({"\ud800": 1}, r"has a key with a text that is '\\ud800', with a lone surrogate at 0"),
    ],
)
def test_text_that_is_no_utf8_is_refused(cache: Cache, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cache["key"] = value
    assert "key" not in cache


def test_a_key_or_tag_that_is_no_utf8_is_refused(cache: Cache) -> None:
    message = r"character 1 of 'a\\ud800' is a lone surrogate .* no UTF-8: bytes can hold it"
    with pytest.raises(ValueError, match=message):
        cache["a\ud800"] = 1
    with pytest.raises(ValueError, match=message):
        cache.set("key", 1, tag="a\ud800")


def test_a_structure_may_nest(cache: Cache) -> None:
    value: list[Any] = []
    for _ in range(199):
        value = [value]
    cache["key"] = value
    assert cache["key"] == value
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        cache["key"] = [value]


def test_the_longest_key_and_tag_are_named(cache: Cache) -> None:
    with pytest.raises(ValueError, match=r"a key of 65529 bytes is over the limit of 65526 bytes"):
        cache["k" * 65527] = 1
    key = "k" * 60000
    with pytest.raises(ValueError, match=r"a tag beside a key of 6002 bytes is over"):
        cache.set(key, 1, tag="t" * 6000)
    cache.set(key, 1, tag="t" * 5000)
    assert cache.get(key, tag=True) == (1, "t" * 5000)
    cache["k" * 65524] = 1
    assert cache["k" * 65524] == 1


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
