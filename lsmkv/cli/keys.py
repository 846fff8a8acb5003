"""Keys and values as people type and read them.  Each of three forms reads back what it writes.

text
    The form of :mod:`lsmkv.encoding.text_form`.
hex
    Two hex digits a byte.
raw
    The bytes themselves.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from lsmkv.encoding.text_form import from_text, shortened, to_text
from lsmkv.inspection.report import Report


class Form(enum.Enum):
    """How arguments and output write bytes."""

    TEXT = "text"
    HEX = "hex"
    RAW = "raw"


def parse(text: str, form: Form) -> bytes:
    """The bytes that ``text`` means; ValueError if it is not of that form."""
    if form is Form.TEXT:
        return from_text(text)
    if form is Form.RAW:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{shortened(text)!r} is not hex: write two hex digits a byte") from None


def render(data: bytes, form: Form) -> bytes:
    if form is Form.TEXT:
        return to_text(data).encode("utf-8")
    if form is Form.HEX:
        return data.hex().encode("ascii")
    return data


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
    """A report, or what holds some, with bytes as :func:`json_text` writes them.

    >>> jsonable({"first": b"ab", "counts": (1, 2)})
    {'first': 'ab', 'counts': [1, 2]}
    """
    if isinstance(value, Report):
        value = value.values()
    if isinstance(value, bytes):
        return json_text(value)
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, Mapping):
        return {name: jsonable(item) for name, item in value.items()}
    return value
