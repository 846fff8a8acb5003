"""FoundationDB's tuple encoding: its published vectors, its order, and what it refuses.

The vectors are those of ``design/tuple.md`` and of the Java binding's tests (``TupleSerializationTest``
and ``TuplePackingTest``) in the sources of FoundationDB, as bytes.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import math
import struct
import sys
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.typed import SingleFloat, pack, unpack
from lsmkv.typed.tuples import MAX_DEPTH, float_of

IDENTIFIER: Final = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

DESIGN: Final[list[tuple[tuple[Any, ...], bytes]]] = [
    ((b"foo\x00bar",), b"\x01foo\x00\xffbar\x00"),
    (("F\u00d4O\u0000bar",), b"\x02F\xc3\x94O\x00\xffbar\x00"),
    (((b"foo\x00bar", None, ()),), b"\x05\x01foo\x00\xffbar\x00\x00\xff\x05\x00\x00"),
    (((),), b"\x05\x00"),
    (((None,),), b"\x05\x00\xff\x00"),
    ((-1,), b"\x13\xfe"),
    ((-5551212,), b"\x11\xabK\x93"),
    ((SingleFloat(-42.0),), b"\x20\x3d\xd7\xff\xff"),
    ((None,), b"\x00"),
    ((False,), b"\x26"),
    ((True,), b"\x27"),
    ((IDENTIFIER,), b"\x30" + IDENTIFIER.bytes),
]
"""Every test case and every encoding that design/tuple.md spells out."""

BINDINGS: Final[list[tuple[tuple[Any, ...], str]]] = [
    ((), ""),
    ((0,), "14"),
    ((1,), "15 01"),
    ((255,), "15 ff"),
    ((-255,), "13 00"),
    ((256,), "16 0100"),
    ((-256,), "12 feff"),
    ((65536,), "17 010000"),
    ((-65536,), "11 feffff"),
    ((2**63 - 1,), "1c 7fffffffffffffff"),
    ((2**63,), "1c 8000000000000000"),
    ((2**64 - 1,), "1c ffffffffffffffff"),
    ((2**64,), "1d 09 010000000000000000"),
    ((-(2**32) + 1,), "10 00000000"),
    ((-(2**63) + 2,), "0c 8000000000000001"),
    ((-(2**63) + 1,), "0c 8000000000000000"),
    ((-(2**63),), "0c 7fffffffffffffff"),
    ((-(2**63) - 1,), "0c 7ffffffffffffffe"),
    ((-(2**64) + 1,), "0c 0000000000000000"),
    ((SingleFloat(3.14),), "20 c048f5c3"),
    ((SingleFloat(-3.14),), "20 3fb70a3c"),
    ((3.14,), "21 c0091eb851eb851f"),
    ((-3.14,), "21 3ff6e147ae147ae0"),
    ((SingleFloat(0.0),), "20 80000000"),
    ((SingleFloat(-0.0),), "20 7fffffff"),
    ((0.0,), "21 8000000000000000"),
    ((-0.0,), "21 7fffffffffffffff"),
    ((SingleFloat(math.inf),), "20 ff800000"),
    ((SingleFloat(-math.inf),), "20 007fffff"),
    ((math.inf,), "21 fff0000000000000"),
    ((-math.inf,), "21 000fffffffffffff"),
    ((b"",), "01 00"),
    ((b"\x01\x02\x03",), "01 010203 00"),
    ((b"\x00\x00\x00\x04",), "01 00ff00ff00ff04 00"),
    (("",), "02 00"),
    (("hello",), "02 68656c6c6f 00"),
    (("\u4e2d\u6587",), "02 e4b8ade69687 00"),
    (("\u03bc\u03ac\u03b8\u03b7\u03bc\u03b1",), "02 cebcceacceb8ceb7cebcceb1 00"),
    (("\U0001f525",), "02 f09f94a5 00"),
    (("\U0001f96f",), "02 f09fa5af 00"),
    (("\U0001f9a5",), "02 f09fa6a5 00"),
    (("\U0010ffff",), "02 f48fbfbf 00"),
    (((None,),), "05 00ff 00"),
    (((None, "hello"),), "05 00ff 0268656c6c6f00 00"),
    (((None, "hell\0"),), "05 00ff 0268656c6c00ff00 00"),
    (((None,), "hello"), "05 00ff 00 0268656c6c6f00"),
    (((None,), "hello", b"\x01\x00", b""), "05 00ff 00 0268656c6c6f00 010100ff00 0100"),
    ((UUID("ffffffff-ba5e-ba11-0000-00005ca1ab1e"),), "30 ffffffffba5eba11000000005ca1ab1e"),
    ((False,), "26"),
    ((True,), "27"),
    ((0x3019,), "16 3019"),
    ((3,), "15 03"),
]

MALFORMED: Final = [
    b"\x01\xde\xad\xc0\xde",  # a string without an end
    b"\x01\xde\xad\x00\xff\xc0\xde",
    b"\x02hello",
    b"\x02hel\x00\xfflo",
    b"\x02utf\x08\x80\x00",  # no UTF-8
    b"\x02utf\x08\xc0\x01\x00",
    b"\x02utf\x10\xed\xa0\xbd\x00",
    b"\x02utf\x10\xed\xb4\xa5\x00",
    b"\x02utf\x10\xed\xa0\xbd\xed\xb4\xa5\x00",
    b"\x05\x02hello\x00",  # a tuple without an end
    b"\x05\x02hello\x00\x00\xff\x02there\x00",
    b"\x16\x01",  # cut off
    b"\x12\x01",
    b"\x1d\x09\x01\x02\x03\x04\x05\x06\x07\x08",
    b"\x0b\xf6\x01\x02\x03\x04\x05\x06\x07\x08",
    b"\x20\x01\x02\x03",
    b"\x21\x01\x02\x03\x04\x05\x06\x07",
    b"\x30" + bytes(15),
]
"""Sequences that the bindings' tests call malformed."""

