"""Entries that expire, and the clock that tells whether one is due.

An entry that expires is stored as a put whose value follows the time from which on it is due: whole
seconds since 1970, in 5 bytes, little-endian.  An entry that is due counts as a deletion: it is absent,
and hides older entries of its key.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

from lsmkv.encoding.entries import Value

EXPIRY_BYTES: Final = 5
MAX_EXPIRY_S: Final = (1 << 40) - 1
"""The latest expiry, in seconds since 1970: some 34,000 years later."""


class Expiring:
    """A value that is absent from ``expires_at_s`` on."""

    __slots__ = ("expires_at_s", "value")

    def __init__(self, value: bytes, expires_at_s: int) -> None:
        self.value = value
        self.expires_at_s = expires_at_s

    def stored(self) -> bytes:
        """The bytes that are stored in place of a value."""
        return self.expires_at_s.to_bytes(EXPIRY_BYTES, "little") + self.value

    def __repr__(self) -> str:
        return f"Expiring({self.value[:40]!r}, {self.expires_at_s})"


Held = bytes | Expiring | None
"""What memtables and tables hold for a key; None for a deletion."""


def expiry_in(data: bytes, at: i64) -> i64:
    """The expiry that is stored from ``data[at]`` on."""
    low: i64 = i64(read_i32_le(data, at)) & 0xFFFF_FFFF
    return low | (i64(data[at + 4]) << 32)


def expiring_in(data: bytes, start: i64, end: i64) -> Expiring:
    """The entry that is stored as ``data[start:end]``, of at least :data:`EXPIRY_BYTES`."""
    return Expiring(data[start + EXPIRY_BYTES : end], expiry_in(data, start))


def held_bytes(held: Held) -> int:
    """The bytes that are stored for the value."""
    if held is None:
        return 0
    return EXPIRY_BYTES + len(held.value) if isinstance(held, Expiring) else len(held)


def value_length(held: Held) -> int:
    """The length of the value, without its expiry."""
    if held is None:
        return 0
    return len(held.value) if isinstance(held, Expiring) else len(held)


def expiring(value: bytes, due_s: int | None) -> Held:
    """``value``, with its expiry if it has one."""
    return value if due_s is None else Expiring(value, due_s)


class Clock:
    """The clock of an open store, and how long its entries live."""

    def __init__(
        self, read: Callable[[], float] = time.time, default_ttl_s: float | None = None
    ) -> None:
        self._read = read
        self.default_ttl_s = default_ttl_s  # of what is put without one; None: for ever
        # The latest time by which entries were dropped as due.  No reading is earlier, so that what one
        # reader could not see any more no other sees, when the clock is set back.  So a clock that was
        # once far ahead stays there until the store is reopened.
        self.dropped_to_s = 0

    def reading_s(self) -> float:
        return max(self._read(), self.dropped_to_s)

    def now_s(self) -> int:
        return int(self.reading_s())

    def expiry_s(self, ttl_s: object, expires_at: object) -> int | None:
        """When an entry is due that is written now; None: never.

        ``ttl_s`` is its time to live, ``expires_at`` the time itself, in seconds, of which fractions are
        left out: it is never served late.  ``math.inf`` is never.  TypeError, ValueError: either is
        wrong, or both are given.
        """
        if ttl_s is not None and expires_at is not None:
            raise ValueError(f"ttl_s={ttl_s!r} and expires_at={expires_at!r}: give one of them")
        name, given = ("ttl_s", ttl_s) if expires_at is None else ("expires_at", expires_at)
        if given is None:
            given = self.default_ttl_s
            if given is None:
                return None
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise TypeError(f"{name} is a number of seconds, not {given!r}")
        if not given > 0:  # nor is NaN
            raise ValueError(f"{name}={given!r}: give more than 0 seconds")
        if given == math.inf:
            return None
        # A larger integer cannot be added to a float.
        due_s = given if expires_at is not None else self.reading_s() + min(given, 2 * MAX_EXPIRY_S)
        if due_s > MAX_EXPIRY_S:
            raise ValueError(
                f"{name}={given!r} is due beyond the limit of {MAX_EXPIRY_S} seconds since 1970: "
                "math.inf is never"
            )
        return int(due_s)

    def held(self, value: bytes, ttl_s: object, expires_at: object) -> Held:
        """The entry of a value that is put now.  Raises as :meth:`expiry_s`."""
        if ttl_s is None and expires_at is None and self.default_ttl_s is None:
            return value  # sooner: most entries do not expire
        return expiring(value, self.expiry_s(ttl_s, expires_at))


class Moment:
    """One reading of a clock, taken when it is first needed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_s = -1

    def now_s(self) -> int:
        if self._now_s < 0:
            self._now_s = self._clock.now_s()
        return self._now_s

    def drop(self) -> None:
        """Entries that this reading found due count as dropped."""
        self._clock.dropped_to_s = max(self._clock.dropped_to_s, self._now_s)

    def value_of(self, held: Held) -> Value:
        """The value; None for a deletion, or an entry that is due."""
        if isinstance(held, Expiring):
            return held.value if held.expires_at_s > self.now_s() else None
        return held

    def expiry_of(self, held: Held) -> int | None:
        """When the entry is due; None: it never is, or is not there."""
        if isinstance(held, Expiring) and held.expires_at_s > self.now_s():
            return held.expires_at_s
        return None
