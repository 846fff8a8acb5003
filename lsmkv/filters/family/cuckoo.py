"""The cuckoo filter: fingerprints in a hash table with two possible buckets of four for each key.

A bucket and a fingerprint give the fingerprint's other bucket, so fingerprints can move to make room
without their keys.  Room is limited, and a full filter says so.

The other bucket of fingerprint x in bucket i is (g(x) - i) mod B: going there twice leads back, for
any number of buckets, while the xor of the paper needs a power of two.

Source: B. Fan, D. G. Andersen, M. Kaminsky, M. D. Mitzenmacher, "Cuckoo filter: practically better
than Bloom", CoNEXT 2014.
"""

from __future__ import annotations

from typing import Final, Self

from lsmkv.errors import Error
from lsmkv.filters.bloom import MAX_BYTES, MULTIPLIER
from lsmkv.filters.family.base import BYTE_LIMITS, RemovingFilter, check_range
from lsmkv.filters.family.bit_packing import packed_bytes, read, write
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths import layouts

MAX_MOVES: Final = 500  # of fingerprints, before a filter counts as full
_WIDTH_LIMITS: Final = (1, layouts.MAX_CUCKOO_FINGERPRINT_BITS)


class FilterFullError(Error):
    """A filter of fixed capacity has no room for a key; it holds what it held before."""


class CuckooFilter(RemovingFilter):
    """A filter of fixed capacity, from which keys can be removed.

    It has ``bucket_count`` buckets of four fingerprints of ``fingerprint_bits``, 1 to 31, which set the
    error rate.  A key that is added twice is stored twice; the ninth copy never fits.  Removing a false
    positive removes another key's fingerprint.  To ask and to remove takes O(1).

    >>> f = CuckooFilter.for_keys(1000, 0.01)
    >>> f.add(b"a")
    >>> f.may_contain(b"a"), f.remove(b"a"), f.may_contain(b"a"), f.remove(b"a")
    (True, True, False, False)
    """

    KIND = 10
    _ARGUMENTS = ("bucket_count", "fingerprint_bits")
    _bits: bytearray

    def __init__(self, bucket_count: int, fingerprint_bits: int) -> None:
        check_range("fingerprint_bits", fingerprint_bits, _WIDTH_LIMITS)
        byte_count = packed_bytes(bucket_count * layouts.CUCKOO_SLOTS, fingerprint_bits)
        check_range("byte_count", byte_count, BYTE_LIMITS)
        self.bucket_count: Final = bucket_count
        self.fingerprint_bits: Final = fingerprint_bits
        self._bits = bytearray(byte_count)
        self._stored = 0
        self._random = 1  # state of the choice of the slot to move; never 0

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter that has room for ``key_count`` keys, most likely; a small set may not fit."""
        bits = layouts.cuckoo_fingerprint_bits_for(key_count, error_rate)
        return cls(layouts.cuckoo_buckets_for(key_count), bits)

    @property
    def load(self) -> float:
        """The fraction of the slots in use, 0 to 1."""
        return self._stored / (self.bucket_count * layouts.CUCKOO_SLOTS)

    def add_hash(self, h: int, /) -> None:
        """Add the key with this hash; O(1) until nearly full.  FilterFullError: nothing was changed."""
        bucket, fingerprint = self._place(h)
        if not (
            self._put(bucket, fingerprint)
            or self._put(self._other(bucket, fingerprint), fingerprint)
        ):
            self._move(bucket, fingerprint)
        self._stored += 1

    def may_contain_hash(self, h: int, /) -> bool:
        return self._slot_of(h) >= 0

    def remove_hash(self, h: int, /) -> bool:
        slot = self._slot_of(h)
        if slot < 0:
            return False
        write(self._bits, slot, self.fingerprint_bits, 0)
        self._stored -= 1
        return True

    def key_count(self) -> float:
        """How many keys are stored, repeats included: exact."""
        return self._stored

    def expected_rate(self, key_count: int) -> float:
        """The false-positive rate with ``key_count`` distinct keys."""
        return layouts.cuckoo_rate(self.fingerprint_bits, self.bucket_count, key_count)

    def _slot_of(self, h: int) -> int:
        """A slot with the fingerprint of a hash; -1 when there is none."""
        bucket, fingerprint = self._place(h)
        slot = self._find(bucket, fingerprint)
        return slot if slot >= 0 else self._find(self._other(bucket, fingerprint), fingerprint)

    def _place(self, h: int) -> tuple[int, int]:
        """The first bucket of a hash, and its fingerprint, never 0: that is a free slot."""
        h = (h * MULTIPLIER) & MASK_63
        bucket = ((h >> 31) * self.bucket_count) >> 32
        h = (h * MULTIPLIER) & MASK_63
        return bucket, 1 + (((h >> 31) * ((1 << self.fingerprint_bits) - 1)) >> 32)

    def _other(self, bucket: int, fingerprint: int) -> int:
        """The other bucket of a fingerprint in ``bucket``."""
        word = (fingerprint * MULTIPLIER) & MASK_63
        other = (((word >> 31) * self.bucket_count) >> 32) - bucket
        return other + self.bucket_count if other < 0 else other

    def _find(self, bucket: int, fingerprint: int) -> int:
        """The slot of a bucket that holds ``fingerprint``; -1 when none does."""
        first = bucket * layouts.CUCKOO_SLOTS
        for slot in range(first, first + layouts.CUCKOO_SLOTS):
            if read(self._bits, slot, self.fingerprint_bits) == fingerprint:
                return slot
        return -1

    def _put(self, bucket: int, fingerprint: int) -> bool:
        """Put ``fingerprint`` into a free slot of a bucket; False when there is none."""
        slot = self._find(bucket, 0)
        if slot < 0:
            return False
        write(self._bits, slot, self.fingerprint_bits, fingerprint)
        return True

    def _move(self, bucket: int, fingerprint: int) -> None:
        """Make room in a full bucket by moving others on; undo it all when that does not help."""
        moved: list[int] = []
        homeless = fingerprint
        for _ in range(MAX_MOVES):
            slot = bucket * layouts.CUCKOO_SLOTS + self._random_slot()
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
        replaced = read(self._bits, slot, self.fingerprint_bits)
        write(self._bits, slot, self.fingerprint_bits, fingerprint)
        return replaced

    def _random_slot(self) -> int:
        """One of the four slots of a bucket (xorshift)."""
        state = self._random
        state ^= (state << 13) & 0xFFFFFFFF
        state ^= state >> 17
        state ^= (state << 5) & 0xFFFFFFFF
        self._random = state
        return (state >> 15) & (layouts.CUCKOO_SLOTS - 1)

    def _parameters(self) -> tuple[int, ...]:
        return (self.bucket_count, self.fingerprint_bits, self._random)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        bucket_count, width, random = parts.checked_parameters(
            (1, 2 * MAX_BYTES), _WIDTH_LIMITS, (1, 0xFFFFFFFF)
        )
        slot_count = bucket_count * layouts.CUCKOO_SLOTS
        body = parts.checked_body(packed_bytes(slot_count, width))
        if len(body) > MAX_BYTES:
            raise parts.corrupt(f"{len(body)} bytes are too many")
        restored = cls(bucket_count, width)
        restored._bits = bytearray(body)
        restored._stored = sum([1 for i in range(slot_count) if read(restored._bits, i, width)])
        restored._random = random
        return restored
