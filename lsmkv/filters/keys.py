"""The part of a key that a filter holds: all of it, or a prefix.

A filter of prefixes answers scans as well as lookups: "no key starts with this" skips a block for
both.  It is smaller too, since it holds each prefix once, but wrong for lookups of absent keys whose
prefix is there.

In a table's properties it stands as text: ``whole``; ``fixed:N``, the first N bytes of each key, and
shorter keys whole; or ``delimited:HEX:N``, each key up to and including its N-th delimiter, whose bytes
are in hexadecimal, and keys with fewer whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

_MAX_LENGTH: Final = 65_535  # a key has no more bytes
_MAX_DELIMITER: Final = 255
_MAX_COUNT: Final = 255


class FilterKey(ABC):
    """Which part of each key a filter holds: equal objects give the same prefix of every key."""

    __slots__ = ()

    @abstractmethod
    def part(self, key: bytes) -> bytes:
        """The part of ``key`` that filters hold and that lookups ask for."""

    @abstractmethod
    def part_of_prefix(self, prefix: bytes) -> bytes | None:
        """The part of every key that starts with ``prefix``; None when these keys differ in it."""

    @property
    def is_whole(self) -> bool:
        """Whether the part is always the whole key."""
        return False

    @abstractmethod
    def to_spec(self) -> str:
        """This object as ASCII text, for :func:`filter_key_from_spec`."""


@dataclass(frozen=True, slots=True)
class WholeKey(FilterKey):
    """Filters hold whole keys.  They answer lookups, never scans.

    >>> WholeKey().part(b"user:7"), WholeKey().part_of_prefix(b"user:")
    (b'user:7', None)
    """

    def part(self, key: bytes) -> bytes:
        """``key`` itself."""
        return key

    def part_of_prefix(self, prefix: bytes) -> bytes | None:
        """None: keys that share a prefix differ as a whole."""
        return None

    @property
    def is_whole(self) -> bool:
        """True."""
        return True

    def to_spec(self) -> str:
        """``"whole"``."""
        return "whole"


@dataclass(frozen=True, slots=True)
class FixedPrefix(FilterKey):
    """Filters hold the first ``length_bytes`` bytes, 1 to 65,535, of each key; shorter keys whole.

    >>> FixedPrefix(4).part(b"user:7"), FixedPrefix(4).part_of_prefix(b"use")
    (b'user', None)
    """

    length_bytes: int

    def __post_init__(self) -> None:
        _check_range("length_bytes", self.length_bytes, _MAX_LENGTH)

    def part(self, key: bytes) -> bytes:
        """The first ``length_bytes`` bytes of ``key``, or all of a shorter key."""
        return key[: self.length_bytes]

    def part_of_prefix(self, prefix: bytes) -> bytes | None:
        """The same of ``prefix``; None when it is shorter than ``length_bytes``."""
        return prefix[: self.length_bytes] if len(prefix) >= self.length_bytes else None

    def to_spec(self) -> str:
        """``"fixed:<length in bytes>"``."""
        return f"fixed:{self.length_bytes}"


@dataclass(frozen=True, slots=True)
class DelimitedPrefix(FilterKey):
    """Filters hold each key up to and including its ``count``-th ``delimiter``; keys with fewer whole.

    Delimiters count from left to right and do not overlap: ``b"aaa"`` holds ``b"aa"`` once.  A
    delimiter has 1 to 255 bytes, and ``count`` lies between 1 and 255.

    >>> DelimitedPrefix(b"/", 2).part(b"home/ann/notes/1")
    b'home/ann/'
    >>> DelimitedPrefix(b"/").part_of_prefix(b"home/a"), DelimitedPrefix(b"/").part_of_prefix(b"ho")
    (b'home/', None)
    """

    delimiter: bytes
    count: int = 1

    def __post_init__(self) -> None:
        if type(self.delimiter) is not bytes:
            raise TypeError(f"delimiter={self.delimiter!r}: must be bytes")
        if not 1 <= len(self.delimiter) <= _MAX_DELIMITER:
            raise ValueError(
                f"delimiter of {len(self.delimiter)} bytes: must have 1 to {_MAX_DELIMITER}"
            )
        _check_range("count", self.count, _MAX_COUNT)

    def part(self, key: bytes) -> bytes:
        """``key`` up to the end of its ``count``-th delimiter; with fewer, all of it."""
        end = self._end(key)
        return key if end < 0 else key[:end]

    def part_of_prefix(self, prefix: bytes) -> bytes | None:
        """The same of ``prefix``; None when it holds fewer than ``count`` delimiters."""
        end = self._end(prefix)
        return None if end < 0 else prefix[:end]

    def to_spec(self) -> str:
        """``"delimited:<delimiter in hexadecimal>:<count>"``."""
        return f"delimited:{self.delimiter.hex()}:{self.count}"

    def _end(self, data: bytes) -> int:
        """The end of the ``count``-th delimiter of ``data``; -1 when there are fewer."""
        end = 0
        for _ in range(self.count):
            start = data.find(self.delimiter, end)
            if start < 0:
                return -1
            end = start + len(self.delimiter)
        return end


def filter_key_from_spec(spec: str) -> FilterKey:
    """The object whose :meth:`FilterKey.to_spec` is ``spec``; ValueError when there is none.

    >>> filter_key_from_spec("delimited:2f:1")
    DelimitedPrefix(delimiter=b'/', count=1)
    """
    filter_key: FilterKey | None = None
    try:
        match spec.split(":"):
            case ["whole"]:
                filter_key = WholeKey()
            case ["fixed", length_bytes]:
                filter_key = FixedPrefix(int(length_bytes))
            case ["delimited", delimiter, count]:
                filter_key = DelimitedPrefix(bytes.fromhex(delimiter), int(count))
    except ValueError as error:
        raise ValueError(f"filter key {spec!r}: {error}") from error
    # int() and fromhex() are lenient ("+8", "2F"); only the spelling of to_spec() is allowed.
    if filter_key is None or filter_key.to_spec() != spec:
        raise ValueError(
            f"filter key {spec!r}: must be 'whole', 'fixed:<length>' "
            "or 'delimited:<delimiter in lower-case hex>:<count>'"
        )
    return filter_key


def _check_range(name: str, number: int, highest: int) -> None:
    if type(number) is not int:
        raise TypeError(f"{name}={number!r}: must be an int")
    if not 1 <= number <= highest:
        raise ValueError(f"{name}={number!r}: must lie between 1 and {highest}")
