"""Codecs of values: JSON and MessagePack.  Codecs of keys serve, too."""

from __future__ import annotations

import math
from typing import Any, overload

import msgspec

from lsmkv.typed.keys import Codec, T

_REFUSALS = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


class _Structured(Codec[T]):
    """The base of both formats: a type, and the check that a value reads back."""

    def __init__(self, kind: Any, encoder: Any, decoder: Any) -> None:
        self.kind = kind
        self._encode = encoder.encode
        self._decode = decoder.decode

    def encode(self, value: T, /) -> bytes:
        """The bytes of ``value``, tried whether they read back."""
        try:
            data: bytes = self._encode(value)
            back = self._decode(data)
        except TypeError as error:
            raise TypeError(f"{error}") from error
        except _REFUSALS as error:
            raise ValueError(f"{error}") from error
        if self.kind is Any and back != value and repr(back) != repr(value):  # NaN is not itself
            raise ValueError(
                f"it would read back as {type(back).__name__}, {repr(back)[:80]}: {self._advice(value)}"
            )
        return data

    def _advice(self, value: object) -> str:
        name = type(self).__name__
        if _has_no_json(value):
            return f"{name} has no NaN and no infinity, MsgPack has"
        if type(value) in (list, dict):  # what would change is in it
            example = "dict[int, str]" if type(value) is dict else "list[tuple[int, ...]]"
            return f"give the codec its whole type, such as {name}({example})"
        return f"give the codec its type, {name}({type(value).__name__})"

    def decode(self, data: bytes, /) -> T:
        try:
            value: T = self._decode(data)
        except _REFUSALS as error:
            raise ValueError(f"{error}") from error
        return value

    def __repr__(self) -> str:
        if self.kind is Any:
            return f"{type(self).__name__}()"
        kind = self.kind.__qualname__ if isinstance(self.kind, type) else self.kind
        return f"{type(self).__name__}({kind})"


def _has_no_json(value: object) -> bool:
    """Whether there is a NaN or an infinity in it."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_json, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_no_json, value))


class Json(_Structured[T]):
    """JSON, by msgspec: of anything, or of one type.

    Args:
        kind: a dataclass, ``msgspec.Struct``, TypedDict, attrs class, ``list[int]``, ...; msgspec's
            documentation lists all.  Without it, values are what JSON has: dict with str keys, list, str,
            int, finite float, bool and None.

    A value that would not read back as ``kind`` is refused before it is stored; without a ``kind``, one
    that would not read back as it is.

    >>> codec = Json(dict[str, int])
    >>> codec.decode(codec.encode({"a": 1}))
    {'a': 1}
    """

    @overload
    def __init__(self: Json[Any]) -> None: ...
    @overload
    def __init__(self, kind: type[T]) -> None: ...
    @overload
    def __init__(self, kind: object) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        super().__init__(kind, msgspec.json.Encoder(), msgspec.json.Decoder(kind))


class MsgPack(_Structured[T]):
    """MessagePack, by msgspec: smaller than JSON, and with bytes.

    Args:
        kind: as that of :class:`Json`.

    >>> MsgPack(list[bytes]).encode([b"\\x00"])
    b'\\x91\\xc4\\x01\\x00'
    """

    @overload
    def __init__(self: MsgPack[Any]) -> None: ...
    @overload
    def __init__(self, kind: type[T]) -> None: ...
    @overload
    def __init__(self, kind: object) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        super().__init__(kind, msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(kind))
