"""Rolling filters: two arrays, so that old keys are forgotten.

Keys go to the new array; look-ups ask both.  After X inserts or T seconds, a *window*, the new
array becomes the old one, what was old is dropped, and an empty array takes its place.  So a key is
held for at least one window and at most two, unless it is added again, or promoted: found in the
old array, and thereupon added to the new.

Sources: F. Chang, W. Feng, K. Li, "Approximate caches for packet classification", INFOCOM 2004
(double buffering); M. Yoon, "Aging Bloom filter with two active buffers for dynamic sets", IEEE
TKDE 22(1), 2010.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Self, TypeVar

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import GrowingFilter
from lsmkv.filters.family.classic import BloomFilter
from lsmkv.filters.family.counting import CountingBloomFilter, check_saved_counters
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedParts
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.rates import each_rate, either_rate
from lsmkv.filters.maths.sizing import filter_bytes_for, probes_for

ROLLING_KIND: Final = 7
ROLLING_COUNTING_KIND: Final = 8

_NS_PER_SECOND: Final = 1_000_000_000
_MAX_63: Final = (1 << 63) - 1
_WINDOW_LIMITS: Final = ((0, _MAX_63), (0, _MAX_63), (0, 1), (0, _MAX_63), (0, _MAX_63))

Clock = Callable[[], float]
"""Tells the time in seconds, from any start; it never goes back."""

F = TypeVar("F", BloomFilter, CountingBloomFilter)


@dataclass(frozen=True)
class Window:
    """How long a rolling filter fills one array.

    Attributes:
        inserts: inserts after which the arrays rotate; None for any number.
        seconds: seconds after which they rotate, even unasked; None for any time.
        promote: whether keys that are found in the old array only are added to the new one.

    Raises:
        ValueError: both are None, or one is not positive or too large.
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
    """What rolling filters share, whatever their arrays are."""

    def __init__(self, window: Window, clock: Clock) -> None:
        self._window = window
        self._clock = clock
        self._started = clock()
        self._inserts = 0
        self._new: F = self._empty()
        self._old: F = self._empty()

    @abstractmethod
    def _empty(self) -> F:
        """An array without keys."""

    @property
    def window(self) -> Window:
        """How long one array is filled."""
        return self._window

    @property
    def byte_count(self) -> int:
        """Size of both arrays, in bytes."""
        return self._new.byte_count + self._old.byte_count

    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h`` to the new array.  O(k), or O(m) to rotate."""
        self._turn()
        if self._window.inserts is not None and self._inserts >= self._window.inserts:
            self.rotate()
        self._new.add_hash(h)
        self._inserts += 1

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether either array may hold the key whose hash is ``h``; False is certain.

        With promotion, a key found in the old array only is added to the new one.  O(k), or O(m)
        to rotate.
        """
        self._turn()
        if self._new.may_contain_hash(h):
            return True
        if not self._old.may_contain_hash(h):
            return False
        if self._window.promote:
            self.add_hash(h)
        return True

    def rotate(self) -> None:
        """Begin a new window now: drop the old array, and let the new one grow old.  O(m)."""
        self._old, self._new = self._new, self._empty()
        self._inserts = 0
        self._started = self._clock()

    def key_count(self) -> float:
        """About how many distinct keys both arrays hold; a key in both counts twice.  O(m)."""
        self._turn()
        return self._new.key_count() + self._old.key_count()

    def expected_rate(self, new_keys: int, old_keys: int) -> float:
        """The false-positive rate with so many distinct keys in the new and the old array."""
        return either_rate(self._new.expected_rate(new_keys), self._old.expected_rate(old_keys))

    def use_clock(self, clock: Clock) -> None:
        """Go by another clock from now on; the present window stays as old as it is.

        A filter that was loaded goes by ``time.monotonic``, and its window is as old as when it was
        saved.
        """
        age = self._clock() - self._started
        self._clock = clock
        self._started = clock() - age

    def _turn(self) -> None:
        """Rotate if the time has come; if two windows have gone by, forget both arrays."""
        seconds = self._window.seconds
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

    def _window_parameters(self) -> tuple[int, ...]:
        self._turn()
        window = self._window
        age = 0.0 if window.seconds is None else self._clock() - self._started
        return (
            window.inserts or 0,
            round((window.seconds or 0.0) * _NS_PER_SECOND),
            int(window.promote),
            self._inserts,
            max(0, round(age * _NS_PER_SECOND)),
        )

    def _resume(self, inserts: int, age_ns: int, old: F, new: F) -> None:
        """Go on where a saved filter left off."""
        self._inserts = inserts
        self._started = self._clock() - age_ns / _NS_PER_SECOND
        self._old = old
        self._new = new


