"""Batches of entries in columns: how flushes and compactions hold entries.

No object is made for a key or a value.  All keys of a batch stand one after another in one buffer, and
all values in another.  To merge or drop entries is to write a new list of slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, cast

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    TAG_DELETE,
    TAG_EXPIRING,
    TAG_PUT,
    out_of_order,
)
from lsmkv.encoding.expiry import Expiring, Held, expiry_in, held_bytes
from lsmkv.encoding.words import COMPILED, compare, is_same
from lsmkv.errors import caused

Entry = tuple[bytes, Held, int]  # key, value, sequence number

_BATCH_ENTRIES: Final = 64  # in a batch made of entries
_BATCH_BYTES: Final = 256 * 1024  # of values in a batch, but for the last one
_PREPARED: Final = 1024  # more slots than most batches have
_ASCENDING: Final = vec[i64](range(_PREPARED))


class EntryBatch:
    """Entries in key order, those of one key newest first.

    An entry's *position* is its index in this order, its *slot* its index in the columns.  Slots of
    dropped entries stay in the columns.
    """

    def __init__(
        self,
        key_data: bytes,
        key_ends: vec[i64],
        value_data: bytes,
        value_ends: vec[i64],
        tags: bytes,
        seqs: list[int],
        *,
        may_repeat: bool,
        one_seq: int = -1,
    ) -> None:
        """No slot is dropped; ``seqs`` is empty when ``one_seq`` is given."""
        self.key_data = key_data  # the keys, one after another, by slot
        self.key_ends = key_ends  # where in it the key of each slot begins, and the last one ends
        # value_data, value_ends: the same for values as they are stored; a deletion has no bytes.
        self.value_data = value_data
        self.value_ends = value_ends
        self.tags = tags  # the tag of each slot; empty when all are ``TAG_PUT``
        self.order = ascending(len(key_ends) - 1)  # the slot of each position
        self.seqs = seqs  # the sequence number of each slot; empty when there is ``one_seq``
        # The sequence number that all entries share; -1 when they differ, or may.
        self.one_seq = one_seq
        self.may_repeat = may_repeat  # whether a key may have more than one entry

    @staticmethod
    def of(
        keys: list[bytes],
        values: list[Held],
        seqs: list[int],
        *,
        may_repeat: bool,
        one_seq: int = -1,
    ) -> EntryBatch:
        """A batch of entries given one by one."""
        key_ends = vec[i64]([0] * (len(keys) + 1))
        value_ends = vec[i64]([0] * (len(values) + 1))
        _set_ends(cast(list[Held], keys), key_ends)
        if _set_ends(values, value_ends):
            tags = bytes([_tag(value) for value in values])
            value_data = b"".join([_stored(value) for value in values])
        else:
            tags = b""
            value_data = b"".join(cast(list[bytes], values))
        return EntryBatch(
            b"".join(keys),
            key_ends,
            value_data,
            value_ends,
            tags,
            seqs,
            may_repeat=may_repeat,
            one_seq=one_seq,
        )

    @property
    def count(self) -> int:
        return len(self.order)

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values, of dropped entries too."""
        return len(self.key_data) + len(self.value_data)

    def keep(self, order: vec[i64], *, may_repeat: bool) -> None:
        self.order = order
        self.may_repeat = may_repeat

    def set_one_seq(self, seq: int) -> None:
        self.one_seq = seq
        self.seqs = []

    def set_seqs(self, seqs: list[int]) -> None:
        self.one_seq = -1
        self.seqs = seqs

    def copy_seqs(self) -> list[int]:
        if self.one_seq < 0:
            return list(self.seqs)
        return [self.one_seq] * (len(self.key_ends) - 1)

    def key(self, position: i64) -> bytes:
        slot = self.order[position]
        start, end = self.key_ends[slot], self.key_ends[slot + 1]
        return self.key_data[start:end]

    def expiry_s(self, slot: i64) -> i64:
        """When the entry is due that has ``TAG_EXPIRING``."""
        return expiry_in(self.value_data, self.value_ends[slot])

    def delete(self, slots: list[int]) -> None:
        tags = bytearray(self.tags)
        ends, values = self.value_ends, [b""] * len(tags)
        for slot in range(len(tags)):
            start, end = ends[slot], ends[slot + 1]
            values[slot] = self.value_data[start:end]
        for slot in slots:
            tags[slot] = TAG_DELETE
            values[slot] = b""
        self.tags = bytes(tags)
        self.value_ends = vec[i64]([0] * (len(tags) + 1))
        _set_ends(cast(list[Held], values), self.value_ends)
        self.value_data = b"".join(values)

    def is_new_key(self, position: i64) -> bool:
        """Whether the entry at ``position``, above 0, begins another key."""
        data, ends, order = self.key_data, self.key_ends, self.order
        slot, slot_before = order[position], order[position - 1]
        start, end = ends[slot], ends[slot + 1]
        other, other_end = ends[slot_before], ends[slot_before + 1]
        if not COMPILED:
            return data[start:end] != data[other:other_end]
        return end - start != other_end - other or not is_same(
            data, start, data, other, end - start
        )

    def first_above(self, key: bytes, start: i64) -> i64:
        """The first position from ``start`` on whose key is above ``key``."""
        data, ends, order = self.key_data, self.key_ends, self.order
        low = start
        high: i64 = len(order)
        while low < high:
            middle = (low + high) >> 1
            slot = order[middle]
            if compare(data, ends[slot], ends[slot + 1], key, 0, len(key)) <= 0:
                low = middle + 1
            else:
                high = middle
        return low


