"""The counting Bloom filter: a small counter in place of each bit, so that keys can be removed.

The counters of a key are those whose bits a Bloom filter of the same m and k would set.  A counter
stops at 15 (4 bits) or 255 (8 bits), and never goes down again: it has lost count, and may err on the
side of "may be there" only.

The smallest of a key's counters is about how often it was added.  It is never too low as long as
only added keys are removed (the count-min sketch).

Sources: L. Fan, P. Cao, J. Almeida, A. Broder, "Summary cache: a scalable wide-area web cache
sharing protocol", IEEE/ACM Transactions on Networking 8(3), 2000; G. Cormode, S. Muthukrishnan,
"An improved data stream summary: the count-min sketch", Journal of Algorithms 55, 2005.
"""

from __future__ import annotations

from typing import Final, Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family import base
from lsmkv.filters.family.bit_packing import read, write
from lsmkv.filters.family.classic import BloomFilter, probed
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.sizing import exact_rate

COUNTER_WIDTHS: Final = (4, 8)  # bits that a counter can have


class CountingBloomFilter(base.RemovingFilter):
    """A Bloom filter that can remove keys and estimate their counts.

    It has m = ``counter_count`` counters, a multiple of 8, of ``counter_bits``, 4 or 8; each key counts
    in k = ``probe_count`` of them, 1 to 255.  To add, ask or remove takes O(k).  Removing a false
    positive takes away from the counters of other keys, which may then be denied.

    >>> f = CountingBloomFilter.for_keys(1000, 0.01)
    >>> f.add(b"a"); f.add(b"a")
    >>> f.count_of(b"a"), f.remove(b"a"), f.count_of(b"a"), f.remove(b"b")
    (2, True, 1, False)
    """

    KIND = 6
    _ARGUMENTS = ("counter_count", "probe_count", "counter_bits")
    _bits: bytearray

    def __init__(self, counter_count: int, probe_count: int, counter_bits: int = 4) -> None:
        _check_counter_bits(counter_bits)
        if counter_count % 8:
            raise ValueError(f"counter_count={counter_count!r}: must be a multiple of 8")
        byte_count = counter_count * counter_bits // 8
        base.check_range("byte_count", byte_count, base.BYTE_LIMITS)
        base.check_range("probe_count", probe_count, base.PROBE_LIMITS)
        self.counter_count: Final = counter_count
        self.probe_count: Final = probe_count
        self.counter_bits: Final = counter_bits
        self._bits = bytearray(byte_count)

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float, counter_bits: int = 4) -> Self:
        """An empty filter for ``key_count`` keys: as many counters as a Bloom filter bits."""
        byte_count, probe_count = base.bloom_shape(key_count, error_rate)
        return cls(byte_count * 8, probe_count, counter_bits)

    @classmethod
    def from_counters(cls, counters: bytes, probe_count: int, counter_bits: int) -> Self:
        """A filter with these counters, from a filter of the same k."""
        _check_counter_bits(counter_bits)
        filled = cls(len(counters) * 8 // counter_bits, probe_count, counter_bits)
        filled._bits = bytearray(counters)
        return filled

    @property
    def counters(self) -> bytes:
        """The counters; of two in a byte, the first takes the less significant half."""
        return bytes(self._bits)

    @property
    def largest_count(self) -> int:
        """Where counters stop: 15 or 255."""
        return (1 << self.counter_bits) - 1

    def add_hash(self, h: int, /) -> None:
        largest = self.largest_count
        for index in self._indexes(h):
            count = self._get(index)
            if count < largest:
                self._set(index, count + 1)

    def may_contain_hash(self, h: int, /) -> bool:
        return all(map(self._get, probed(self.counter_count, self.probe_count, h)))

    def count_of(self, key: bytes, /) -> int:
        """About how often ``key`` was added and not removed: its smallest counter.

        Never less than that up to :attr:`largest_count`, which means "so often or more"; 0 is certain.
        """
        return self.count_of_hash(hash_key(key))

    def count_of_hash(self, h: int, /) -> int:
        """As :meth:`count_of`, for the key with the 63-bit hash ``h``."""
        return min([self._get(index) for index in self._indexes(h)])

    def remove_hash(self, h: int, /) -> bool:
        indexes = self._indexes(h)
        counts = [self._get(index) for index in indexes]
        if 0 in counts:
            return False
        largest = self.largest_count
        for index, count in zip(indexes, counts, strict=True):
            if count < largest:
                self._set(index, count - 1)
        return True

    def key_count(self) -> float:
        """About how many distinct keys it holds (:func:`keys_by_fill`).  O(m)."""
        in_use = sum([1 for index in range(self.counter_count) if self._get(index)])
        return base.keys_by_fill(in_use, self.counter_count, self.probe_count)

    def expected_rate(self, key_count: int) -> float:
        """The exact false-positive rate with ``key_count`` distinct keys."""
        return exact_rate(self.counter_count, key_count, self.probe_count)

    def union(self, other: Self, /) -> Self:
        """A new filter of the keys of both; ValueError if their classes or parameters differ.  O(m)."""
        self._check_same_shape(other)
        united = type(self)(self.counter_count, self.probe_count, self.counter_bits)
        largest = self.largest_count
        for index in range(self.counter_count):
            united._set(index, min(largest, self._get(index) + other._get(index)))
        return united

    def to_bloom_filter(self) -> BloomFilter:
        """The Bloom filter of the same m, k and keys: Fan et al. 2000.  O(m)."""
        bits = bytearray(self.counter_count // 8)
        for index in range(self.counter_count):
            if self._get(index):
                bits[index >> 3] |= 1 << (index & 7)
        return BloomFilter.from_bits(bytes(bits), self.probe_count)

    def _indexes(self, h: int) -> list[int]:
        """The counters of a hash, each once: a second probe of one must not count it twice."""
        return list(dict.fromkeys(probed(self.counter_count, self.probe_count, h)))

    def _get(self, index: int) -> int:
        return read(self._bits, index, self.counter_bits)

    def _set(self, index: int, count: int) -> None:
        write(self._bits, index, self.counter_bits, count)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        counter_count, probe_count, counter_bits = parts.checked_parameters(
            (8, 2 * MAX_BYTES), base.PROBE_LIMITS, COUNTER_WIDTHS
        )
        byte_count = counter_count * counter_bits // 8
        if counter_bits not in COUNTER_WIDTHS or counter_count % 8 or byte_count > MAX_BYTES:
            raise parts.corrupt(f"{counter_count} counters of {counter_bits} bits are impossible")
        return cls.from_counters(parts.checked_body(byte_count), probe_count, counter_bits)


def _check_counter_bits(counter_bits: int) -> None:
    if counter_bits not in COUNTER_WIDTHS:
        raise ValueError(f"counter_bits={counter_bits!r}: must be 4 or 8")
