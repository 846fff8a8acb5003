"""Keys and values as people type and read them.  Each of three forms reads back what it writes.

text
    UTF-8, in which a backslash starts ``\\xNN`` (one byte, in hex) or ``\\\\`` (a backslash) and
    nothing else.  Output writes as ``\\xNN`` the bytes that are not UTF-8, control characters, and
    characters that would break or reorder a line.  So an entry is always one line and never moves
    a terminal's cursor.
hex
    Two hex digits a byte.
raw
    The bytes themselves.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final


class Form(enum.Enum):
    """How arguments and output write bytes."""

    TEXT = "text"
    HEX = "hex"
    RAW = "raw"


# C0 and C1 controls, DEL, line and paragraph separators, byte order mark, bidirectional controls.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]")
_BACKSLASH: Final = re.compile(rb"\\(?:(\\)|x([0-9A-Fa-f]{2}))?")


def to_text(data: bytes) -> str:
    """``data`` in the text form.

    >>> print(to_text(b"na\\xc3\\xafve"), to_text(b"a\\tb"), to_text(b"\\xff\\\\"))
    naïve a\\x09b \\xff\\\\
    """
    text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return _UNSAFE.sub(_as_escapes, text)


def from_text(text: str) -> bytes:
    """The inverse of :func:`to_text`.

    ValueError for characters that are not UTF-8, or a backslash that starts no escape.

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


def shortened(text: str, limit: int = 60) -> str:
    """``text``, cut to ``limit`` characters with an ellipsis if it is longer."""
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
    """A report with its keys and values as :func:`json_text` writes them.

    Names of hex strings lose their ending ``_hex``, because the text is no hex any more.

    >>> jsonable({"first_hex": "6162", "counts": (1, 2)})
    {'first': 'ab', 'counts': [1, 2]}
    """
    if isinstance(value, bytes):
        return json_text(value)
    if isinstance(value, Mapping):
        return dict(_jsonable_field(name, item) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value


def _jsonable_field(name: str, value: object) -> tuple[str, object]:
    if name.endswith("_hex") and (value is None or isinstance(value, str)):
        return name.removesuffix("_hex"), None if value is None else json_text(bytes.fromhex(value))
    return name, jsonable(value)