OTHERS_REFUSED: Final = [
    *(b"\x1d", b"\x0b", b"\x05", b"\x01"),
    *(b"\x03", b"\x0a", b"\x1e", b"\x22", b"\x25", b"\x33" + bytes(12), b"\xff"),  # codes
    *(b"\x15\x00", b"\x16\x00\x01", b"\x13\xff", b"\x12\xff\x01"),  # leading zeros
    *(b"\x1d\x00", b"\x1d\x01\x05", b"\x1d\x09\x00" + b"\x01" * 8, b"\x0b\xf6\xff" + b"\x01" * 8),
    b"\x05" * 60_000,
]


@pytest.mark.parametrize(("elements", "data"), DESIGN, ids=repr)
def test_the_vectors_of_the_design_document(elements: tuple[Any, ...], data: bytes) -> None:
    assert pack(elements) == data
    assert unpack(data) == elements


@pytest.mark.parametrize(("elements", "digits"), BINDINGS, ids=repr)
def test_the_vectors_of_the_bindings(elements: tuple[Any, ...], digits: str) -> None:
    data = bytes.fromhex(digits)
    assert pack(elements) == data
    assert unpack(data) == elements
    assert repr(unpack(data)) == repr(elements)


@pytest.mark.parametrize(
    "digits", ["20 ffffffff", "20 00000000", "21 " + "ff" * 8, "21 " + "00" * 8]
)
def test_the_vectors_of_nan(digits: str) -> None:
    data = bytes.fromhex(digits)
    (number,) = unpack(data)
    assert math.isnan(number.value if isinstance(number, SingleFloat) else number)
    assert pack((number,)) == data


@pytest.mark.parametrize("data", MALFORMED + OTHERS_REFUSED, ids=lambda data: repr(data[:20]))
def test_what_is_no_encoding_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^byte \d+: "):
        unpack(data)


