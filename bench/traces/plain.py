"""Plain lines: what ``lsmkv.layers.TracedDB`` records, or keys to look up, one a line.

``put KEY SIZE``, ``put KEY SIZE TTL_S``, ``get KEY``, ``multi-get KEY ...``, ``delete KEY``,
``delete-range FIRST END``, ``scan FIRST COUNT`` and ``scan-reverse LAST COUNT``; ``time SECONDS`` is the
time of the lines after it.  A key has letters, digits and ``_.~/:-``; each other byte is ``%`` and two
hexadecimal digits (``urllib.parse.quote``).  ``-`` alone is the empty key, or no end.

A line without a blank is a key as it stands: it is looked up.
"""

from __future__ import annotations

from typing import ClassVar, Final
from urllib.parse import unquote_to_bytes

from .base import Operation, TraceFormat

_SINGLE: Final = (b"get", b"delete")


class Plain(TraceFormat):
    name: ClassVar[str] = "plain"
    form: ClassVar[str] = "put KEY SIZE, get KEY, scan FIRST COUNT and the like, or one key"
    takes_any_word: ClassVar[bool] = True

    def operation(self, line: bytes) -> Operation | None:
        word, *words = line.split(b" ")
        if not words:
            return Operation("get", (line,)) if line else None
        if word == b"time":
            (seconds,) = words
            return Operation("time", time_s=int(seconds))
        if word == b"multi-get":
            return Operation("multi-get", tuple(map(_key, words)))
        if word == b"put":
            key, size, ttl_s = [*words, b"0"][:3] if len(words) < 3 else words
            return Operation("put", (_key(key),), int(size), int(ttl_s))
        if word in _SINGLE:
            (key,) = words
            return Operation("get" if word == b"get" else "delete", (_key(key),))
        first, other = words
        if word == b"delete-range":
            return Operation(
                "delete-range", (_key(first), *([] if other == b"-" else [_key(other)]))
            )
        if word not in (b"scan", b"scan-reverse"):
            raise ValueError(word)
        is_reverse = word == b"scan-reverse"
        return Operation("scan", (_key(first),), limit=int(other), is_reverse=is_reverse)


def _key(text: bytes) -> bytes:
    return b"" if text == b"-" else unquote_to_bytes(text)
