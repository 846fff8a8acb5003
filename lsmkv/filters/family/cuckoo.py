"""The cuckoo filter: fingerprints in a hash table with two possible buckets of four for each key.

A key's fingerprint lies in one of its two buckets, and either bucket and the fingerprint tell the
other one, so fingerprints can be moved to make room without knowing their keys.  Keys can be
removed; room is limited, and a full filter says so.

The other bucket of fingerprint x in bucket i is (g(x) - i) mod B: going there twice leads back, for
any number of buckets, while the xor of the paper needs a power of two.

Source: B. Fan, D. G. Andersen, M. Kaminsky, M. D. Mitzenmacher, "Cuckoo filter: practically better
than Bloom", CoNEXT 2014.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from mypy_extensions import i64

from lsmkv.errors import Error
from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.family.base import GrowingFilter, check_byte_count
from lsmkv.filters.family.bit_packing import packed_bytes, read, write
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import MASK_63, hash_key
from lsmkv.filters.maths.layouts import (
    CUCKOO_SLOTS,
    MAX_CUCKOO_FINGERPRINT_BITS,
    cuckoo_buckets_for,
    cuckoo_fingerprint_bits_for,
    cuckoo_rate,
)
from lsmkv.filters.maths.rates import check_arguments

CUCKOO_KIND: Final = 10
MAX_MOVES: Final = 500
"""Fingerprints that are moved to make room for one before the filter counts as full."""


class FilterFullError(Error):
    """A filter of fixed capacity has no room for a key; it holds what it held before."""


class CuckooFilter(GrowingFilter):
    """A filter of fixed capacity, from which keys can be removed.

    A key that is added twice is stored twice; the ninth copy never fits.  Removing a key that was
    never added, but passes as a false positive, removes another key's fingerprint.

    Args:
        bucket_count: number of buckets of four fingerprints.
        fingerprint_bits: length of a fingerprint, 1 to 31 bits; it sets the error rate.

    Raises:
        ValueError: an argument is out of range.

    >>> f = CuckooFilter.for_keys(1000, 0.01)
    >>> f.add(b"a")
    >>> f.may_contain(b"a"), f.remove(b"a"), f.may_contain(b"a"), f.remove(b"a")
    (True, True, False, False)
    """

    KIND: ClassVar[int] = CUCKOO_KIND

    def __init__(self, bucket_count: int, fingerprint_bits: int) -> None:
        if not 1 <= fingerprint_bits <= MAX_CUCKOO_FINGERPRINT_BITS:
            raise ValueError(
                f"fingerprint_bits={fingerprint_bits!r}: must lie between 1 and "
                f"{MAX_CUCKOO_FINGERPRINT_BITS}"
            )
        slots = packed_bytes(bucket_count * CUCKOO_SLOTS, fingerprint_bits)
        check_byte_count(slots)
        self._bucket_count = bucket_count
        self._width = fingerprint_bits
        self._slots = bytearray(slots)
        self._stored = 0
        self._choice = 1  # the state of the choices of whom to move; never 0

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(bucket_count={self._bucket_count}, "
            f"fingerprint_bits={self._width})"
        )

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter with room for ``key_count`` keys, most likely.

        See :func:`~lsmkv.filters.maths.layouts.cuckoo_buckets_for`: a small set may still not fit.
        Whoever cannot have that asks for room for more keys.

        Raises:
            ValueError: ``error_rate`` does not lie between 0 and 1, or the filter would be too
                large.
        """
        check_arguments(key_count, error_rate)
        return cls(
            cuckoo_buckets_for(key_count), cuckoo_fingerprint_bits_for(key_count, error_rate)
        )

    @property
    def byte_count(self) -> int:
        """Size of the buckets, in bytes."""
        return len(self._slots)

    @property
    def bucket_count(self) -> int:
        """Number of buckets of four fingerprints."""
        return self._bucket_count

    @property
    def fingerprint_bits(self) -> int:
        """Length of a fingerprint, in bits."""
        return self._width

    @property
    def load(self) -> float:
        """The part of the slots that is taken, 0 to 1."""
        return self._stored / (self._bucket_count * CUCKOO_SLOTS)

    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h``.  O(1) on average, until the filter is nearly full.

        Raises:
            FilterFullError: there is no room for it; the filter is as it was before.
        """
        bucket, fingerprint = self._place(h)
        if not (
            self._put(bucket, fingerprint)
            or self._put(self._other(bucket, fingerprint), fingerprint)
        ):
            self._move(bucket, fingerprint)
        self._stored += 1

    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.  O(1)."""
        bucket, fingerprint = self._place(h)
        return (
            self._find(bucket, fingerprint) >= 0
            or self._find(self._other(bucket, fingerprint), fingerprint) >= 0
        )

    def remove(self, key: bytes, /) -> bool:
        """Take one ``add`` of ``key`` back.  O(1).

        Returns:
            False, with nothing changed, when the filter certainly does not hold ``key``; else True.
        """
        return self.remove_hash(hash_key(key))

    def remove_hash(self, h: int, /) -> bool:
        """As :meth:`remove`, for the key whose 63-bit hash is ``h``."""
        bucket, fingerprint = self._place(h)
        slot = self._find(bucket, fingerprint)
        if slot < 0:
            slot = self._find(self._other(bucket, fingerprint), fingerprint)
        if slot < 0:
            return False
        write(self._slots, slot, self._width, 0)
        self._stored -= 1
        return True

    def key_count(self) -> float:
        """How many keys are stored, repeats included: exact.  O(1)."""
        return self._stored

    def expected_rate(self, key_count: int) -> float:
        """The false-positive rate with ``key_count`` distinct keys in the filter.

        See :func:`~lsmkv.filters.maths.layouts.cuckoo_rate`.
        """
        return cuckoo_rate(self._width, self._bucket_count, key_count)

    def _place(self, h: i64) -> tuple[int, int]:
        """The first bucket of a hash, and its fingerprint, which is never 0: that is a free slot."""
        buckets: i64 = self._bucket_count
        width: i64 = self._width
        word: i64 = (h * MULTIPLIER) & MASK_63
        bucket: i64 = ((word >> 31) * buckets) >> 32
        word = (word * MULTIPLIER) & MASK_63
        kinds: i64 = (1 << width) - 1
        return bucket, 1 + (((word >> 31) * kinds) >> 32)

    def _other(self, bucket: int, fingerprint: i64) -> int:
        """The other bucket of a fingerprint that is, or could be, in ``bucket``."""
        buckets: i64 = self._bucket_count
        word: i64 = (fingerprint * MULTIPLIER) & MASK_63
        other: i64 = (((word >> 31) * buckets) >> 32) - bucket
        return other + buckets if other < 0 else other

    def _find(self, bucket: i64, fingerprint: i64) -> int:
        """The slot of a bucket that holds ``fingerprint``; -1 when none does."""
        first: i64 = bucket * CUCKOO_SLOTS
        slots = self._slots
        width: i64 = self._width
        for slot in range(first, first + CUCKOO_SLOTS):
            if read(slots, slot, width) == fingerprint:
                return slot
        return -1

    def _put(self, bucket: int, fingerprint: int) -> bool:
        """Put ``fingerprint`` into a free slot of a bucket; False when there is none."""
        slot = self._find(bucket, 0)
        if slot < 0:
            return False
        write(self._slots, slot, self._width, fingerprint)
        return True

    def _move(self, bucket: int, fingerprint: int) -> None:
        """Make room in a full bucket by moving others on; undo it all when that does not help."""
        moved: list[int] = []
        homeless = fingerprint
        for _ in range(MAX_MOVES):
            slot = bucket * CUCKOO_SLOTS + self._choose()
            moved.append(slot)
            homeless = self._swap(slot, homeless)
            bucket = self._other(bucket, homeless)
            if self._put(bucket, homeless):
                return
        for slot in reversed(moved):
            homeless = self._swap(slot, homeless)
        raise FilterFullError(
            f"{self!r} is full: it holds {self._stored} keys, and {MAX_MOVES} moves made no room "
            "for another"
        )

    def _swap(self, slot: int, fingerprint: int) -> int:
        """Put ``fingerprint`` into a slot; what was there."""
        there = read(self._slots, slot, self._width)
        write(self._slots, slot, self._width, fingerprint)
        return there

    def _choose(self) -> int:
        """One of the four slots of a bucket: the same choices in every process (xorshift)."""
        state: i64 = self._choice
        state ^= (state << 13) & 0xFFFFFFFF
        state ^= state >> 17
        state ^= (state << 5) & 0xFFFFFFFF
        self._choice = state
        return (state >> 15) & (CUCKOO_SLOTS - 1)

    def _parameters(self) -> tuple[int, ...]:
        return (self._bucket_count, self._width, self._choice)

    def _body(self) -> bytes:
        return bytes(self._slots)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        bucket_count, width, choice = parts.parameters(
            (1, 2 * MAX_BYTES), (1, MAX_CUCKOO_FINGERPRINT_BITS), (1, 0xFFFFFFFF)
        )
        slot_count = bucket_count * CUCKOO_SLOTS
        body = parts.body(packed_bytes(slot_count, width))
        if len(body) > MAX_BYTES:
            raise parts.corrupt(f"{len(body)} bytes are too many")
        restored = cls(bucket_count, width)
        restored._slots = bytearray(body)
        restored._stored = sum([1 for i in range(slot_count) if read(restored._slots, i, width)])
        restored._choice = choice
        return restored
