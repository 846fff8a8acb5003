"""Values that come back from the cache as they were, without pickle."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from lsmkv.typed import Codec, Json, MsgPack

_BYTES: Final = b"b"
_TEXT: Final = b"t"
_INTEGER: Final = b"i"  # that MessagePack has no room for
_STRUCTURE: Final = b"m"

_MESSAGE_PACK: Final = MsgPack()
_ATOMS: Final = frozenset((str, bytes, int, float, bool, type(None)))
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_SHOWN: Final = 80
_DEEPEST: Final = 200  # well within the recursion limit, also where it is decoded


class PlainValue(Codec[Any]):
    """Bytes, str, numbers, bool, None, and lists and dicts of them.

    Structures are stored as MessagePack.  It refuses what would come back as something else, also deep
    inside: a tuple, a set, a date, a dataclass, a bytearray, an enum or another subclass.

    >>> codec = PlainValue()
    >>> codec.decode(codec.encode({"sizes": [1, 2.5], "body": b"..."}))
    {'sizes': [1, 2.5], 'body': b'...'}
    >>> codec.encode({"sizes": (1, 2)})
    Traceback (most recent call last):
        ...
    TypeError: value['sizes'] is tuple, which would come back as list: make it a list
    """

    def encode(self, value: Any, /) -> bytes:
        """The bytes of ``value``.

        TypeError: it, or a part of it, is of another type.  ValueError: a structure has an integer of
        over 64 bits or nests deeper than 200 levels, or a text has a lone surrogate.
        """
        kind = type(value)
        if kind is bytes:
            return _BYTES + bytes(value)
        if kind is int and not _LEAST <= value <= _MOST:
            return _INTEGER + int(value).to_bytes(value.bit_length() // 8 + 1, signed=True)
        if not _is_plain(value, _DEEPEST):
            _check(value, "value", _DEEPEST)
        try:
            return (
                _TEXT + value.encode() if kind is str else _STRUCTURE + _MESSAGE_PACK.encode(value)
            )
        except (TypeError, ValueError):
            _check(value, "value", _DEEPEST)  # says where and why, mostly
            raise

    def decode(self, data: bytes, /) -> Any:
        """Decode a value."""
        kind, rest = data[:1], data[1:]
        if kind == _BYTES:
            return rest
        if kind == _TEXT:
            return rest.decode()
        if kind == _STRUCTURE:
            return _MESSAGE_PACK.decode(rest)
        if kind == _INTEGER:
            return int.from_bytes(rest, signed=True)
        raise ValueError(f"a value has no kind {kind!r}")


def _is_plain(value: Any, depth: int) -> bool:
    """Whether all is of types that come back."""
    kind = type(value)
    if kind is not list and kind is not dict:
        return kind in _ATOMS
    if kind is dict and not _ATOMS.issuperset(map(type, value)):
        return False
    parts = value.values() if kind is dict else value
    if _ATOMS.issuperset(map(type, parts)):
        return depth > 0
    return depth > 0 and all(_is_plain(part, depth - 1) for part in parts)


def _check(value: Any, name: str, depth: int) -> None:
    """Raise TypeError or ValueError for a part that is refused."""
    kind = type(value)
    if kind in (list, dict) and depth <= 0:
        raise ValueError(
            f"{name[:_SHOWN]}... is nested deeper than {_DEEPEST} levels, or in itself: flatten it"
        )
    if kind in (list, dict):
        for key, part in value.items() if kind is dict else enumerate(value):
            if kind is dict:
                _check_key(key, key, name)
            _check(part, f"{name}[{key!r}]", depth - 1)
    elif kind is str:
        _check_text(value, name)
    elif kind not in _ATOMS:
        raise _refusal(value, name)


def _check_key(part: object, key: object, name: str) -> None:
    """Refuse a dict's key for this part of it."""
    if type(part) is tuple:
        for inner in part:
            _check_key(inner, key, name)
    elif type(part) is str:
        _check_text(part, f"{name} has a key with a text that")
    elif type(part) not in _ATOMS:
        raise TypeError(
            f"{name} has the key {key!r}, with a {type(part).__name__}: "
            "keys of a dict are str, bytes, numbers, bool, None or tuples of them"
        )


def _check_text(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
        raise ValueError(
            f"{name} is {shown}, with a lone surrogate at {error.start}, which has no UTF-8: "
            "store bytes, text.encode(errors='surrogatepass')"
        ) from None


def _refusal(value: object, name: str) -> TypeError:
    kind = type(value).__name__
    for kinds, back, article in (((tuple,), "list", "a "), ((bytearray, memoryview), "bytes", "")):
        if isinstance(value, kinds):
            return TypeError(
                f"{name} is {kind}, which would come back as {back}: make it {article}{back}"
            )
    advice = "convert it"
    with suppress(TypeError, ValueError):
        Json(type(value)).encode(value)
        whole = kind if name == "value" else "..."
        advice += (
            ", or open the cache with a codec for the type of its values: "
            f"Cache(path, value=lsmkv.typed.Json({whole}))"
        )
    return TypeError(
        f"{name} is {kind}: a value is bytes, str, int, float, bool, None, or a list or dict of them; "
        f"{advice}"
    )
