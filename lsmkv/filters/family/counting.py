"""The counting Bloom filter: a small counter in place of each bit, so that keys can be removed.

The counters of a key are those whose bits a Bloom filter of the same m and k would set.  They stop
at 15 (4 bits) or 255 (8 bits), and a counter that has got there never goes down again: what it
counts is no longer known, so it may only err on the side of "may be there".

The smallest of a key's counters is about how often it was added: never too low, as long as only
added keys are removed (the count-min sketch).

Sources: L. Fan, P. Cao, J. Almeida, A. Broder, "Summary cache: a scalable wide-area web cache
sharing protocol", IEEE/ACM Transactions on Networking 8(3), 2000; G. Cormode, S. Muthukrishnan,
"An improved data stream summary: the count-min sketch", Journal of Algorithms 55, 2005.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.family.base import (
    GrowingFilter,
    check_byte_count,
    check_probe_count,
    keys_by_fill,
)
from lsmkv.filters.family.classic import BloomFilter, probed
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedParts
from lsmkv.filters.hashing import MASK_63, hash_key
from lsmkv.filters.maths.rates import check_arguments
from lsmkv.filters.maths.sizing import exact_rate, filter_bytes_for, probes_for

COUNTING_KIND: Final = 6
COUNTER_WIDTHS: Final = (4, 8)
"""The bits that a counter can have."""


class CountingBloomFilter(GrowingFilter):
    """A Bloom filter from which keys can be removed, and which knows about how often each was added.

    Removing a key that was never added, but passes as a false positive, takes away from the
    counters of other keys, which may then be denied.  Nothing else makes a false negative.

    Args:
        counter_count: number of counters, m, a multiple of 8.
        probe_count: counters of each key, k, 1 to 255.
        counter_bits: size of a counter, 4 or 8 bits.

    Raises:
        ValueError: an argument is out of range.

    >>> f = CountingBloomFilter.for_keys(1000, 0.01)
    >>> f.add(b"a"); f.add(b"a")
    >>> f.count_of(b"a"), f.remove(b"a"), f.count_of(b"a"), f.remove(b"b")
    (2, True, 1, False)
    """

    KIND: ClassVar[int] = COUNTING_KIND

    def __init__(self, counter_count: int, probe_count: int, counter_bits: int = 4) -> None:
        if counter_bits not in COUNTER_WIDTHS:
            raise ValueError(f"counter_bits={counter_bits!r}: must be 4 or 8")
        if counter_count % 8:
            raise ValueError(f"counter_count={counter_count!r}: must be a multiple of 8")
        check_byte_count(counter_count * counter_bits // 8)
        check_probe_count(probe_count)
        self._counter_count = counter_count
        self._probe_count = probe_count
        self._counter_bits = counter_bits
        self._counters = bytearray(counter_count * counter_bits // 8)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(counter_count={self._counter_count}, "
            f"probe_count={self._probe_count}, counter_bits={self._counter_bits})"
        )

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float, counter_bits: int = 4) -> Self:
        """An empty filter for ``key_count`` distinct keys: as many counters as a Bloom filter bits.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, ``counter_bits`` is not 4 or 8,
                or the filter would be too large.
        """
        check_arguments(key_count, error_rate)
        counter_count = 8 * max(1, filter_bytes_for(key_count, error_rate))
        return cls(counter_count, probes_for(counter_count, key_count), counter_bits)

    @classmethod
    def from_counters(cls, counters: bytes, probe_count: int, counter_bits: int) -> Self:
        """A filter with these counters, which were those of a filter of the same k.

        Raises:
            ValueError: an argument is out of range.
        """
        if counter_bits not in COUNTER_WIDTHS:
            raise ValueError(f"counter_bits={counter_bits!r}: must be 4 or 8")
        restored = cls(len(counters) * 8 // counter_bits, probe_count, counter_bits)
        restored._counters = bytearray(counters)
        return restored

    @property
    def counters(self) -> bytes:
        """The counters; of two in a byte, the first takes the less significant half."""
        return bytes(self._counters)

    @property
    def byte_count(self) -> int:
        """Size of the counters, in bytes."""
        return len(self._counters)

    @property
    def counter_count(self) -> int:
        """Number of counters: m."""
        return self._counter_count

    @property
    def counter_bits(self) -> int:
        """Size of a counter, in bits."""
        return self._counter_bits

    @property
    def probe_count(self) -> int:
        """Counters of each key: k."""
        return self._probe_count

    @property
    def largest_count(self) -> int:
        """Where counters stop: 15 or 255."""
        return (1 << self._counter_bits) - 1

    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h``: its counters go up, if they have not stopped."""
        largest = self.largest_count
        for index in self._indexes(h):
            count = self._get(index)
            if count < largest:
                self._set(index, count + 1)

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.  O(k)."""
        word: i64 = h
        counter_count: i64 = self._counter_count
        for _ in range(self._probe_count):
            word = (word * MULTIPLIER) & MASK_63
            if self._get(((word >> 31) * counter_count) >> 32) == 0:
                return False
        return True

    def count_of_hash(self, h: int, /) -> int:
        """As :meth:`count_of`, for the key whose 63-bit hash is ``h``."""
        return min([self._get(index) for index in self._indexes(h)])

    def count_of(self, key: bytes, /) -> int:
        """About how often ``key`` was added and not removed: the smallest of its counters.

        At least as often as that, up to :attr:`largest_count`, which means "so often or more"; 0 is
        certain.  O(k).
        """
        return self.count_of_hash(hash_key(key))

    def remove_hash(self, h: int, /) -> bool:
        """As :meth:`remove`, for the key whose 63-bit hash is ``h``."""
        indexes = self._indexes(h)
        counts = [self._get(index) for index in indexes]
        if 0 in counts:
            return False
        largest = self.largest_count
        for index, count in zip(indexes, counts, strict=True):
            if count < largest:
                self._set(index, count - 1)
        return True

    def remove(self, key: bytes, /) -> bool:
        """Take one ``add`` of ``key`` back.  O(k).

        Returns:
            False, with nothing changed, when the filter certainly does not hold ``key``; else True.
        """
        return self.remove_hash(hash_key(key))

    def key_count(self) -> float:
        """About how many distinct keys are there, judged by the counters that are not 0.  O(m).

        Infinite when none is 0.
        """
        return keys_by_fill(self._counters_in_use(), self._counter_count, self._probe_count)

    def expected_rate(self, key_count: int) -> float:
        """The exact false-positive rate with ``key_count`` distinct keys: a Bloom filter's."""
        return exact_rate(self._counter_count, key_count, self._probe_count)

    def union(self, other: Self, /) -> Self:
        """A new filter, with the same counters as one to which both's keys were added.  O(m).

        Raises:
            ValueError: the two differ in size, k, counters or class.
        """
        self._check_same_shape(other)
        united = type(self)(self._counter_count, self._probe_count, self._counter_bits)
        largest = self.largest_count
        for index in range(self._counter_count):
            united._set(index, min(largest, self._get(index) + other._get(index)))
        return united

    def to_bloom_filter(self) -> BloomFilter:
        """The Bloom filter of the same m, k and keys: a bit for each counter that is not 0.  O(m).

        What a cache tells its neighbours of itself (Fan et al. 2000): an eighth or a quarter of the
        size.
        """
        bits = bytearray(self._counter_count // 8)
        for index in range(self._counter_count):
            if self._get(index):
                bits[index >> 3] |= 1 << (index & 7)
        return BloomFilter.from_bits(bytes(bits), self._probe_count)

    def _indexes(self, h: int) -> list[int]:
        """The counters of a hash, each once: a second probe of one must not count it twice."""
        return list(dict.fromkeys(probed(self._counter_count, self._probe_count, h)))

    def _get(self, index: int) -> int:
        if self._counter_bits == 8:
            return self._counters[index]
        return (self._counters[index >> 1] >> ((index & 1) << 2)) & 15

    def _set(self, index: int, count: int) -> None:
        if self._counter_bits == 8:
            self._counters[index] = count
        else:
            shift = (index & 1) << 2
            at = index >> 1
            self._counters[at] = (self._counters[at] & (0xF0 >> shift)) | (count << shift)

    def _counters_in_use(self) -> int:
        return sum([1 for index in range(self._counter_count) if self._get(index)])

    def _parameters(self) -> tuple[int, ...]:
        return (self._counter_count, self._probe_count, self._counter_bits)

    def _body(self) -> bytes:
        return bytes(self._counters)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        counter_count, probe_count, counter_bits = parts.parameters(
            (8, 2 * MAX_BYTES), (1, MAX_PROBES_SAVED), (4, 8)
        )
        byte_count = check_saved_counters(parts, counter_count, counter_bits)
        return cls.from_counters(parts.body(byte_count), probe_count, counter_bits)


def check_saved_counters(parts: SavedParts, counter_count: int, counter_bits: int) -> int:
    """The bytes that so many counters take, for a filter to restore.

    Raises:
        CorruptionError: no filter has counters like that.
    """
    byte_count = counter_count * counter_bits // 8
    if counter_bits not in COUNTER_WIDTHS or counter_count % 8 or byte_count > MAX_BYTES:
        raise parts.corrupt(f"{counter_count} counters of {counter_bits} bits are impossible")
    return byte_count
