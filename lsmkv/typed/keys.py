"""Codecs of keys: bytes in the order of the keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, overload
from uuid import UUID

from lsmkv.typed.tuples import float_bytes, float_of, pack, text_bytes, unpack

T = TypeVar("T")

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


_CODEC_NAMES: Final[dict[object, str]] = {
    str: "Str",
    bytes: "Bytes",
    int: "Int64",
    float: "Float",
    UUID: "Uuid",
    dict: "Json",
    list: "Json",
}


def codec_advice(given: object) -> str:
    """The codec to write for a type; empty for anything else."""
    if not isinstance(given, type):
        return ""
    return f": write {_CODEC_NAMES.get(given, given.__name__)}()"


class Codec(ABC, Generic[T]):
    """Turns objects into bytes and back.

    ``encode`` raises TypeError or ValueError for an object that it does not take, and ``decode``
    ValueError for bytes that it did not make.  The message is the reason; who calls adds the key.
    """

    @abstractmethod
    def encode(self, value: T, /) -> bytes:
        """The bytes of ``value``."""

    @abstractmethod
    def decode(self, data: bytes, /) -> T:
        """Decode an object."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class KeyCodec(Codec[T]):
    """A codec that keeps order; each key has one encoding, which no other shares."""

    def bound(self, key: Any, /) -> bytes:
        """The place of ``start`` or ``stop`` of a range; more than keys may have one."""
        return self.encode(key)

    def prefix(self, head: Any, /) -> tuple[bytes, bytes | None]:
        """The bytes with which keys of a prefix begin.

        Next to it: what they are all below, or None if the first alone tells.

        TypeError: keys of this kind have no prefixes.
        """
        raise TypeError(f"keys of {self!r} have no prefixes: use start and stop")


class Part(KeyCodec[T]):
    """A codec whose keys may also be parts of :class:`Tuple`.

    For a kind of your own, derive from this and say how it is an element of a tuple (None, bytes, str,
    int, float, bool, UUID or a tuple).  Its order is then that of these elements.

    >>> import datetime
    >>> from lsmkv.typed import Tuple
    >>> class Day(Part[datetime.date]):
    ...     def to_element(self, key):
    ...         return key.isoformat()
    ...     def from_element(self, element):
    ...         return datetime.date.fromisoformat(element)
    >>> codec = Tuple(Str(), Day())
    >>> codec.decode(codec.encode(("ada", datetime.date(1815, 12, 10))))
    ('ada', datetime.date(1815, 12, 10))
    """

    @abstractmethod
    def to_element(self, key: Any, /) -> Any:
        """``key`` as an element of a tuple; TypeError or ValueError if it is no such key."""

    @abstractmethod
    def from_element(self, element: Any, /) -> T:
        """The key of an element; TypeError or ValueError if there is none."""

    def encode(self, key: T, /) -> bytes:
        """The bytes of ``key``: those of a tuple of this one element."""
        return pack((self.to_element(key),))

    def decode(self, data: bytes, /) -> T:
        elements = unpack(data)
        if len(elements) != 1:
            raise ValueError(f"{len(elements)} elements instead of one")
        return self.from_element(elements[0])


def _expect(key: object, kind: type[T], what: str = "") -> T:
    if not isinstance(key, kind) or isinstance(key, bool):
        name = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
        raise TypeError(f"{key!r} is {type(key).__name__}, not {what or name}")
    return key


class _Element(Part[T]):
    """The base of parts whose keys are elements themselves."""

    _kind: type[T]

    def to_element(self, key: Any, /) -> T:
        return _expect(key, self._kind)

    def from_element(self, element: Any, /) -> T:
        return _expect(element, self._kind)


class Str(_Element[str]):
    """Texts in the order of their code points, as UTF-8.

    A prefix is a text: the keys that start with it.  ValueError: a lone surrogate, which has no UTF-8.

    >>> Str().encode("é") < Str().encode("日本")
    True
    """

    _kind = str

    def encode(self, key: str, /) -> bytes:
        return text_bytes(_expect(key, str))

    def decode(self, data: bytes, /) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"no UTF-8 at byte {error.start}: {error.reason}") from None

    def prefix(self, head: Any, /) -> tuple[bytes, bytes | None]:
        return self.encode(head), None


class Bytes(_Element[bytes]):
    """Bytes as they are, in their order.  A prefix is bytes."""

    _kind = bytes

    def encode(self, key: bytes, /) -> bytes:
        return _expect(key, bytes)

    def decode(self, data: bytes, /) -> bytes:
        return data

    def prefix(self, head: Any, /) -> tuple[bytes, bytes | None]:
        return self.encode(head), None


class Int64(Part[int]):
    """Integers from -2**63 to 2**63 - 1, in eight bytes; no bool.

    In a tuple they take one to nine bytes, the fewer the nearer to zero.

    >>> sorted([5, -5, 300], key=Int64().encode)
    [-5, 5, 300]
    """

    def encode(self, key: int, /) -> bytes:
        """Eight bytes, big-endian, with the sign bit flipped."""
        return (self.to_element(key) - _INT64_MIN).to_bytes(8)

    def decode(self, data: bytes, /) -> int:
        return int.from_bytes(_sized(data, 8)) + _INT64_MIN

    def to_element(self, key: Any, /) -> int:
        number = int(_expect(key, int))
        if not _INT64_MIN <= number <= _INT64_MAX:
            raise ValueError(f"{number} is outside the range of 64 bits, -2**63 <= key < 2**63")
        return number

    from_element = to_element


