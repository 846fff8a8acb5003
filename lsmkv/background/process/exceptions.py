"""Exceptions as data, so that another process can raise them again."""

from __future__ import annotations

import builtins
import contextlib
from typing import Final

import msgspec

from lsmkv.errors import CorruptionError, Error, UnsupportedFormatError

_ENCODING: Final = ("utf-8", "surrogateescape")  # paths need not be UTF-8
_OWN: Final = {kind.__name__: kind for kind in (CorruptionError, UnsupportedFormatError)}


class Shown(msgspec.Struct, frozen=True):
    """A value of another process, known by its ``repr`` alone."""

    text: str

    def __repr__(self) -> str:
        return self.text


Value = bytes | int | None | Shown  # a string is sent as its encoded bytes


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An exception as data; ``trace`` is empty if the message says enough."""

    kind: str
    message: bytes
    arguments: list[Value]
    attributes: dict[str, Value]
    trace: str = ""


def failure_of(error: Exception, trace: str) -> Failure:
    kind = type(error).__name__
    arguments = error.args
    if isinstance(error, OSError) and error.filename is not None:
        arguments = (*arguments, error.filename, None, error.filename2)
    is_clear = kind in _OWN or isinstance(error, OSError)
    return Failure(
        kind=kind,
        message=str(error).encode(*_ENCODING),
        arguments=[_packed(argument) for argument in arguments],
        attributes={name: _packed(value) for name, value in vars(error).items()},
        trace="" if is_clear else trace,
    )


def error_of(failure: Failure) -> Exception:
    """The exception again; an :class:`Error` if its class is not known."""
    arguments = [_unpacked(value) for value in failure.arguments]
    error: Exception
    if failure.kind in _OWN:
        kind = _OWN[failure.kind]
        error = kind.__new__(kind, *arguments)  # the constructor takes other arguments
        vars(error).update({name: _unpacked(value) for name, value in failure.attributes.items()})
        return error
    error = Error(f"{failure.kind}: {failure.message.decode(*_ENCODING)}")
    known = getattr(builtins, failure.kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        with contextlib.suppress(TypeError):  # an argument of another type was sent as its repr
            error = known(*arguments)
    if failure.trace:
        error.add_note(f"In the helper process:\n{failure.trace}")
    return error


def _packed(value: object) -> Value:
    if isinstance(value, str):
        return value.encode(*_ENCODING)
    is_plain = value is None or (type(value) is int and -(1 << 63) <= value < 1 << 64)
    return value if is_plain else Shown(repr(value))  # type: ignore[return-value]


def _unpacked(value: Value) -> object:
    return value.decode(*_ENCODING) if isinstance(value, bytes) else value
