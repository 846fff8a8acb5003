"""Keys and values of a cache."""

from __future__ import annotations

import datetime
import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches import cache, clock
from lsmkv.cache import Cache, PlainValue
from lsmkv.typed import DecodeError, Json

__all__ = ["cache", "clock"]  # fixtures


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
        (
            {frozenset(): 3},
            r"value has the key frozenset\(\), with a frozenset: keys of a dict are",
        ),
        (
            {("a", (frozenset(),)): 3},
            r"value has the key \('a', .*, with a frozenset: keys of a dict",
        ),
        (
            [bytearray(b"x")],
            r"value\[0\] is bytearray, which would come back as bytes: make it bytes",
        ),
        ({"a": memoryview(b"x")}, r"value\['a'\] is memoryview, which would come back as bytes"),
        ([Size.LARGE], r"value\[0\] is Size: "),
        ({"a": [Size.LARGE]}, r"value\['a'\]\[0\] is Size: "),
        ({Size.LARGE: 1}, r"value has the key <Size.LARGE: 3>, with a Size: keys of a dict are"),
        ([Name("ada")], r"value\[0\] is Name: "),
        ([OrderedDict(a=1)], r"value\[0\] is OrderedDict: "),
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
        (
            "\ud800",
            r"value is '\\ud800', with a lone surrogate at 0, which has no UTF-8: store bytes",
        ),
        ({"a": ["b\ud800"]}, r"value\['a'\]\[0\] is 'b\\ud800', with a lone surrogate at 1"),
        (
            {"\ud800": 1},
            r"value has a key with a text that is '\\ud800', with a lone surrogate at 0",
        ),
        ("a" * 500 + "\udfff", r"a{80}'\.\.\., with a lone surrogate at 500"),
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


def test_a_structure_inside_itself_is_refused(cache: Cache) -> None:
    value: list[Any] = [1]
    value.append({"a": value})
    with pytest.raises(ValueError, match="nested deeper than 200 levels, or in itself: flatten it"):
        cache["key"] = value


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
    with pytest.raises(ValueError, match=r"a tag of 6002 bytes with a key of 60002 bytes is over"):
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
