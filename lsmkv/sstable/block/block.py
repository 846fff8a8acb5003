"""A data block's payload: sorted entries in a layout that is searched in place.

Layout, little-endian, before compression::

    0   u32  entry_count n
    4   u8   flags: bit 0 set when some entry is not a plain put (a tag array follows);
             bit 1 set when some key has more than one version here
    5   u8   seq_width: bytes of each sequence number, 0, 1, 2, 4 or 8
    6   u16  prefix_length: bytes that all the keys of the block share
    8   u64  base_seq: the smallest sequence number; each entry stores its distance from it
    16  u32  keys_length
    20  u32  values_length
    24       prefix        prefix_length bytes
             fingerprints  n bytes: the low byte of each key's hash
             key_lengths   n u16: each key's length without the prefix
             value_lengths n u32
             tags          n u8, only with flag bit 0: 0 delete, 1 put, 4 put with expiry
             seqs          n * seq_width
             keys          keys_length bytes: the keys without the prefix, one after another
             values        values_length bytes; with tag 4 the expiry comes first
                           (:mod:`lsmkv.encoding.expiry`)

Entries are in key order, the versions of one key newest first.  In memory, lengths are held as
running ends, unless all are equal, so that an entry is found without summing.  Compressed blocks store
the transposed form of the payload (:mod:`lsmkv.sstable.block.transposed`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NoReturn

from librt.strings import read_i32_le, read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import (
    MAX_KEY_BYTES,
    MAX_SEQUENCE,
    MAX_VALUE_BYTES,
    TAG_DELETE,
    TAG_EXPIRING,
    TAG_PUT,
    TAGS_RESERVED,
)
from lsmkv.encoding.expiry import EXPIRY_BYTES, Expiring, Held, expiring_in, expiry_in, value_length
from lsmkv.encoding.fences import end_before_head, fence, first_head
from lsmkv.encoding.words import COMPILED, compare, find_byte, is_same
from lsmkv.filters.hashing import hash_key
from lsmkv.sstable.block.layout import (
    FLAGS_AT,
    HAS_TAGS,
    HAS_VERSIONS,
    HEADER_BYTES,
    KEY_LENGTH_BYTES,
    SEQ_WIDTH_AT,
    VALUE_LENGTH_BYTES,
    section_offsets,
    u32,
    width_and_ends,
)
from lsmkv.sstable.block.lengths import (
    append_parts,
    ascend,
    put_ends,
    with_fingerprints,
    with_prefix,
)
from lsmkv.sstable.block_cache import CacheItem

ENTRY_OVERHEAD_BYTES: Final = 7  # fingerprint, key length, value length
_OBJECT_BYTES: Final = 400  # of a Block in memory, besides its payload
_CACHE_LINE_BYTES: Final = 64  # of most processors
_MAX_PREFETCH_BYTES: Final = 512
_MAX_SEQ_DISTANCE: Final = (1 << 32) - 1  # of a sequence number from the base, in 4 bytes
_SEQ_TYPES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Block(CacheItem):
    """A payload, checked and ready to be searched.

    A restored payload lacks fingerprints; the second lookup makes them.  Whatever does not add up is
    handed to ``fail``, which must raise.
    """

    def __init__(
        self, raw: bytes, fail: Callable[[str], NoReturn], lacks_fingerprints: bool = False
    ) -> None:
        if len(raw) < HEADER_BYTES:
            fail(f"block payload of {len(raw)} bytes is shorter than its header")
        count, fingerprints, key_lengths, value_lengths, tags, seqs, keys, values = section_offsets(
            raw, False
        )
        flags, seq_width = raw[FLAGS_AT], raw[SEQ_WIDTH_AT]
        if flags & ~(HAS_TAGS | HAS_VERSIONS) or seq_width not in (0, 1, 2, 4, 8) or count == 0:
            fail(f"bad block header: {count} entries, flags {flags}, sequence width {seq_width}")
        values_length = u32(raw, 20)
        if values + values_length != len(raw):
            fail(f"block sections of {values + values_length} bytes in a payload of {len(raw)}")
        key_width, key_ends = width_and_ends(
            raw, key_lengths, value_lengths, KEY_LENGTH_BYTES, values - keys
        )
        value_width, value_ends = width_and_ends(
            raw, value_lengths, tags, VALUE_LENGTH_BYTES, values_length
        )
        if key_ends is None or value_ends is None:
            fail("key or value lengths of a block do not add up")
        self.has_expiring = False
        if tags < seqs:
            found = set(raw[tags:seqs])
            self.has_expiring = TAG_EXPIRING in found
            for tag in found - {TAG_DELETE, TAG_PUT, TAG_EXPIRING}:
                meaning = TAGS_RESERVED.get(tag, "unknown")
                fail(f"entry tag {tag} ({meaning}) is not supported by this release")
        self.has_versions: bool = flags & HAS_VERSIONS != 0
        made_bytes = key_lengths if lacks_fingerprints else 0
        super().__init__(len(raw) + made_bytes + len(key_ends) + len(value_ends) + _OBJECT_BYTES)
        # In this order, what lookups read lies in as few cache lines as possible.
        self.raw = raw
        self.count: i64 = count
        self.prefix_length: i64 = fingerprints - HEADER_BYTES
        self._fingerprints: i64 = fingerprints
        self._keys: i64 = keys
        self._values: i64 = values
        # The bytes that hold the fingerprints, at their offset in a payload; empty until made.
        self._prints = b"" if lacks_fingerprints else raw
        self._was_searched = False
        self._key_width: i64 = key_width
        self._value_width: i64 = value_width
        self._tags: i64 = tags if tags < seqs else -1
        self._key_ends = key_ends
        self._value_ends = value_ends
        self._seqs: i64 = seqs
        self._seq_width: i64 = seq_width
        base_seq: int = read_i64_le(raw, 8)
        self._base_seq: int = base_seq if base_seq >= 0 else base_seq + (1 << 64)
        # Narrow distances from a base that is not near the limit cannot exceed it.
        may_exceed = self._base_seq > MAX_SEQUENCE - _MAX_SEQ_DISTANCE or seq_width == 8
        if may_exceed and max(self.seqs()) > MAX_SEQUENCE:
            fail(f"sequence number {max(self.seqs())} of a block is out of range")
        if self.has_expiring:
            for position in range(count):
                length = self._value_at(position + 1) - self._value_at(position)
                if raw[tags + position] == TAG_EXPIRING and length < EXPIRY_BYTES:
                    fail(f"entry {position} of a block has no room for its expiry")

    def _key_at(self, position: i64) -> i64:
        """Start of the key at ``position``; for ``count``, the end of the last."""
        if self._key_width >= 0:
            return self._keys + self._key_width * position
        distance: int = read_i32_le(self._key_ends, 4 * position)
        return self._keys + distance

    def _value_at(self, position: i64) -> i64:
        """As :meth:`_key_at`, for values."""
        if self._value_width >= 0:
            return self._values + self._value_width * position
        distance: int = read_i32_le(self._value_ends, 4 * position)
        return self._values + distance

    def find(self, key: bytes, h: i64, start: i64 = 0) -> i64:
        """Position of the newest version of ``key`` from ``start`` on, or -1.

        ``h`` is the hash of ``key``.  O(n / 8), with n / 256 needless key comparisons on average.
        """
        raw = self.raw
        fingerprint = h & 0xFF
        first = self._fingerprints
        prints = self._prints
        if not prints:
            if start == 0 and not self._was_searched:
                return self._first_found(key)
            prints = self._make_fingerprints()
        end = first + self.count
        length = len(key) - self.prefix_length
        found = find_byte(prints, fingerprint, first + start, end)
        while found >= 0:
            position = found - first
            at = self._key_at(position)
            if (
                self._key_at(position + 1) - at == length
                and is_same(raw, at, key, self.prefix_length, length)
                and is_same(raw, HEADER_BYTES, key, 0, self.prefix_length)
            ):
                return position
            found = find_byte(prints, fingerprint, found + 1, end)
        return -1

    def _first_found(self, key: bytes) -> i64:
        """:meth:`find` for the first lookup in a block that lacks fingerprints.

        O(log n) comparisons cost less than n fingerprints, which pay from the second lookup on.
        """
        self._was_searched = True
        position = self.lower_bound(key)
        if position < self.count and self.is_key(position, key, 0, len(key)):
            return position
        return -1

    def shared_hash_bits(self, h: i64) -> i64:
        """The most low bits of ``h`` that a key's hash has too; below 8, 0."""
        first = self._fingerprints
        prints = self._prints if self._prints else self._make_fingerprints()
        end = first + self.count
        most: i64 = 0
        found = find_byte(prints, h & 0xFF, first, end)
        while found >= 0:
            differing = hash_key(self.key(found - first)) ^ h
            if differing == 0:
                return 63
            shared: i64 = int(differing & -differing).bit_length() - 1
            most = max(most, shared)
            found = find_byte(prints, h & 0xFF, found + 1, end)
        return most

    def prefetch(self) -> i64:
        """Fetch what :meth:`find` reads into the processor's cache."""
        raw, first = self.raw, self._fingerprints
        prints = self._prints if self._prints else raw
        before_keys = self._keys - 1  # the keys themselves may have no bytes
        ends: i64 = raw[before_keys] + raw[self._values - 1]
        return prints[first] + prints[first + self.count - 1] + ends

    def prefetch_keys(self) -> i64:
        """Fetch the first keys, for :meth:`lower_bound`, into the processor's cache."""
        end = min(self._values, self._keys + _MAX_PREFETCH_BYTES)
        return _fetch(self.raw, self._keys, end) + self.raw[HEADER_BYTES]

    def prefetch_values(self, low: i64, high: i64) -> i64:
        return _fetch(self.raw, self._value_at(low), self._value_at(high))

    def prefetch_value(self, position: i64) -> i64:
        """Fetch the first bytes of a value into the processor's cache."""
        raw, at = self.raw, self._value_at(position)
        end = min(self._value_at(position + 1), at + _MAX_PREFETCH_BYTES)
        return _fetch(raw, at, end) + raw[end - 1]  # the byte before it, if it is empty

    def find_visible(self, key: bytes, h: i64, max_seq: int) -> i64:
        """As :meth:`find`, for the newest version numbered up to ``max_seq``."""
        position = self.find(key, h)
        while position >= 0 and self.seq(position) > max_seq:
            position = self.find(key, h, position + 1)
        return position

    def _make_fingerprints(self) -> bytes:
        end, width, ends = self._fingerprints, self._key_width, self._key_ends
        made = with_fingerprints(self.raw, HEADER_BYTES, end, self._keys, self.count, width, ends)
        self._prints = made
        return made

    def value(self, position: i64) -> Held:
        """The value at ``position``; None for a deletion."""
        start = self._value_at(position)
        end = self._value_at(position + 1)
        if self._tags >= 0:
            tag = self.raw[self._tags + position]
            if tag == TAG_DELETE:
                return None
            if tag == TAG_EXPIRING:
                return expiring_in(self.raw, start, end)
        return self.raw[start:end]

    def seq(self, position: i64) -> int:
        width = self._seq_width
        if width == 0:
            return self._base_seq
        at = self._seqs + width * position
        return self._base_seq + int.from_bytes(self.raw[at : at + width], "little")

    def lower_bound(self, key: bytes) -> i64:
        """Position of the first key not below ``key``; O(log n) comparisons."""
        raw = self.raw
        prefix, length = self.prefix_length, i64(len(key))
        order = compare(raw, HEADER_BYTES, HEADER_BYTES + prefix, key, 0, min(prefix, length))
        if order:  # against the prefix, and so against every key here
            return 0 if order > 0 else self.count
        low: i64 = 0
        high: i64 = self.count
        width = min(self._key_width, 7)
        if width > 0:  # go by the first bytes of each, as numbers
            target = fence(key, prefix, length) >> (63 - 8 * width)
            if width == self._key_width:  # which are all of them
                if length - prefix > width:
                    target += 1  # a key that goes on after one of them is above it
                return first_head(raw, self._keys, width, high, width, target)
            low = first_head(raw, self._keys, self._key_width, high, width, target)
            if low == high:
                return low
            start, end = self._key_at(low), self._key_at(low + 1)
            if compare(raw, start, end, key, prefix, length) >= 0:
                return low
        while low < high:
            middle = (low + high) >> 1
            start, end = self._key_at(middle), self._key_at(middle + 1)
            if compare(raw, start, end, key, prefix, length) < 0:
                low = middle + 1
            else:
                high = middle
        return low

    def prefix(self) -> bytes:
        return self.raw[HEADER_BYTES : HEADER_BYTES + self.prefix_length]

    def key_after(self, prefix: bytes, position: i64) -> bytes:
        """As :meth:`key`, for a caller that has the prefix."""
        start, end = self._key_at(position), self._key_at(position + 1)
        suffix = self.raw[start:end]
        return prefix + suffix

    def key(self, position: i64) -> bytes:
        raw = self.raw
        start, end = self._key_at(position), self._key_at(position + 1)
        suffix = raw[start:end]
        if self.prefix_length == 0:
            return suffix
        return self.prefix() + suffix

    def is_key(self, position: i64, data: bytes, start: i64, end: i64) -> bool:
        """Whether the key at ``position`` is ``data[start:end]``."""
        raw, prefix, at = self.raw, self.prefix_length, self._key_at(position)
        length = end - start - prefix
        return (
            self._key_at(position + 1) - at == length
            and is_same(raw, HEADER_BYTES, data, start, prefix)
            and is_same(raw, at, data, start + prefix, length)
        )

    def ascends(self, may_repeat: bool) -> bool:
        """Whether keys ascend (``may_repeat``: never descend), within the limit."""
        most, width, ends = MAX_KEY_BYTES - self.prefix_length, self._key_width, self._key_ends
        return ascend(self.raw, self._keys, self.count, width, ends, most, may_repeat)

    def end_before(self, at: i64, end: i64, bound: bytes, reverse: bool) -> i64:
        """How far from ``at`` towards ``end`` the keys lie before ``bound``.

        Before is below, or with ``reverse``, which goes downwards, above.  The key at ``at`` does.  It
        gallops: O(log(distance)) comparisons.
        """
        raw, prefix, bound_length = self.raw, self.prefix_length, i64(len(bound))
        shared = min(prefix, bound_length)
        if compare(raw, HEADER_BYTES, HEADER_BYTES + prefix, bound, 0, shared):
            return end  # all keys here are on one side of it
        width = self._key_width
        if 0 < width < 8:
            target = fence(bound, prefix, bound_length) >> (63 - 8 * width)
            if reverse and bound_length - prefix < width:
                target -= 1  # a key that goes on after it is above it
            elif not reverse and bound_length - prefix > width:
                target += 1
            return end_before_head(raw, self._keys, width, at, end, target, reverse)
        direction: i64 = -1 if reverse else 1
        length = (end - at) * direction
        low: i64 = 1
        step: i64 = 1
        while step < length and self._is_before(at + step * direction, bound, reverse):
            low = step + 1
            step *= 2
        high = min(step, length)
        while low < high:
            middle = (low + high) >> 1
            if self._is_before(at + middle * direction, bound, reverse):
                low = middle + 1
            else:
                high = middle
        return at + low * direction

    def _is_before(self, position: i64, bound: bytes, reverse: bool) -> bool:
        """As :meth:`end_before`; ``bound`` has the block's prefix."""
        start, end = self._key_at(position), self._key_at(position + 1)
        order = compare(self.raw, start, end, bound, self.prefix_length, len(bound))
        return order > 0 if reverse else order < 0

    def append_entries(
        self,
        found: list[tuple[bytes, bytes]],
        prefix: bytes,
        first: bytes,
        position: i64,
        end: i64,
        step: i64,
        now_s: i64,
    ) -> None:
        """Append the live keys and values from ``position`` to ``end``.

        ``step`` is 1 or -1, ``first`` the key at ``position``, ``prefix`` the :meth:`prefix`.  ``now_s``
        counts if the block ``has_expiring``.
        """
        raw, tags = self.raw, self._tags
        key_width, value_width = self._key_width, self._value_width
        keys, values = self._keys, self._values
        key = first
        while position != end:
            if tags < 0 or raw[tags + position] == TAG_PUT:
                if value_width >= 0:  # no calls: they are slow when interpreted
                    start = values + value_width * position
                    found.append((key, raw[start : start + value_width]))
                else:
                    start, stop = self._value_at(position), self._value_at(position + 1)
                    found.append((key, raw[start:stop]))
            elif raw[tags + position] == TAG_EXPIRING:
                start, stop = self._value_at(position), self._value_at(position + 1)
                if expiry_in(raw, start) > now_s:
                    found.append((key, raw[start + EXPIRY_BYTES : stop]))
            position += step
            if position != end:
                if key_width >= 0:
                    start = keys + key_width * position
                    key = prefix + raw[start : start + key_width]
                else:
                    start, stop = self._key_at(position), self._key_at(position + 1)
                    key = prefix + raw[start:stop]

    def keys(self) -> list[bytes]:
        found: list[bytes] = []
        length, count, width = self.prefix_length, self.count, self._key_width
        if length == 0:
            append_parts(found, self.raw, self._keys, count, width, self._key_ends, 0)
        else:
            append_parts(found, self.key_data(), 0, count, width, self._key_ends, length)
        return found

    def values(self) -> list[Held]:
        found: list[Held] = []
        width = self._value_width
        append_parts(found, self.raw, self._values, self.count, width, self._value_ends, 0)
        if self.has_tags:
            for position, tag in enumerate(self.tags()):
                if tag != TAG_PUT:
                    found[position] = self.value(position)
        return found

    def expiries(self) -> list[int]:
        if not self.has_expiring:
            return []
        return [held.expires_at_s for held in self.values() if isinstance(held, Expiring)]

    def key_data(self) -> bytes:
        """The keys with their prefix, one after another."""
        raw, length = self.raw, self.prefix_length
        if length == 0:
            return raw[self._keys : self._values]
        prefix = self.prefix()
        if not COMPILED:
            suffixes: list[bytes] = []
            width = self._key_width
            append_parts(suffixes, raw, self._keys, self.count, width, self._key_ends, 0)
            return prefix + prefix.join(suffixes)
        return with_prefix(
            raw, HEADER_BYTES, length, self._keys, self.count, self._key_width, self._key_ends
        )

    def value_data(self) -> bytes:
        return self.raw[self._values :]

    @property
    def has_tags(self) -> bool:
        """Whether the payload has tags; without them each entry is a plain put."""
        return self._tags >= 0

    def tags(self) -> bytes:
        if self._tags < 0:
            return bytes([TAG_PUT]) * self.count
        return self.raw[self._tags : self._tags + self.count]

    def put_ends(self, key_ends: vec[i64], value_ends: vec[i64], at: i64) -> None:
        """Set where the pieces of :meth:`key_data` and :meth:`value_data` end.

        The ends go behind ``at``: the first key starts at ``key_ends[at]``, the first value at
        ``value_ends[at]``.
        """
        count = self.count
        put_ends(key_ends, at, count, self._key_width, self._key_ends, self.prefix_length)
        put_ends(value_ends, at, count, self._value_width, self._value_ends, 0)

    def seqs(self) -> list[int]:
        width = self._seq_width
        if width == 0:
            return [self._base_seq] * self.count
        deltas = self.raw[self._seqs : self._seqs + width * self.count]
        base = self._base_seq
        return [
            base + delta for delta in struct.unpack(f"<{self.count}{_SEQ_TYPES[width]}", deltas)
        ]

    def one_seq(self) -> int:
        """The one sequence number of all entries; -1 if they differ."""
        return self._base_seq if self._seq_width == 0 else -1

    def check_order(self, fail: Callable[[str], NoReturn]) -> None:
        """Check limits and order: ascending keys, descending numbers within a key."""
        last_key: bytes | None = None
        last_seq = 0
        for key, seq, value in zip(self.keys(), self.seqs(), self.values(), strict=True):
            if len(key) > MAX_KEY_BYTES or value_length(value) > MAX_VALUE_BYTES:
                fail(f"entry of {len(key)} key bytes is over the limits")
            if last_key is not None and (key < last_key or (key == last_key and seq >= last_seq)):
                fail(f"key {key[:40]!r} is out of order")
            last_key, last_seq = key, seq


def _fetch(raw: bytes, at: i64, end: i64) -> i64:
    """Read a byte of each cache line; summed, or the compiler drops the reads."""
    fetched: i64 = 0
    while at < end:
        fetched += raw[at]
        at += _CACHE_LINE_BYTES
    return fetched
