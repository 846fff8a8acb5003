"""Keys that are tuples of a fixed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from lsmkv.typed.keys import Part, T, codec_advice
from lsmkv.typed.tuples import pack, unpack

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
        """The bytes of a whole tuple."""
        return pack(self._checked(key, whole=True))

    def decode(self, data: bytes, /) -> T:
        """Decode a tuple."""
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
        """The elements of ``key``."""
        return self._checked(key, whole=True)

    def from_element(self, element: Any, /) -> T:
        """The tuple of these elements."""
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
