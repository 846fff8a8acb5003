"""The text form of bytes: one line that reads back as the same bytes.

It is UTF-8, in which a backslash starts ``\\xNN`` (one byte, in hex) or ``\\\\`` (a backslash) and
nothing else.  Written as ``\\xNN`` are bytes that are not UTF-8, control characters, and characters
that would break or reorder a line, so that an entry never moves a terminal's cursor.
"""

from __future__ import annotations

import re
from typing import Final

# C0 and C1 controls, DEL, line and paragraph separators, byte order mark, bidirectional controls.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]")
_BACKSLASH: Final = re.compile(rb"\\(?:(\\)|x([0-9A-Fa-f]{2}))?")


def to_text(data: bytes) -> str:
    """``data`` in the text form.

    >>> print(to_text(b"na\\xc3\\xafve"), to_text(b"a\\tb"), to_text(b"\\xff\\\\"))
    naïve a\\x09b \\xff\\\\
    """
    if not isinstance(data, bytes):
        raise TypeError(f"data is bytes, not {type(data).__name__}")
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


def shortened(text: str, limit: int = 60) -> str:
    """``text``, cut to ``limit`` characters with an ellipsis if it is longer."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
