"""Codecs of keys and values by themselves: order, round trips, refusals."""

from __future__ import annotations

import dataclasses
import datetime
import math
import uuid
from typing import Any, Final, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmkv.typed
from lsmkv.typed import (
    Bytes,
    Float,
    Int64,
    Json,
    KeyCodec,
    MsgPack,
    Part,
    Str,
    Tuple,
    TypedDB,
    Uuid,
)
from lsmkv.typed.pickled import Pickle


@dataclasses.dataclass
class Person:
    name: str
    born: int = 0


class Point(msgspec.Struct):
    x: float
    y: float


class Movie(TypedDict):
    title: str
    year: int


def float_place(number: float) -> tuple[float, float]:
    return number, math.copysign(1.0, number)  # -0.0 before 0.0


texts = st.text(st.characters(codec="utf-8"))
int64s = st.integers(-(2**63), 2**63 - 1)
numbers = st.floats(allow_nan=False)

KEYS: Final[dict[str, tuple[KeyCodec[Any], st.SearchStrategy[Any], Any]]] = {
    "Str": (Str(), texts, str),
    "Bytes": (Bytes(), st.binary(), bytes),
    "Int64": (Int64(), int64s, int),
    "Float": (Float(), numbers, float_place),
    "Uuid": (Uuid(), st.uuids(), lambda key: key.int),
    "Tuple of two": (Tuple(Str(), Int64()), st.tuples(texts, int64s), tuple),
    "Tuple in a tuple": (
        Tuple(Tuple(Float(), Bytes()), Uuid()),
        st.tuples(st.tuples(numbers, st.binary()), st.uuids()),
        lambda key: (float_place(key[0][0]), key[0][1], key[1].int),
    ),
}


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_the_order_of_bytes_is_the_order_of_keys(name: str, data: st.DataObject) -> None:
    codec, keys, place = KEYS[name]
    left, right = data.draw(keys), data.draw(keys)
    assert (codec.encode(left) < codec.encode(right)) == (place(left) < place(right))


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_a_key_reads_back(name: str, data: st.DataObject) -> None:
    codec, keys, _ = KEYS[name]
    key = data.draw(keys)
    assert repr(codec.decode(codec.encode(key))) == repr(key)


@pytest.mark.parametrize("name", KEYS)
@given(data=st.binary(max_size=24))
def test_other_bytes_are_refused_or_are_the_one_encoding_of_a_key(name: str, data: bytes) -> None:
    codec = KEYS[name][0]
    try:
        key = codec.decode(data)
    except (TypeError, ValueError):
        return
    assert codec.encode(key) == data


WRONG_KEYS: Final[list[tuple[KeyCodec[Any], object, type[Exception], str]]] = [
    (Str(), b"x", TypeError, "b'x' is bytes, not str"),
    (Str(), "\ud800", ValueError, "lone surrogate"),
    (Bytes(), "x", TypeError, "'x' is str, not bytes"),
    (Int64(), "5", TypeError, "'5' is str, not int"),
    (Int64(), True, TypeError, "True is bool, not int"),
    (Int64(), 1.0, TypeError, "1.0 is float, not int"),
    (Int64(), 2**63, ValueError, r"9223372036854775808 is outside the range of 64 bits"),
    (Int64(), -(2**63) - 1, ValueError, "outside the range"),
    (Float(), "1.5", TypeError, "'1.5' is str, not float"),
    (Float(), False, TypeError, "False is bool, not float"),
    (Float(), 2**53 + 1, ValueError, "9007199254740993 is an int that no float represents exactly"),
    (Float(), 10**400, ValueError, "no float represents exactly"),
    (Uuid(), "0" * 32, TypeError, "is str, not uuid.UUID"),
    (Tuple(Str(), Int64()), "ab", TypeError, "'ab' is str, not a tuple"),
    (Tuple(Str(), Int64()), ["a", 1], TypeError, "is list, not a tuple"),
    (Tuple(Str(), Int64()), ("a",), ValueError, "1 parts instead of 2"),
    (Tuple(Str(), Int64()), ("a", 1, 2), ValueError, "3 parts instead of 2"),
    (Tuple(Str(), Int64()), ("a", "1"), TypeError, "part 2: '1' is str, not int"),
    (Tuple(Str(), Int64()), ("a", 2**63), ValueError, "part 2: 9223372036854775808 is outside"),
    (Tuple(Str(), Int64()), (None, 1), TypeError, "part 1: None is NoneType, not str"),
    (Tuple(Tuple(Str()), Str()), (("a", "b"), "c"), ValueError, "part 1: 2 parts instead of 1"),
    (Tuple(), ([],), TypeError, "make it a tuple"),
    (Tuple(), ({},), TypeError, "an element is None, bytes, str"),
]