def test_an_integer_of_over_255_bytes_is_refused() -> None:
    for number in (256**255, -(256**255)):
        with pytest.raises(
            ValueError, match="an integer of 256 bytes is over the limit of 255 bytes"
        ):
            pack((number,))


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80\x00"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is a lone surrogate \(U\+D[8-F][0-9A-F]{2}\)"):
        pack((text,))


@pytest.mark.parametrize("element", [{}, 1j, object(), bytearray(b"b"), range(3)])
def test_an_element_of_another_type_is_refused(element: object) -> None:
    with pytest.raises(TypeError, match="an element is None, bytes, str, tuple, int"):
        pack((element,))


def test_a_list_in_a_tuple_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"^\[1\] is list: make it a tuple$"):
        pack(("a", ([1],)))


def test_only_tuples_are_packed() -> None:
    wrong: Any = "text"
    with pytest.raises(TypeError, match="not a tuple, but str"):
        pack(wrong)


def test_tuples_nest_up_to_a_limit() -> None:
    deep: tuple[Any, ...] = ()
    for _ in range(MAX_DEPTH - 1):
        deep = (deep,)
    assert unpack(pack(deep)) == deep
    with pytest.raises(ValueError, match="nest deeper than 100"):
        pack((deep,))
    with pytest.raises(ValueError, match="nest deeper than 100"):
        unpack(b"\x05" + pack(deep) + b"\x00")


def test_subclasses_are_packed_as_what_they_derive_from() -> None:
    class Colour(enum.IntEnum):
        RED = 7

    class Name(str):
        __slots__ = ()

    assert pack((Colour.RED, Name("x"))) == pack((7, "x"))


def test_a_single_float_has_32_bits_and_an_order() -> None:
    numbers = [SingleFloat(n) for n in (-math.inf, -1.5, -0.0, 0.0, 1e-45, 2.0, math.inf)]
    assert sorted([*numbers[3:], *numbers[:3]]) == numbers
    assert SingleFloat(0.1) == SingleFloat(SingleFloat(0.1).value)
    assert SingleFloat(0.0) != SingleFloat(-0.0)
    assert len({SingleFloat(1.0), SingleFloat(1.0)}) == 1
    with pytest.raises(OverflowError):
        SingleFloat(1e300)


# Order


def total_order(number: float) -> tuple[int, float | int]:
    """Where IEEE 754's total order has a float, told without its encoding."""
    negative = math.copysign(1.0, number) < 0
    if math.isnan(number):
        mantissa = struct.unpack(">Q", struct.pack(">d", number))[0] & ((1 << 52) - 1)
        return (-3, -mantissa) if negative else (3, mantissa)
    if number == 0:
        return (0, -1 if negative else 1)
    return (-1 if negative else 1, number)


def place(element: Any) -> tuple[Any, ...]:
    """A sort key for any element: its kind, then its value."""
    match element:
        case None:
            return (0,)
        case bytes():
            return (1, element)
        case str():
            return (2, element)
        case tuple():
            return (3, tuple(map(place, element)))
        case bool():
            return (7, element)
        case int():
            return (4, element)
        case SingleFloat():
            return (5, total_order(element.value))
        case float():
            return (6, total_order(element))
        case UUID():
            return (8, element.int)
    raise AssertionError(element)


edges = st.sampled_from([0, 255, 256, 2**32, 2**63, 2**64 - 1, 2**64, 256**9, 256**254])
integers = st.integers() | st.builds(
    lambda size, step, sign: sign * (size + step),
    edges,
    st.integers(-1, 1),
    st.sampled_from([-1, 1]),
)
floats = st.floats() | st.binary(min_size=8, max_size=8).map(float_of)
texts = st.text(st.characters(codec="utf-8"), max_size=4) | st.text(
    "a\x00\xff\U0001f525", max_size=4
)
singles = st.floats(width=32, allow_nan=False).map(SingleFloat)
leaves = (
    st.none()
    | st.lists(st.sampled_from([b"\x00", b"\xff", b"a", b"\x05"]), max_size=4).map(b"".join)
    | texts
    | integers
    | floats
    | singles
    | st.booleans()
    | st.uuids()
)
elements = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
tuples = st.lists(elements, max_size=4).map(tuple)