class Float(Part[float]):
    """Floats in IEEE 754's total order, in eight bytes.

    That is negative NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN: -0.0 and 0.0 are different keys.  An
    int that a float represents exactly is taken, and read as a float.

    >>> sorted([0.0, 2.5, -0.0, -3.0], key=Float().encode)
    [-3.0, -0.0, 0.0, 2.5]
    """

    def encode(self, key: float, /) -> bytes:
        """Eight bytes, big-endian, with the sign or all bits flipped."""
        return float_bytes(self.to_element(key))

    def decode(self, data: bytes, /) -> float:
        return float_of(_sized(data, 8))

    def to_element(self, key: Any, /) -> float:
        if isinstance(key, float):
            return float(key)
        number = _expect(key, int, "float")
        try:
            exact = float(number) == number
        except OverflowError:
            exact = False
        if not exact:
            raise ValueError(f"{number} is an int that no float represents exactly")
        return float(number)

    def from_element(self, element: Any, /) -> float:
        return _expect(element, float)


class Uuid(_Element[UUID]):
    """UUIDs in the order of their sixteen bytes."""

    _kind = UUID

    def encode(self, key: UUID, /) -> bytes:
        return _expect(key, UUID).bytes

    def decode(self, data: bytes, /) -> UUID:
        return UUID(bytes=_sized(data, 16))


def _sized(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes instead of {size}")
    return data


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


class Tuple(Part[T]):
    """Tuples with one codec for each part, in the encoding of :mod:`lsmkv.typed.tuples`.

    Tuples sort by their first part, then by the second, and so on.  Shorter tuples are prefixes, and
    bounds of ranges.  ``Tuple()`` without parts takes any tuple of None, bytes, str, int, float, bool,
    UUID and tuples.

    >>> from lsmkv.typed import Int64, Str
    >>> codec = Tuple(Str(), Int64())
    >>> codec.encode(("ada", 9)) < codec.encode(("ada", 10)) < codec.encode(("alan", 1))
    True
    >>> codec.encode(("ada", "9"))
    Traceback (most recent call last):
    TypeError: part 2: '9' is str, not int
    """

    @overload
    def __init__(self: Tuple[tuple[Any, ...]], /) -> None: ...
    @overload
    def __init__(self: Tuple[tuple[A]], a: Part[A], /) -> None: ...
    @overload
    def __init__(self: Tuple[tuple[A, B]], a: Part[A], b: Part[B], /) -> None: ...
    @overload
    def __init__(self: Tuple[tuple[A, B, C]], a: Part[A], b: Part[B], c: Part[C], /) -> None: ...
    @overload
    def __init__(
        self: Tuple[tuple[A, B, C, D]], a: Part[A], b: Part[B], c: Part[C], d: Part[D], /
    ) -> None: ...
    @overload
    def __init__(
        self: Tuple[tuple[A, B, C, D, E]],
        a: Part[A],
        b: Part[B],
        c: Part[C],
        d: Part[D],
        e: Part[E],
        /,
    ) -> None: ...
    @overload
    def __init__(
        self: Tuple[tuple[A, B, C, D, E, F]],
        a: Part[A],
        b: Part[B],
        c: Part[C],
        d: Part[D],
        e: Part[E],
        f: Part[F],
        /,
    ) -> None: ...
    @overload
    def __init__(self: Tuple[tuple[Any, ...]], /, *parts: Part[Any]) -> None: ...
    def __init__(self, *parts: Any) -> None:
        for part in parts:
            if not isinstance(part, Part):
                advice = codec_advice(part)
                raise TypeError(f"{part!r} is no codec that a tuple may have as a part{advice}")
        self.parts: tuple[Part[Any], ...] = parts
        self._to_elements = [part.to_element for part in parts]
        self._from_elements = [part.from_element for part in parts]

    def _checked(self, key: object, *, whole: bool) -> tuple[Any, ...]:
        """``key`` as elements; ``whole``: with every part."""
        if not isinstance(key, tuple):
            raise TypeError(f"{key!r} is {type(key).__name__}, not a tuple")
        if not self.parts:
            return key
        count = len(self.parts)
        if len(key) > count or (whole and len(key) < count):
            raise ValueError(f"{len(key)} parts instead of {'' if whole else 'at most '}{count}")
        return _translated(self._to_elements, key)

    def encode(self, key: T, /) -> bytes:
        return pack(self._checked(key, whole=True))

    def decode(self, data: bytes, /) -> T:
        return self.from_element(unpack(data))

    def bound(self, key: Any, /) -> bytes:
        """The bytes of a tuple, or of its first parts."""
        return pack(self._checked(key, whole=False))

    def prefix(self, head: Any, /) -> tuple[bytes, bytes | None]:
        """The bytes of the first parts, and their end."""
        data = self.bound(head)
        # 0xff begins no element.  After a str or bytes it would continue these.
        return data, data + b"\xff"

    def to_element(self, key: Any, /) -> tuple[Any, ...]:
        return self._checked(key, whole=True)

    def from_element(self, element: Any, /) -> T:
        if not isinstance(element, tuple):
            raise TypeError(f"{element!r} is {type(element).__name__}, not a tuple")
        key: Any = element
        if self.parts:
            if len(element) != len(self.parts):
                raise ValueError(f"{len(element)} parts instead of {len(self.parts)}")
            key = _translated(self._from_elements, element)
        found: T = key
        return found

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self.parts))})"


def _translated(parts: list[Callable[[Any], Any]], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each of ``values`` by its part; an error says which."""
    done: list[Any] = []
    try:
        for translate, value in zip(parts, values, strict=False):
            done.append(translate(value))
    except TypeError as error:
        raise TypeError(f"part {len(done) + 1}: {error}") from error
    except ValueError as error:
        raise ValueError(f"part {len(done) + 1}: {error}") from error
    return tuple(done)
