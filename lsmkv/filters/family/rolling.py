"""Rolling filters: two arrays, so that old keys are forgotten.

Keys go to the new array; lookups ask both.  After X inserts or T seconds, a *window*, the arrays
rotate: the new array becomes the old one, and an empty array takes its place.  So a filter holds a key
for one to two windows, unless the key is added again or promoted: a lookup finds it in the old array
and adds it to the new.

Sources: F. Chang, W. Feng, K. Li, "Approximate caches for packet classification", INFOCOM 2004
(double buffering); M. Yoon, "Aging Bloom filter with two active buffers for dynamic sets", IEEE
TKDE 22(1), 2010.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from lsmkv.filters.family.base import GrowingFilter, bloom_shape
from lsmkv.filters.family.classic import BloomFilter
from lsmkv.filters.family.counting import CountingBloomFilter
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.rates import each_rate, either_rate

_NS_PER_SECOND: Final = 1_000_000_000
_MAX_63: Final = (1 << 63) - 1

# A saved window: inserts and nanoseconds (0: any), promotion, inserts so far, age in nanoseconds.
_WINDOW_LIMITS: Final = ((0, _MAX_63), (0, _MAX_63), (0, 1), (0, _MAX_63), (0, _MAX_63))

Clock = Callable[[], float]  # the time in seconds, from any start; it never goes back

F = TypeVar("F", BloomFilter, CountingBloomFilter)


@dataclass(frozen=True)
class Window:
    """How long a rolling filter fills one array: one limit at least is needed.

    Attributes:
        inserts: inserts after which the arrays rotate; None for any number.
        seconds: seconds after which they rotate, from a nanosecond on; None for any time.
        promote: whether keys that are found in the old array only are added to the new one.
    """

    inserts: int | None = None
    seconds: float | None = None
    promote: bool = False

    def __post_init__(self) -> None:
        if self.inserts is None and self.seconds is None:
            raise ValueError("a window needs inserts, seconds or both")
        if self.inserts is not None and not 1 <= self.inserts <= _MAX_63:
            raise ValueError(f"inserts={self.inserts!r}: must be 1 or more")
        if self.seconds is not None and not 1e-9 <= self.seconds <= _MAX_63 // _NS_PER_SECOND:
            raise ValueError(f"seconds={self.seconds!r}: must be a nanosecond or more")


class RollingFilter(GrowingFilter, Generic[F]):
    """Two arrays of one kind that rotate.  To add and to ask takes O(k), to rotate O(m)."""

    _ARRAY: ClassVar[Any]

    def __init__(self, empty: Callable[[], F], window: Window, clock: Clock) -> None:
        self._empty: Callable[[], F] = empty
        self.window: Final = window
        self._clock = clock
        self._started = clock()
        self._inserts = 0
        self._new: F = empty()
        self._old: F = empty()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: two of {self._new!r}, {self.window}>"

    @property
    def byte_count(self) -> int:
        """Size of both arrays, in bytes."""
        return self._new.byte_count + self._old.byte_count

    def add_hash(self, h: int, /) -> None:
        self._rotate_by_time()
        if self.window.inserts is not None and self._inserts >= self.window.inserts:
            self.rotate()
        self._new.add_hash(h)
        self._inserts += 1

    def may_contain_hash(self, h: int, /) -> bool:
        self._rotate_by_time()
        if self._new.may_contain_hash(h):
            return True
        if not self._old.may_contain_hash(h):
            return False
        if self.window.promote:
            self.add_hash(h)
        return True

    def rotate(self) -> None:
        """Begin a new window now, and drop the old array.  O(m)."""
        self._old, self._new = self._new, self._empty()
        self._inserts = 0
        self._started = self._clock()

    def key_count(self) -> float:
        """About how many distinct keys both arrays hold; a key in both counts twice."""
        self._rotate_by_time()
        return self._new.key_count() + self._old.key_count()

    def expected_rate(self, new_keys: int, old_keys: int) -> float:
        """The false-positive rate with so many distinct keys in each array."""
        return either_rate(self._new.expected_rate(new_keys), self._old.expected_rate(old_keys))

    def use_clock(self, clock: Clock) -> None:
        """Take the time from another clock than ``time.monotonic``; the window's age stays."""
        age = self._clock() - self._started
        self._clock = clock
        self._started = clock() - age

    def _rotate_by_time(self) -> None:
        """Rotate when the window has ended; twice, which forgets all keys, when two have."""
        seconds = self.window.seconds
        if seconds is None:
            return
        windows = int((self._clock() - self._started) / seconds)
        if windows < 1:
            return
        started = self._started + windows * seconds
        self.rotate()
        if windows > 1:
            self.rotate()
        self._started = started

    def _parameters(self) -> tuple[int, ...]:
        self._rotate_by_time()
        window = self.window
        age = 0.0 if window.seconds is None else self._clock() - self._started
        return (
            *self._new._parameters(),
            window.inserts or 0,
            round((window.seconds or 0.0) * _NS_PER_SECOND),
            int(window.promote),
            self._inserts,
            max(0, round(age * _NS_PER_SECOND)),
        )

    def _body(self) -> bytes:
        return self._old._body() + self._new._body()

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        shape = parts.parameters[: -len(_WINDOW_LIMITS)]
        of_window = replace(parts, parameters=parts.parameters[-len(_WINDOW_LIMITS) :])
        inserts, nanoseconds, promote, made, age_ns = of_window.checked_parameters(*_WINDOW_LIMITS)
        half = len(parts.body) // 2
        old, new = [
            cls._ARRAY._restore(replace(parts, parameters=shape, body=body))
            for body in (parts.body[:half], parts.body[half:])
        ]
        seconds = nanoseconds / _NS_PER_SECOND if nanoseconds else None
        try:
            window = Window(inserts or None, seconds, promote == 1)
        except ValueError as error:
            raise parts.corrupt(str(error)) from error
        make: Callable[..., Self] = cls
        restored = make(*shape, window)
        restored._inserts = made
        restored._started -= age_ns / _NS_PER_SECOND
        restored._old, restored._new = old, new
        return restored


