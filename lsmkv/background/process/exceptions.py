"""Exceptions as data, to be raised again in another process just as they were."""

from __future__ import annotations

import builtins
from typing import Final

import msgspec

from lsmkv.errors import CorruptionError, Error, UnsupportedFormatError

# Paths need not be UTF-8; strings with such parts go as the bytes that they stand for.
_HOW: Final = ("utf-8", "surrogateescape")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An exception.

    Attributes:
        kind: name of its class.
        text: what was found wrong: its message, or of a CorruptionError the reason.
        path, other_path: the files that it names.
        code: errno.
        offset: where in the file the damage is.
        expected, got: of a CorruptionError, as they are shown.
        trace: where it was raised, for people; empty where type and message tell enough.
    """

    kind: str
    text: bytes = b""
    path: bytes | None = None
    other_path: bytes | None = None
    code: int | None = None
    offset: int | None = None
    expected: str | None = None
    got: str | None = None
    trace: str = ""


class _Shown:
    """A value of another process: known only by what it is shown as."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


def failure_of(error: BaseException, trace: str) -> Failure:
    """``error`` as data; ``trace`` goes along where it is not one to be expected."""
    kind = type(error).__name__
    if isinstance(error, CorruptionError):
        return Failure(
            kind=kind,
            text=_to_bytes(error.reason),
            path=_to_bytes(error.path),
            offset=error.offset,
            expected=None if error.expected is None else repr(error.expected),
            got=None if error.got is None else repr(error.got),
        )
    if isinstance(error, UnsupportedFormatError):
        return Failure(kind=kind, text=_to_bytes(error.reason), path=_to_bytes(error.path))
    if isinstance(error, OSError) and error.errno is not None:
        return Failure(
            kind="OSError",  # which picks its subclass by errno
            text=_to_bytes(error.strerror or ""),
            path=_path_of(error.filename),
            other_path=_path_of(error.filename2),
            code=error.errno,
        )
    return Failure(kind=kind, text=_to_bytes(str(error)), trace=trace)


def error_of(failure: Failure) -> Exception:
    """The exception that ``failure`` was made of.

    One that is neither this package's nor built in comes as an :class:`~lsmkv.errors.Error`.
    """
    text = failure.text.decode(*_HOW)
    path = None if failure.path is None else failure.path.decode(*_HOW)
    if failure.kind == "CorruptionError":
        assert path is not None
        return CorruptionError(
            path, failure.offset, text, expected=_value(failure.expected), got=_value(failure.got)
        )
    if failure.kind == "UnsupportedFormatError":
        assert path is not None
        return UnsupportedFormatError(path, text)
    if failure.code is not None:
        if failure.other_path is not None:
            return OSError(failure.code, text, path, None, failure.other_path.decode(*_HOW))
        return OSError(failure.code, text) if path is None else OSError(failure.code, text, path)
    known = getattr(builtins, failure.kind, None)
    error: Exception
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            error = known(text)
        except TypeError:  # one that wants more than a message
            error = Error(f"{failure.kind}: {text}")
    else:
        error = Error(f"{failure.kind}: {text}")
    if failure.trace:
        error.add_note(f"In the helper process:\n{failure.trace}")
    return error


def _value(shown: str | None) -> object:
    """What ``repr`` showed: whole numbers and None as such, and the rest to be shown only."""
    if shown is None:
        return None
    return int(shown) if shown.removeprefix("-").isdecimal() else _Shown(shown)


def _path_of(name: object) -> bytes | None:
    return None if name is None else name if isinstance(name, bytes) else _to_bytes(str(name))


def _to_bytes(text: str) -> bytes:
    return text.encode(*_HOW)