def batch_of_columns(
    keys: bytes, key_ends: Iterable[int], values: bytes, value_ends: Iterable[int]
) -> EntryBatch:
    """Entries with the sequence number 0: all keys, all values, where each ends.

    ValueError if the ends are not those of keys and values, or if a key is not above the one before.
    """
    ends = _checked_ends(keys, key_ends, "key", MAX_KEY_BYTES)
    other_ends = _checked_ends(values, value_ends, "value", MAX_VALUE_BYTES)
    if len(ends) != len(other_ends):
        raise ValueError(f"{len(ends) - 1} keys and {len(other_ends) - 1} values")
    number: i64 = 2
    while number < len(ends):
        start, middle, end = ends[number - 2], ends[number - 1], ends[number]
        if compare(keys, middle, end, keys, start, middle) <= 0:
            raise ValueError(out_of_order(keys[middle:end], keys[start:middle]))
        number += 1
    return EntryBatch(keys, ends, values, other_ends, b"", [], may_repeat=False, one_seq=0)


def _checked_ends(data: bytes, given: Iterable[int], what: str, most: i64) -> vec[i64]:
    """Where the first one begins, and each ends."""
    boxed = [0]
    boxed.extend(given)
    try:
        ends = vec[i64](boxed)
    except OverflowError:
        raise caused(ValueError(f"a {what} ends beyond the {len(data)} bytes of all"), None)
    except TypeError:
        boxes: Any = boxed  # compiled code would unbox each item, and fail in its own words
        wrong = [end for end in boxes if not isinstance(end, int)]
        raise caused(TypeError(f"{what}_ends has {wrong[0]!r}: an end is an int, in bytes"), None)
    length: i64 = len(data)
    number: i64 = 1
    while number < len(ends):
        start, end = ends[number - 1], ends[number]
        if start > end or end > length:
            raise ValueError(
                f"a {what} from {start} to {end}: ends ascend, up to the {length} bytes of all"
            )
        if end - start > most:
            raise ValueError(f"{what} of {end - start} bytes is over the limit of {most} bytes")
        number += 1
    if ends[number - 1] != length:
        raise ValueError(
            f"the last {what} ends at {ends[number - 1]}, not at {length}, where all end"
        )
    return ends


class EntrySlice:
    """The entries of a batch from position ``start`` up to ``end``."""

    def __init__(self, batch: EntryBatch, start: i64, end: i64) -> None:
        self.batch = batch
        self.start = start
        self.end = end

    def as_batch(self) -> EntryBatch:
        """A batch of just these entries: the same one when the slice is all of it."""
        if self.start == 0 and self.end == len(self.batch.order):
            return self.batch
        return joined([self])

    def key_objects(self) -> list[bytes]:
        data, ends = self.batch.key_data, self.batch.key_ends
        keys: list[bytes] = []
        for slot in self.batch.order[self.start : self.end]:
            start, end = ends[slot], ends[slot + 1]
            keys.append(data[start:end])
        return keys

    def tags(self) -> bytes:
        tags = self.batch.tags
        if not tags:
            return bytes([TAG_PUT]) * (self.end - self.start)
        return bytes([tags[slot] for slot in self.batch.order[self.start : self.end]])

    def seqs(self) -> list[int]:
        batch = self.batch
        if batch.one_seq >= 0:
            return [batch.one_seq] * (self.end - self.start)
        return [batch.seqs[slot] for slot in batch.order[self.start : self.end]]


