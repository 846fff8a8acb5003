"""FoundationDB's tuple encoding: the order of the bytes is the order of the tuples.

``design/tuple.md`` in the sources of FoundationDB defines it; other programs read and write the same
bytes.  Elements of different kinds sort as None < bytes < str < tuple < int < SingleFloat < float <
False < True < UUID.  Texts sort by code points.  Floats sort as IEEE 754 orders them in total: negative
NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN, so that -0.0 and 0.0 are different keys.

FoundationDB's binding for Python alone writes 2**64 - 1 and its negative in a longer form, which is
refused here, as each tuple has one encoding.  Of the type codes with the status "standard" none is
missing.  Reserved codes are refused, and versionstamps (0x33), which only FoundationDB can make.

>>> pack(("user", 42, None))
b'\\x02user\\x00\\x15*\\x00'
>>> unpack(pack((-5551212, (b"\\x00", True), 1.5)))
(-5551212, (b'\\x00', True), 1.5)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import total_ordering
from typing import Any, Final
from uuid import UUID

MAX_DEPTH: Final = 100  # tuples nest up to this depth
MAX_INTEGER_BYTES: Final = 255

_NULL, _BYTES, _TEXT, _NESTED = 0x00, 0x01, 0x02, 0x05
_BIG_NEGATIVE, _ZERO, _BIG_POSITIVE = 0x0B, 0x14, 0x1D
_SINGLE, _DOUBLE, _FALSE, _TRUE, _UUID = 0x20, 0x21, 0x26, 0x27, 0x30
_SMALL_INTEGER_BYTES = 8  # longer ones are stored with their length
_ALL_BITS = {size: (1 << 8 * size) - 1 for size in (4, 8)}
_SIGN = {size: 1 << (8 * size - 1) for size in (4, 8)}


@total_ordering
class SingleFloat:
    """A float of 32 bits: a kind of its own in the encoding.

    ``value`` is rounded to 32 bits.  OverflowError: it is too large for them.

    >>> SingleFloat(-42.0), SingleFloat(0.1).value
    (SingleFloat(-42.0), 0.10000000149011612)
    """

    __slots__ = ("_bits",)

    def __init__(self, value: float) -> None:
        self._bits = struct.pack(">f", value)

    @property
    def value(self) -> float:
        """The number."""
        value: float = struct.unpack(">f", self._bits)[0]
        return value

    @property
    def ordered(self) -> bytes:
        """Its four bytes in the encoding."""
        return _ordered(self._bits)

    @classmethod
    def from_ordered(cls, data: bytes) -> SingleFloat:
        """The number of four bytes in the encoding."""
        made = cls(0.0)
        made._bits = _unordered(data)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleFloat) and self._bits == other._bits

    def __lt__(self, other: SingleFloat) -> bool:
        if not isinstance(other, SingleFloat):
            return NotImplemented
        return self.ordered < other.ordered

    def __hash__(self) -> int:
        return hash((SingleFloat, self._bits))

    def __repr__(self) -> str:
        return f"SingleFloat({self.value!r})"


def float_bytes(value: float) -> bytes:
    """Eight bytes that sort as floats do in IEEE 754's total order."""
    return _ordered(struct.pack(">d", value))


def float_of(data: bytes) -> float:
    """The float that :func:`float_bytes` encoded."""
    value: float = struct.unpack(">d", _unordered(data))[0]
    return value


def _ordered(data: bytes) -> bytes:
    """IEEE 754 bits as bytes that sort as the numbers: flip the sign, or all of a negative one."""
    size = len(data)
    bits = int.from_bytes(data)
    return (bits ^ (_ALL_BITS[size] if bits & _SIGN[size] else _SIGN[size])).to_bytes(size)


def _unordered(data: bytes) -> bytes:
    size = len(data)
    bits = int.from_bytes(data)
    return (bits ^ (_SIGN[size] if bits & _SIGN[size] else _ALL_BITS[size])).to_bytes(size)


def pack(elements: tuple[Any, ...]) -> bytes:
    """The bytes of a tuple.

    Args:
        elements: None, bytes, str, tuple, int, :class:`SingleFloat`, float, bool and UUID.

    Raises:
        TypeError: an element of another type.
        ValueError: an integer of over 255 bytes, a str with a lone surrogate, or tuples that nest
            deeper than :data:`MAX_DEPTH`.
    """
    if not isinstance(elements, tuple):
        raise TypeError(f"not a tuple, but {type(elements).__name__}")
    return b"".join([_packed(element, 1) for element in elements])


def _packed(element: object, depth: int) -> bytes:
    packer = _PACKERS.get(type(element))
    if packer is not None:
        return packer(element)
    if isinstance(element, tuple):
        return _packed_tuple(element, depth)
    for kind, known in _PACKERS.items():  # a subclass, such as an IntEnum
        if isinstance(element, kind):
            return known(element)
    advice = "an element is None, bytes, str, tuple, int, float, bool, UUID or SingleFloat"
    if isinstance(element, list):
        advice = "make it a tuple"
    raise TypeError(f"{_shown(element)} is {type(element).__name__}: {advice}")


def _packed_tuple(elements: tuple[Any, ...], depth: int) -> bytes:
    if depth >= MAX_DEPTH:
        raise ValueError(f"tuples nest deeper than {MAX_DEPTH}")
    inside = [b"\x00\xff" if each is None else _packed(each, depth + 1) for each in elements]
    return b"\x05%b\x00" % b"".join(inside)


