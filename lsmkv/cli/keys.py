"""Keys and values as people type and read them: three forms, each the same going in and coming out.

text
    UTF-8, in which a backslash starts ``\\xNN`` (one byte, in hex) or ``\\\\`` (a backslash) and
    nothing else.  Output writes bytes that are not UTF-8, control characters and characters that
    would break or reorder a line as ``\\xNN``, so an entry is always one line, never moves a
    terminal's cursor, and can be typed or loaded back as it stands.
hex
    Two hex digits a byte.
raw
    The bytes themselves.
"""

from __future__ import annotations

import enum
import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

Command = Callable[..., None]


class Form(enum.Enum):
    """How bytes are written as arguments and in output."""

    TEXT = "text"
    HEX = "hex"
    RAW = "raw"


# C0 and C1 controls, DEL, line and paragraph separators, byte order mark, bidirectional controls.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]")
_BACKSLASH: Final = re.compile(rb"\\(?:(\\)|x([0-9A-Fa-f]{2}))?")


def to_text(data: bytes) -> str:
    """``data`` in the text form.  O(len(data)).

    >>> print(to_text(b"na\\xc3\\xafve"), to_text(b"a\\tb"), to_text(b"\\xff\\\\"))
    naïve a\\x09b \\xff\\\\
    """
    text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return _UNSAFE.sub(_as_escapes, text)


def from_text(text: str) -> bytes:
    """The bytes that ``text``, in the text form, stands for: the inverse of :func:`to_text`.

    Raises:
        ValueError: bytes that are not UTF-8, or a backslash that starts no escape.

    >>> from_text("a\\\\x09b")
    b'a\\tb'
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} is not UTF-8: write the byte as \\xNN"
        ) from None
    return _BACKSLASH.sub(_unescaped, data) if b"\\" in data else data


def _as_escapes(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return b"\\"
    if match[2]:
        return bytes([int(match[2], 16)])
    raise ValueError(
        f"the backslash at byte {match.start() + 1} starts neither \\xNN nor \\\\: "
        "write \\\\ for a backslash"
    )


def parse(text: str, form: Form) -> bytes:
    """The bytes that ``text`` stands for in ``form``.

    Raises:
        ValueError: ``text`` is not of that form.
    """
    if form is Form.TEXT:
        return from_text(text)
    if form is Form.RAW:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{shortened(text)!r} is not hex: write two hex digits a byte") from None


def render(data: bytes, form: Form) -> bytes:
    """``data`` in ``form``, as it is to be written to a stream."""
    if form is Form.TEXT:
        return to_text(data).encode("utf-8")
    if form is Form.HEX:
        return data.hex().encode("ascii")
    return data


def shortened(text: str, limit: int = 60) -> str:
    """``text``, or its beginning and an ellipsis when it is longer than ``limit``."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def json_text(data: bytes) -> str | dict[str, str]:
    """``data`` for JSON: a string if it is UTF-8, else ``{"hex": "..."}``.

    >>> json_text(b"abc"), json_text(b"\\xff\\x00")
    ('abc', {'hex': 'ff00'})
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def jsonable(value: object) -> object:
    """A report with every key and value in it, however deep, as :func:`json_text` writes it.

    What the report has in hex, under names ending in ``_hex``, loses that ending.

    >>> jsonable({"first_hex": "6162", "counts": (1, 2)})
    {'first': 'ab', 'counts': [1, 2]}
    """
    if isinstance(value, bytes):
        return json_text(value)
    if isinstance(value, Mapping):
        return dict(_named(name, item) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value


def _named(name: str, value: object) -> tuple[str, object]:
    if name.endswith("_hex") and (value is None or isinstance(value, str)):
        return name[: -len("_hex")], None if value is None else json_text(bytes.fromhex(value))
    return name, jsonable(value)


def argument_bytes(argument: str, form: Form, what: str) -> bytes:
    """The bytes of a command-line argument.

    Raises:
        click.UsageError: it is not of that form.
    """
    if form is Form.RAW:
        return os.fsencode(argument)
    try:
        return parse(argument, form)
    except ValueError as error:
        raise click.UsageError(f"{what}: {error}") from None


def with_form(command: Command) -> Command:
    """Add ``--hex`` and ``--raw``; the command gets a ``form``."""

    @click.option(
        "--hex", "as_hex", is_flag=True, help="Keys and values are hex, two digits a byte."
    )
    @click.option("--raw", "as_raw", is_flag=True, help="Keys and values are bytes as they come.")
    @functools.wraps(command)
    def wrapped(*arguments: Any, as_hex: bool, as_raw: bool, **options: Any) -> None:
        if as_hex and as_raw:
            raise click.UsageError("--hex and --raw exclude each other")
        form = Form.HEX if as_hex else Form.RAW if as_raw else Form.TEXT
        command(*arguments, form=form, **options)

    return wrapped