class RollingBloomFilter(RollingFilter[BloomFilter]):
    """A Bloom filter that forgets: it holds the keys of the last one to two windows.

    Args:
        byte_count: size of each of the two arrays of bits, in bytes.
        probe_count: bits that each key sets, k, 1 to 255.
        window: how long one array is filled.
        clock: what tells the time.

    Raises:
        ValueError: an argument is out of range.

    >>> f = RollingBloomFilter.for_window(Window(inserts=2), 2, 0.001)
    >>> f.update([b"a", b"b", b"c", b"d"])
    >>> f.may_contain(b"a"), f.may_contain(b"d")
    (True, True)
    >>> f.add(b"e")
    >>> f.may_contain(b"a"), f.may_contain(b"d")
    (False, True)
    """

    KIND: ClassVar[int] = ROLLING_KIND

    def __init__(
        self, byte_count: int, probe_count: int, window: Window, clock: Clock = time.monotonic
    ) -> None:
        self._byte_count = byte_count
        self._probe_count = probe_count
        super().__init__(window, clock)

    @classmethod
    def for_window(
        cls, window: Window, key_count: int, error_rate: float, clock: Clock = time.monotonic
    ) -> Self:
        """A filter for ``key_count`` distinct keys in a window; both arrays together err so often.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or ``key_count`` is negative or
                too large.
        """
        byte_count, probe_count = _array_shape(key_count, error_rate)
        return cls(byte_count, probe_count, window, clock)

    def _empty(self) -> BloomFilter:
        return BloomFilter(self._byte_count, self._probe_count)

    def _parameters(self) -> tuple[int, ...]:
        return (self._byte_count, self._probe_count, *self._window_parameters())

    def _body(self) -> bytes:
        return self._old.bits + self._new.bits

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        byte_count, probe_count, *rest = parts.parameters(
            (1, MAX_BYTES), (1, MAX_PROBES_SAVED), *_WINDOW_LIMITS
        )
        window, inserts, age_ns = _saved_window(parts, rest)
        body = parts.body(2 * byte_count)
        restored = cls(byte_count, probe_count, window)
        restored._resume(
            inserts,
            age_ns,
            BloomFilter.from_bits(body[:byte_count], probe_count),
            BloomFilter.from_bits(body[byte_count:], probe_count),
        )
        return restored


class RollingCountingFilter(RollingFilter[CountingBloomFilter]):
    """A counting Bloom filter that forgets.  Removals go to the new array, as inserts do.

    A key that is in the old array only cannot be removed: it is held until the arrays rotate.

    Args:
        counter_count: number of counters in each of the two arrays, a multiple of 8.
        probe_count: counters of each key, k, 1 to 255.
        counter_bits: size of a counter, 4 or 8 bits.
        window: how long one array is filled.
        clock: what tells the time.

    Raises:
        ValueError: an argument is out of range.

    >>> f = RollingCountingFilter.for_window(Window(seconds=60), 100, 0.01)
    >>> f.add(b"a"); f.rotate(); f.add(b"a"); f.add(b"b")
    >>> f.count_of(b"a"), f.remove(b"a"), f.count_of(b"a"), f.remove(b"a")
    (2, True, 1, False)
    """

    KIND: ClassVar[int] = ROLLING_COUNTING_KIND

    def __init__(
        self,
        counter_count: int,
        probe_count: int,
        counter_bits: int,
        window: Window,
        clock: Clock = time.monotonic,
    ) -> None:
        self._shape = (counter_count, probe_count, counter_bits)
        super().__init__(window, clock)

    @classmethod
    def for_window(
        cls,
        window: Window,
        key_count: int,
        error_rate: float,
        counter_bits: int = 4,
        clock: Clock = time.monotonic,
    ) -> Self:
        """A filter for ``key_count`` distinct keys in a window; both arrays together err so often.

        Raises:
            ValueError: an argument is out of range.
        """
        byte_count, probe_count = _array_shape(key_count, error_rate)
        return cls(byte_count * 8, probe_count, counter_bits, window, clock)

    def remove(self, key: bytes, /) -> bool:
        """Take one ``add`` of ``key`` in the present window back.  O(k).

        Returns:
            False, with nothing changed, when the new array certainly does not hold ``key``.
        """
        self._turn()
        return self._new.remove(key)

    def count_of(self, key: bytes, /) -> int:
        """About how often ``key`` was added in the last one to two windows and not removed.  O(k)."""
        self._turn()
        h = hash_key(key)
        return self._new.count_of_hash(h) + self._old.count_of_hash(h)

    def _empty(self) -> CountingBloomFilter:
        return CountingBloomFilter(*self._shape)

    def _parameters(self) -> tuple[int, ...]:
        return (*self._shape, *self._window_parameters())

    def _body(self) -> bytes:
        return self._old.counters + self._new.counters

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        counter_count, probe_count, counter_bits, *rest = parts.parameters(
            (8, 2 * MAX_BYTES), (1, MAX_PROBES_SAVED), (4, 8), *_WINDOW_LIMITS
        )
        byte_count = check_saved_counters(parts, counter_count, counter_bits)
        window, inserts, age_ns = _saved_window(parts, rest)
        body = parts.body(2 * byte_count)
        restored = cls(counter_count, probe_count, counter_bits, window)
        arrays = [
            CountingBloomFilter.from_counters(part, probe_count, counter_bits)
            for part in (body[:byte_count], body[byte_count:])
        ]
        restored._resume(inserts, age_ns, arrays[0], arrays[1])
        return restored


def _array_shape(key_count: int, error_rate: float) -> tuple[int, int]:
    """Bytes and k of each of two Bloom filters that err at ``error_rate`` together."""
    byte_count = max(1, filter_bytes_for(key_count, each_rate(error_rate, 2)))
    return byte_count, probes_for(byte_count * 8, key_count)


def _saved_window(parts: SavedParts, numbers: list[int]) -> tuple[Window, int, int]:
    """The window, the inserts made in it and its age in nanoseconds."""
    inserts, nanoseconds, promote, made, age_ns = numbers
    try:
        window = Window(
            inserts or None, nanoseconds / _NS_PER_SECOND if nanoseconds else None, promote == 1
        )
    except ValueError as error:
        raise parts.corrupt(str(error)) from error
    return window, made, age_ns