@pytest.mark.parametrize(("codec", "key", "kind", "reason"), WRONG_KEYS, ids=repr)
def test_what_is_no_key_is_refused_with_the_reason(
    codec: KeyCodec[Any], key: object, kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        codec.encode(key)


@pytest.mark.parametrize(
    ("codec", "data", "reason"),
    [
        (Str(), b"\xff", "no UTF-8 at byte 0"),
        (Int64(), b"\0" * 7, "7 bytes instead of 8"),
        (Float(), b"", "0 bytes instead of 8"),
        (Uuid(), b"\0" * 17, "17 bytes instead of 16"),
        (Tuple(Str(), Int64()), b"\x02a\x00", "1 parts instead of 2"),
        (Tuple(Str(), Int64()), b"\x02a\x00\x02b\x00", "part 2: 'b' is str, not int"),
        (Tuple(Str(), Int64()), b"\x02a\x00\x1c" + b"\xff" * 8, "part 2: 18446744073709551615"),
        (Tuple(Str()), b"\x02a", "byte 0: a string without an end"),
        (Tuple(Float()), b"\x15\x01", "part 1: 1 is int, not float"),
    ],
    ids=repr,
)
def test_bytes_of_another_codec_are_refused(codec: KeyCodec[Any], data: bytes, reason: str) -> None:
    with pytest.raises((TypeError, ValueError), match=reason):
        codec.decode(data)


def test_a_float_codec_takes_exact_ints() -> None:
    assert Float().encode(3) == Float().encode(3.0)
    assert Tuple(Float()).encode((3,)) == Tuple(Float()).encode((3.0,))
    assert math.isnan(Float().decode(Float().encode(math.nan)))


def test_prefixes_and_bounds_of_tuples_are_their_first_parts() -> None:
    codec = Tuple(Str(), Int64(), Str())
    assert codec.prefix(("a", 1)) == (codec.bound(("a", 1)), codec.bound(("a", 1)) + b"\xff")
    assert codec.bound(()) == b""
    with pytest.raises(ValueError, match="4 parts instead of at most 3"):
        codec.prefix(("a", 1, "b", 2))
    with pytest.raises(TypeError, match="part 2: 'x' is str, not int"):
        codec.prefix(("a", "x"))


@pytest.mark.parametrize("codec", [Int64(), Float(), Uuid()], ids=repr)
def test_keys_of_fixed_size_have_no_prefixes(codec: KeyCodec[Any]) -> None:
    with pytest.raises(TypeError, match="have no prefixes: use start and stop"):
        codec.prefix(1)


def test_a_part_of_a_program_s_own_is_a_key_and_a_part() -> None:
    class Day(Part[datetime.date]):
        def to_element(self, key: Any) -> str:
            return str(key.isoformat())

        def from_element(self, element: Any) -> datetime.date:
            return datetime.date.fromisoformat(element)

    days = [datetime.date(999, 1, 2), datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)]
    assert sorted([days[2], *days[:2]], key=Day().encode) == days
    assert [Day().decode(Day().encode(day)) for day in days] == days
    codec = Tuple(Day(), Int64())
    assert codec.decode(codec.encode((days[0], 1))) == (days[0], 1)
    with pytest.raises(ValueError, match="2 elements instead of one"):
        Day().decode(Tuple().encode(("2024-01-01", 2)))


# Values


@pytest.mark.parametrize("form", [Json, MsgPack])
def test_values_read_back_as_their_type(form: Any) -> None:
    values: list[tuple[Any, Any]] = [
        (Person, Person("Ada", 1815)),
        (Point, Point(1.0, -0.5)),
        (Movie, Movie(title="Metropolis", year=1927)),
        (list[int], [1, 2**40, -3]),
        (dict[str, tuple[int, str]], {"a": (1, "b")}),
        (int | None, None),
        (bytes, b"\x00\xff"),
        (uuid.UUID, uuid.UUID(int=5)),
        (datetime.datetime, datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)),
        (set[str], {"x"}),
    ]
    for kind, value in values:
        found = form(kind).decode(form(kind).encode(value))
        assert found == value
        assert type(found) is type(value)
    anything = {"a": [1, 2.5, None, True, "text"]}
    assert form().decode(form().encode(anything)) == anything