def joined(parts: list[EntrySlice]) -> EntryBatch:
    """A new batch of all parts' entries, in order, without dropped slots."""
    count: i64 = 0
    has_tags = False
    may_repeat = False
    one_seq = parts[0].batch.one_seq
    for part in parts:
        count += part.end - part.start
        batch = part.batch
        has_tags = has_tags or bool(batch.tags)
        may_repeat = may_repeat or batch.may_repeat
        if batch.one_seq != one_seq:
            one_seq = -1
    keys: list[bytes] = []
    values: list[bytes] = []
    tags: list[bytes] = []
    seqs: list[int] = []
    key_ends, value_ends = vec[i64]([0] * (count + 1)), vec[i64]([0] * (count + 1))
    at: i64 = 0
    for part in parts:
        batch = part.batch
        position = part.start
        while position < part.end:
            start = batch.order[position]
            length = run_length(batch.order, position, part.end)
            end = start + length
            keys.append(cut(batch.key_data, batch.key_ends[start], batch.key_ends[end]))
            values.append(cut(batch.value_data, batch.value_ends[start], batch.value_ends[end]))
            _copy_ends(batch.key_ends, start, end, key_ends, at)
            _copy_ends(batch.value_ends, start, end, value_ends, at)
            if has_tags:
                tags.append(batch.tags[start:end] or bytes([TAG_PUT]) * length)
            if one_seq < 0:
                seqs += batch.seqs[start:end] if batch.one_seq < 0 else [batch.one_seq] * length
            at += length
            position += length
    return EntryBatch(
        b"".join(keys),
        key_ends,
        b"".join(values),
        value_ends,
        b"".join(tags),
        seqs,
        may_repeat=may_repeat,
        one_seq=one_seq,
    )


def batches_of(entries: Iterator[Entry]) -> Iterator[EntryBatch]:
    """Batches of entries in order, one for each key."""
    while some := list(islice(entries, _BATCH_ENTRIES)):
        keys = [key for key, _, _ in some]
        values = [value for _, value, _ in some]
        seqs = [seq for _, _, seq in some]
        start = 0
        while start < len(keys):
            taken = first_values(values[start:])
            end = start + len(taken)
            yield EntryBatch.of(keys[start:end], taken, seqs[start:end], may_repeat=False)
            start = end


def first_values(values: list[Held]) -> list[Held]:
    """The first values, as many as one batch should hold in memory."""
    size_bytes: i64 = 0
    count: i64 = 0
    for value in values:
        if size_bytes >= _BATCH_BYTES:
            return values[:count]
        size_bytes += len(value) if isinstance(value, bytes) else held_bytes(value)
        count = count + 1
    return values


def ascending(count: i64) -> vec[i64]:
    if count <= _PREPARED:
        return _ASCENDING[:count]
    return vec[i64](range(count))


def run_length(order: vec[i64], start: i64, end: i64) -> i64:
    """How many of ``order[start:end]`` are neighbouring slots from the first on."""
    distance = order[start] - start
    stop = start + 1
    while stop < end and order[stop] == stop + distance:
        stop += 1
    return stop - start


def cut(data: bytes, start: i64, end: i64) -> bytes:
    """``data[start:end]``, without a copy when that is all of ``data``."""
    return data if start == 0 and end == len(data) else data[start:end]


def _copy_ends(source: vec[i64], start: i64, end: i64, target: vec[i64], at: i64) -> None:
    """Append the ends of slots ``start`` to ``end`` after ``target[at]``."""
    distance = target[at] - source[start]
    while start < end:
        start += 1
        at += 1
        target[at] = source[start] + distance


def _tag(value: Held) -> int:
    if value is None:
        return TAG_DELETE
    return TAG_EXPIRING if isinstance(value, Expiring) else TAG_PUT


def _stored(value: Held) -> bytes:
    if value is None:
        return b""
    return value.stored() if isinstance(value, Expiring) else value


def _set_ends(items: list[Held], ends: vec[i64]) -> bool:
    """Set the ends of keys or values; returns whether one needs a tag."""
    has_tags = False
    at: i64 = 0
    end: i64 = 0
    for item in items:
        if isinstance(item, bytes):
            end += len(item)
        else:
            has_tags = True
            end += held_bytes(item)
        at = at + 1
        ends[at] = end
    return has_tags