@given(tuples, tuples, st.data())
@example(("a",), ("a\x00",), None)
@example((("a",), None), (("a", None),), None)
def test_the_order_of_bytes_is_the_order_of_tuples(
    left: tuple[Any, ...], right: tuple[Any, ...], data: Any
) -> None:
    if data is not None and left and data.draw(st.booleans()):  # tuples that begin alike
        size = data.draw(st.integers(0, len(left)))
        right = left[:size] + right
    before, after = place(left), place(right)
    assert (pack(left) < pack(right)) == (before < after)
    assert (pack(left) == pack(right)) == (before == after)


@given(tuples)
def test_a_tuple_reads_back(elements: tuple[Any, ...]) -> None:
    data = pack(elements)
    found = unpack(data)
    assert place(found) == place(elements)
    assert pack(found) == data


@given(st.binary(max_size=30) | tuples.map(lambda found: pack(found)[:-1]))
def test_other_bytes_are_refused_or_are_the_one_encoding_of_a_tuple(data: bytes) -> None:
    try:
        found = unpack(data)
    except ValueError:
        return
    assert pack(found) == data


@given(tuples, tuples)
def test_tuples_that_begin_with_others_are_those_between_two_bounds(
    head: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    low, high = pack(head), pack(head) + b"\xff"
    assert low <= pack(head + other) < high
    begins = place(other)[1][: len(head)] == place(head)[1]
    assert (low <= pack(other) < high) == begins


# Cost


class Counted(bytes):
    """Counts as steps the bytes that are taken from it, and those that a search passes."""

    steps = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.steps += len(found) if isinstance(found, bytes) else 1
        return found

    def find(self, *arguments: Any) -> int:
        found = super().find(*arguments)
        self.steps += (len(self) if found < 0 else found) - arguments[1] + 1
        return found


@pytest.mark.parametrize(
    ("head", "repeated"),
    [
        (b"", b"\x00"),
        (b"\x05", b"\x00\xff"),  # a tuple of None, without an end
        (b"", b"\x01\x00\xff\x00"),
        (b"", b"\x02text\x00"),
        (b"", b"\x05\x00"),
        (b"", b"\x05" * (MAX_DEPTH - 2) + b"\x00" * (MAX_DEPTH - 2)),
        (b"", b"\x1d\xff" + b"\x01" * 255),
    ],
)
def test_twice_the_bytes_take_twice_the_steps(head: bytes, repeated: bytes) -> None:
    steps = []
    for size in (2000, 4000):
        data = Counted(head + repeated * (size // len(repeated)))
        with contextlib.suppress(ValueError):
            unpack(data)
        steps.append(data.steps)
    assert len(data) <= steps[1] <= 2.2 * steps[0]


def _calls(function: Callable[[], object]) -> int:
    """How many functions of Python and of C ``function`` calls."""
    events: list[str] = []
    gc.disable()  # its callbacks would count
    sys.setprofile(lambda _frame, event, _argument: events.append(event))
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return sum(event in ("call", "c_call") for event in events)


@pytest.mark.parametrize(
    "of_size",
    [
        pytest.param(lambda size: (b"\0" * size,), id="zeros"),
        pytest.param(lambda size: ("\0" * size,), id="a text of zeros"),
        pytest.param(lambda size: (b"\0\xff" * size,), id="zeros that look escaped"),
        pytest.param(lambda size: ((b"\0x" * size,),), id="zeros in a nested tuple"),
    ],
)
def test_a_long_string_takes_as_many_steps_as_a_short_one(
    of_size: Callable[[int], tuple[Any, ...]],
) -> None:
    short, long = of_size(3), of_size(3000)
    packed_short, packed_long = pack(short), pack(long)
    assert unpack(packed_long) == long
    assert _calls(lambda: unpack(packed_long)) == _calls(lambda: unpack(packed_short))
    assert _calls(lambda: pack(long)) == _calls(lambda: pack(short))