class RollingBloomFilter(RollingFilter[BloomFilter]):
    """A Bloom filter that forgets: it holds the keys of the last one to two windows.

    ``byte_count`` and ``probe_count`` are those of each array, a :class:`BloomFilter`.

    >>> f = RollingBloomFilter.for_window(Window(inserts=2), 2, 0.001)
    >>> f.update([b"a", b"b", b"c", b"d"])
    >>> f.may_contain(b"a"), f.may_contain(b"d")
    (True, True)
    >>> f.add(b"e")
    >>> f.may_contain(b"a"), f.may_contain(b"d")
    (False, True)
    """

    KIND = 7
    _ARRAY = BloomFilter

    def __init__(
        self, byte_count: int, probe_count: int, window: Window, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(partial(BloomFilter, byte_count, probe_count), window, clock)

    @classmethod
    def for_window(
        cls, window: Window, key_count: int, error_rate: float, clock: Clock = time.monotonic
    ) -> Self:
        """A filter for ``key_count`` distinct keys in a window; the rate is that of both arrays."""
        byte_count, probe_count = bloom_shape(key_count, each_rate(error_rate, 2))
        return cls(byte_count, probe_count, window, clock)


class RollingCountingFilter(RollingFilter[CountingBloomFilter]):
    """A counting Bloom filter that forgets: it counts adds of the last one to two windows.

    Counters and probes are those of each array, a :class:`CountingBloomFilter`.  Removals go to the new
    array: a key that is in the old array only stays until the arrays rotate.

    >>> f = RollingCountingFilter.for_window(Window(seconds=60), 100, 0.01)
    >>> f.add(b"a"); f.rotate(); f.add(b"a"); f.add(b"b")
    >>> f.count_of(b"a"), f.remove(b"a"), f.count_of(b"a"), f.remove(b"a")
    (2, True, 1, False)
    """

    KIND = 8
    _ARRAY = CountingBloomFilter

    def __init__(
        self,
        counter_count: int,
        probe_count: int,
        counter_bits: int,
        window: Window,
        clock: Clock = time.monotonic,
    ) -> None:
        empty = partial(CountingBloomFilter, counter_count, probe_count, counter_bits)
        super().__init__(empty, window, clock)

    @classmethod
    def for_window(
        cls,
        window: Window,
        key_count: int,
        error_rate: float,
        counter_bits: int = 4,
        clock: Clock = time.monotonic,
    ) -> Self:
        """A filter for ``key_count`` distinct keys in a window; the rate is that of both arrays."""
        byte_count, probe_count = bloom_shape(key_count, each_rate(error_rate, 2))
        return cls(byte_count * 8, probe_count, counter_bits, window, clock)

    def remove(self, key: bytes, /) -> bool:
        """Take one ``add`` of ``key`` in the present window back; False if there is none."""
        self._rotate_by_time()
        return self._new.remove(key)

    def count_of(self, key: bytes, /) -> int:
        """About how often ``key`` was added lately and not removed."""
        self._rotate_by_time()
        h = hash_key(key)
        return self._new.count_of_hash(h) + self._old.count_of_hash(h)