@pytest.mark.parametrize("form", [Json, MsgPack])
@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (Person, Person(5), "Expected `str`, got `int` - at `$.name`"),  # type: ignore[arg-type]
        (Person, {"born": 1}, "missing required field `name`"),
        (list[int], ["a"], "Expected `int`, got `str`"),
        (Any, object(), "type object is unsupported"),
        (Any, 1j, "unsupported"),
        (str, "\ud800", "surrogate"),
    ],
)
def test_a_value_that_would_not_read_back_is_refused(
    form: Any, kind: Any, value: object, reason: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        form(kind).encode(value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ((1, 2), r"give the codec its type, Json\(tuple\)"),
        (b"x", r"give the codec its type, Json\(bytes\)"),
        (Person("Ada"), r"give the codec its type, Json\(Person\)"),
        (datetime.date(2024, 2, 29), r"give the codec its type, Json\(date\)"),
        ({1: 2}, r"give the codec its whole type, such as Json\(dict\[int, str\]\)"),
        ([(1, 2)], r"give the codec its whole type, such as Json\(list\[tuple\[int, ...\]\]\)"),
        (math.nan, "Json has no NaN and no infinity, MsgPack has"),
        ({"a": [-math.inf]}, "Json has no NaN and no infinity, MsgPack has"),
    ],
)
def test_json_of_anything_refuses_what_would_change(value: object, advice: str) -> None:
    with pytest.raises(ValueError, match=f"would read back as .*: {advice}$"):
        Json().encode(value)


def test_messagepack_of_anything_keeps_what_json_has_not() -> None:
    value = {1: b"x", 2.5: [math.inf]}
    assert MsgPack().decode(MsgPack().encode(value)) == value
    assert repr(MsgPack().decode(MsgPack().encode([math.nan]))) == "[nan]"
    with pytest.raises(ValueError, match="would read back as list"):
        MsgPack().encode((1, 2))


def test_a_float_that_json_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="got `null`"):
        Json(float).encode(math.nan)
    assert math.isnan(MsgPack(float).decode(MsgPack(float).encode(math.nan)))


@pytest.mark.parametrize("form", [Json, MsgPack])
def test_a_structure_without_an_end_is_refused(form: Any) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="recursion"):
        form().encode(endless)
    with pytest.raises(ValueError):
        form().decode(b"[" * 100_000 if form is Json else b"\x91" * 100_000)


@pytest.mark.parametrize("form", [Json(Person), MsgPack(Person)], ids=repr)
@pytest.mark.parametrize("data", [b"", b"\xff", b"{", b'{"nam":1}', b"null"])
def test_a_damaged_value_is_a_value_error(form: Any, data: bytes) -> None:
    with pytest.raises(ValueError):
        form.decode(data)


def test_a_type_that_msgspec_has_not_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="more than one array-like"):
        Json(list[int] | set[int])


# Pickle


def test_pickle_says_its_danger_first() -> None:
    assert (Pickle.__doc__ or "").startswith("DANGER: ")
    assert "Pickle" not in lsmkv.typed.__all__
    assert lsmkv.typed.Pickle is Pickle


def test_pickle_checks_the_type_of_values() -> None:
    assert Pickle().decode(Pickle().encode({1: 2j})) == {1: 2j}
    assert Pickle(complex).decode(Pickle(complex).encode(2j)) == 2j
    wrong: Any = "text"
    with pytest.raises(TypeError, match="'text' is str, not complex"):
        Pickle(complex).encode(wrong)
    with pytest.raises(TypeError, match="'text' is str, not complex"):
        Pickle(complex).decode(Pickle().encode("text"))
    with pytest.raises(ValueError, match="pickle"):
        Pickle().encode(lambda: None)
    with pytest.raises(ValueError, match=r"UnpicklingError|EOFError"):
        Pickle().decode(b"\x80\x05no")
    wrong = complex | int
    with pytest.raises(TypeError, match="kind is a class"):
        Pickle(wrong)


# All


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (Tuple(Str(), Tuple(Int64())), "Tuple(Str(), Tuple(Int64()))"),
        (Json(), "Json()"),
        (Json(Person), "Json(Person)"),
        (MsgPack(list[int]), "MsgPack(list[int])"),
        (Pickle(), "Pickle()"),
        (Pickle(complex), "Pickle(complex)"),
    ],
)
def test_the_repr_is_as_written(codec: object, text: str) -> None:
    assert repr(codec) == text


@pytest.mark.parametrize(
    ("instead", "meant"), [(str, "Str"), (int, "Int64"), (bytes, "Bytes"), (Str, "Str")]
)
def test_a_type_instead_of_a_codec_is_told_its_codec(path: str, instead: Any, meant: str) -> None:
    with lsmkv.open(path) as db, pytest.raises(TypeError, match=rf"write {meant}\(\)$"):
        TypedDB(db, key=instead, value=Str())
    with pytest.raises(TypeError, match=rf"write {meant}\(\)$"):
        Tuple(instead)
    wrong: Any = Json()
    with pytest.raises(TypeError, match=r"Json\(\) is no codec that a tuple may have as a part"):
        Tuple(wrong)
