"""Values that come back from the cache as they were, without pickle."""

from __future__ import annotations

from typing import Any, Final

from lsmkv.typed import Codec, Json, MsgPack

_BYTES: Final = b"b"
_TEXT: Final = b"t"
_INTEGER: Final = b"i"  # that MessagePack has no room for
_STRUCTURE: Final = b"m"

_MESSAGE_PACK: Final = MsgPack()
_ATOMS: Final = (str, bytes, int, float, bool, type(None))
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class PlainValue(Codec[Any]):
    """Bytes, str, numbers, bool, None, and lists and dicts of them.

    Structures are stored as MessagePack.  It refuses what would come back as something else: a tuple, a
    set, a date, a dataclass.

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

        TypeError: it is of another type.  ValueError: a structure has an integer of over 64 bits, or
        nests too deep.
        """
        kind = type(value)
        if kind is bytes:
            return _BYTES + bytes(value)
        if kind is str:
            return _TEXT + str(value).encode()
        if kind is int and not _LEAST <= value <= _MOST:
            return _INTEGER + int(value).to_bytes(value.bit_length() // 8 + 1, signed=True)
        if kind not in (int, float, bool, type(None), list, dict):
            raise _refusal(value, "value")
        try:
            data = _MESSAGE_PACK.encode(value)
            is_same = kind not in (list, dict) or _MESSAGE_PACK.decode(data) == value
        except (TypeError, ValueError):
            _check(value, "value")  # says where and why, mostly
            raise
        if not is_same:
            _check(value, "value")
        return _STRUCTURE + data

    def decode(self, data: bytes, /) -> Any:
        """The value whose bytes these are."""
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


def _check(value: object, name: str) -> None:
    """Raise TypeError for a part that would come back as something else."""
    if type(value) is list:
        for number, part in enumerate(value):
            _check(part, f"{name}[{number}]")
    elif type(value) is dict:
        for key, part in value.items():
            if type(key) not in (*_ATOMS, tuple):
                raise TypeError(
                    f"{name} has the key {key!r}, a {type(key).__name__}: "
                    "keys of a dict are str, bytes, numbers, bool, None or tuples of them"
                )
            _check(part, f"{name}[{key!r}]")
    elif type(value) not in _ATOMS:
        raise _refusal(value, name)


def _refusal(value: object, name: str) -> TypeError:
    kind = type(value).__name__
    if isinstance(value, tuple):
        return TypeError(f"{name} is {kind}, which would come back as list: make it a list")
    if isinstance(value, (bytearray, memoryview)):
        return TypeError(f"{name} is {kind}, which would come back as bytes: make it bytes")
    advice = "convert it"
    if _is_for_json(value):
        whole = kind if name == "value" else "..."
        advice += (
            ", or open the cache with a codec for the type of its values: "
            f"Cache(path, value=lsmkv.typed.Json({whole}))"
        )
    return TypeError(
        f"{name} is {kind}: a value is bytes, str, int, float, bool, None, or a list or dict of them; "
        f"{advice}"
    )


def _is_for_json(value: object) -> bool:
    try:
        Json(type(value)).encode(value)
    except (TypeError, ValueError):
        return False
    return True