def _packed_integer(number: int) -> bytes:
    size = (number.bit_length() + 7) // 8
    if size > MAX_INTEGER_BYTES:
        raise ValueError(
            f"an integer of {size} bytes is over the limit of {MAX_INTEGER_BYTES} bytes"
        )
    is_small = size <= _SMALL_INTEGER_BYTES
    if number >= 0:
        head = [_ZERO + size] if is_small else [_BIG_POSITIVE, size]
        return bytes(head) + number.to_bytes(size)
    # Negative ones as one's complement.
    head = [_ZERO - size] if is_small else [_BIG_NEGATIVE, size ^ 0xFF]
    return bytes(head) + (number + (1 << 8 * size) - 1).to_bytes(size)


def text_bytes(text: str) -> bytes:
    """``text`` as UTF-8; ValueError for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise ValueError(
            f"character {error.start} of {_shown(text)} is a lone surrogate (U+{code:04X}), "
            "which has no UTF-8: bytes can hold it, text.encode(errors='surrogatepass')"
        ) from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _terminated(kind: int, data: bytes) -> bytes:
    return b"%c%b\x00" % (kind, data.replace(b"\x00", b"\x00\xff"))


_PACKERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _none: b"\x00",
    bytes: lambda data: _terminated(_BYTES, data),
    str: lambda text: _terminated(_TEXT, text_bytes(text)),
    bool: lambda truth: bytes([_TRUE if truth else _FALSE]),  # before int, whose subclass it is
    int: _packed_integer,
    SingleFloat: lambda number: bytes([_SINGLE]) + number.ordered,
    float: lambda number: bytes([_DOUBLE]) + float_bytes(number),
    UUID: lambda identifier: bytes([_UUID]) + identifier.bytes,
}


def unpack(data: bytes) -> tuple[Any, ...]:
    """The tuple that :func:`pack` encoded.

    ValueError: not the encoding of a tuple; it says at which byte.  Each tuple has one encoding:
    integers with leading zeros, say, are refused.
    """
    elements = []
    at = 0
    while at < len(data):
        element, at = _unpacked(data, at, 1)
        elements.append(element)
    return tuple(elements)


def _unpacked(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The element at ``at``, and where the next begins."""
    code = data[at]
    if code in (_TEXT, _BYTES):
        return _unpacked_string(data, at)
    if _BIG_NEGATIVE <= code <= _BIG_POSITIVE:
        return _unpacked_integer(data, at)
    if code == _NESTED:
        return _unpacked_tuple(data, at, depth)
    if code in _CONSTANTS:
        return _CONSTANTS[code], at + 1
    if code in _FIXED:
        size, made = _FIXED[code]
        return made(_taken(data, at + 1, size)), at + 1 + size
    known = " (a versionstamp, which only FoundationDB has)" if code == 0x33 else ""
    raise ValueError(f"byte {at}: unknown type code 0x{code:02x}{known}")


# A step of the interpreter for each zero takes 200 times as long as one search.
_END_OF_STRING: Final = re.compile(rb"\x00(?!\xff)")
_CONSTANTS: Final = {_NULL: None, _FALSE: False, _TRUE: True}
_FIXED: Final[dict[int, tuple[int, Callable[[bytes], Any]]]] = {
    _SINGLE: (4, SingleFloat.from_ordered),
    _DOUBLE: (8, float_of),
    _UUID: (16, lambda data: UUID(bytes=data)),
}


def _taken(data: bytes, at: int, size: int) -> bytes:
    taken = data[at : at + size]
    if len(taken) < size:
        raise ValueError(f"byte {at}: cut off, {size - len(taken)} bytes are missing")
    return taken


def _unpacked_string(data: bytes, at: int) -> tuple[bytes | str, int]:
    ending = _END_OF_STRING.search(data, at + 1)
    if ending is None:
        raise ValueError(f"byte {at}: a string without an end")
    end = ending.start()
    found = data[at + 1 : end].replace(b"\x00\xff", b"\x00")
    if data[at] == _BYTES:
        return found, end + 1
    try:
        return found.decode(), end + 1
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {at}: a str is no UTF-8: {error.reason}") from None


def _unpacked_integer(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    start = at + 1
    negative = code < _ZERO
    if code in (_BIG_NEGATIVE, _BIG_POSITIVE):
        size = _taken(data, start, 1)[0] ^ (0xFF if negative else 0)
        start += 1
        shortest = _SMALL_INTEGER_BYTES + 1
    else:
        size = shortest = abs(code - _ZERO)
    digits = _taken(data, start, size)
    number = int.from_bytes(digits) - ((1 << 8 * size) - 1 if negative else 0)
    if size < shortest or (number.bit_length() + 7) // 8 != size:
        raise ValueError(f"byte {at}: an integer that is not in its shortest form")
    return number, start + size


def _unpacked_tuple(data: bytes, at: int, depth: int) -> tuple[tuple[Any, ...], int]:
    if depth >= MAX_DEPTH:
        raise ValueError(f"byte {at}: tuples nest deeper than {MAX_DEPTH}")
    elements: list[Any] = []
    start = at
    at += 1
    while at < len(data):
        if data[at] != _NULL:
            element, at = _unpacked(data, at, depth + 1)
            elements.append(element)
        elif data[at + 1 : at + 2] == b"\xff":
            elements.append(None)
            at += 2
        else:
            return tuple(elements), at + 1
    raise ValueError(f"byte {start}: a tuple without an end")
