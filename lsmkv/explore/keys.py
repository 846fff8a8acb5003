"""Keys on the page: as text for the screen, and as places on the axis of keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

import lsmkv
from lsmkv.explore.contract import Key

TEXT_CHARACTERS: Final = 60
_HEX_BYTES: Final = 32


def on_screen(key: bytes) -> Key:
    """``key`` for the screen, cut to a readable length."""
    return Key(text=text_of(key), hex=key[:_HEX_BYTES].hex(), byte_count=len(key))


def text_of(data: bytes, characters: int = TEXT_CHARACTERS) -> str:
    """The start of ``data`` in the text form; long data is not converted whole."""
    text = lsmkv.to_text(data[: 4 * characters])
    is_whole = len(text) <= characters and len(data) <= 4 * characters
    return text if is_whole else text[: characters - 3] + "..."


class KeyAxis:
    """Places of keys from 0 to 1, by the bytes below each.

    ``cells`` are first keys and sizes, in bytes, in any order.

    >>> axis = KeyAxis([(b"a", 100), (b"m", 300)])
    >>> axis.start(b"a"), axis.start(b"b"), axis.start(b"m"), axis.end(b"m")
    (0.0, 0.25, 0.25, 1.0)
    """

    def __init__(self, cells: Iterable[tuple[bytes, int]]) -> None:
        ordered = sorted(cells)
        self._first_keys = [first_key for first_key, _ in ordered]
        self._below = list(accumulate((size for _, size in ordered), initial=0))

    def start(self, key: bytes) -> float:
        """The place of ``key``: the share of bytes in cells that begin below it."""
        return self._share(bisect_left(self._first_keys, key))

    def end(self, key: bytes) -> float:
        """The same, with cells that begin at ``key``: where a cell up to ``key`` ends."""
        return self._share(bisect_right(self._first_keys, key))

    def _share(self, count: int) -> float:
        total = self._below[-1]
        return round(self._below[count] / total, 6) if total else 0.0
