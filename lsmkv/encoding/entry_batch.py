"""Versions of keys as columns: how flushes and compactions hold them.

No object is made of a key or of a value.  The keys of a stretch of versions stand behind one another
in one buffer and the values in another, where blocks and lists put them by one call for many; to
merge or drop versions is to write down other positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import TAG_DELETE, TAG_PUT, Value
from lsmkv.encoding.words import COMPILED, compare, is_same

Version = tuple[bytes, Value, int]  # key, value, sequence number

_STRETCH: Final = 64  # versions that are gathered at a time
_STRETCH_BYTES: Final = 256 * 1024
_MANY: Final = 1024  # positions of which most stretches have fewer
_NUMBERS: Final = vec[i64](range(_MANY))


class EntryBatch:
    """Versions in order: by key, those of one key newest first.

    Attributes:
        key_data: the keys, one after another, in the order of their positions.
        key_ends: where in it the key of each position begins, and the last one ends.
        value_data, value_ends: the same of values; a deletion has no bytes.
        tags: for each position ``TAG_DELETE`` or ``TAG_PUT``; empty when there are no deletions.
        order: the positions of the versions, in order; what is at others does not count.
        one_seq: the sequence number of them all, as is usual; -1 when they differ, or may.
        seqs: the sequence number of each position; empty where there is ``one_seq``.
        may_repeat: whether some key may stand more than once.
    """

    __slots__ = (
        "key_data",
        "key_ends",
        "may_repeat",
        "one_seq",
        "order",
        "seqs",
        "tags",
        "value_data",
        "value_ends",
    )

    def __init__(
        self,
        keys: list[bytes],
        values: list[Value],
        seqs: list[int],
        *,
        may_repeat: bool,
        one_seq: int = -1,
    ) -> None:
        """``seqs``: as many as there are keys, or none where ``one_seq`` is given."""
        self.key_data = b"".join(keys)
        self.key_ends = vec[i64]([0] * (len(keys) + 1))
        self.value_ends = vec[i64]([0] * (len(values) + 1))
        self.tags = b""
        _set_key_ends(keys, self.key_ends)
        if _set_value_ends(values, self.value_ends):
            self.tags = bytes([TAG_DELETE if value is None else TAG_PUT for value in values])
            self.value_data = b"".join([value or b"" for value in values])
        else:
            self.value_data = b"".join(cast(list[bytes], values))
        self.order = ascending(len(keys))
        self.seqs = seqs
        self.one_seq = one_seq
        self.may_repeat = may_repeat

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.order)

    @property
    def size_bytes(self) -> int:
        """How long the keys and values are, also at positions that do not count."""
        return len(self.key_data) + len(self.value_data)

    def set_one_seq(self, seq: int) -> None:
        """Give each the same sequence number."""
        self.one_seq = seq
        self.seqs = []

    def seqs_apart(self) -> list[int]:
        """The sequence number of each position, also where all are one, in a list of its own."""
        if self.one_seq < 0:
            return list(self.seqs)
        return [self.one_seq] * (len(self.key_ends) - 1)

    def key(self, number: i64) -> bytes:
        """The key of version ``number``."""
        position = self.order[number]
        start, end = self.key_ends[position], self.key_ends[position + 1]
        return self.key_data[start:end]

    def is_new_key(self, number: i64) -> bool:
        """Whether version ``number``, which is not the first, has another key than the one before."""
        data, ends, order = self.key_data, self.key_ends, self.order
        at, before = order[number], order[number - 1]
        start, end = ends[at], ends[at + 1]
        other, other_end = ends[before], ends[before + 1]
        if not COMPILED:
            return data[start:end] != data[other:other_end]
        return end - start != other_end - other or not is_same(
            data, start, data, other, end - start
        )

    def first_above(self, key: bytes, start: i64) -> i64:
        """Number of the first version from ``start`` on whose key is above ``key``; ``count`` if none.

        O(log n) comparisons.
        """
        data, ends, order = self.key_data, self.key_ends, self.order
        low = start
        high: i64 = len(order)
        while low < high:
            middle = (low + high) >> 1
            position = order[middle]
            if compare(data, ends[position], ends[position + 1], key, 0, len(key)) <= 0:
                low = middle + 1
            else:
                high = middle
        return low

    def rows(self) -> list[Version]:
        """Each as objects.  For what need not be fast."""
        seqs, rows = self.seqs_apart(), []
        for position in self.order:
            start, end = self.key_ends[position], self.key_ends[position + 1]
            key = self.key_data[start:end]
            value: Value = None
            if not self.tags or self.tags[position] != TAG_DELETE:
                start, end = self.value_ends[position], self.value_ends[position + 1]
                value = self.value_data[start:end]
            rows.append((key, value, seqs[position]))
        return rows


class EntrySlice:
    """Some of the versions of a stretch: from number ``start`` up to ``end``."""

    __slots__ = ("end", "start", "versions")

    def __init__(self, versions: EntryBatch, start: i64, end: i64) -> None:
        self.versions = versions
        self.start = start
        self.end = end

    def alone(self) -> EntryBatch:
        """The same without the others."""
        if self.start == 0 and self.end == len(self.versions.order):
            return self.versions
        return joined([self])

    def key_objects(self) -> list[bytes]:
        """The key of each."""
        versions = self.versions
        data, ends = versions.key_data, versions.key_ends
        keys: list[bytes] = []
        for position in versions.order[self.start : self.end]:
            start, end = ends[position], ends[position + 1]
            keys.append(data[start:end])
        return keys

    def tags(self) -> bytes:
        """``TAG_DELETE`` or ``TAG_PUT`` for each."""
        tags = self.versions.tags
        if not tags:
            return bytes([TAG_PUT]) * (self.end - self.start)
        return bytes([tags[position] for position in self.versions.order[self.start : self.end]])

    def seqs(self) -> list[int]:
        """The sequence number of each."""
        versions = self.versions
        if versions.one_seq >= 0:
            return [versions.one_seq] * (self.end - self.start)
        seqs = versions.seqs
        return [seqs[position] for position in versions.order[self.start : self.end]]


def joined(parts: list[EntrySlice]) -> EntryBatch:
    """Versions of all the parts, one part behind another."""
    count: i64 = 0
    has_tags = False
    may_repeat = False
    one_seq = parts[0].versions.one_seq
    for part in parts:
        count += part.end - part.start
        versions = part.versions
        has_tags = has_tags or bool(versions.tags)
        may_repeat = may_repeat or versions.may_repeat
        if versions.one_seq != one_seq:
            one_seq = -1
    keys: list[bytes] = []
    values: list[bytes] = []
    tags: list[bytes] = []
    seqs: list[int] = []
    key_ends, value_ends = vec[i64]([0] * (count + 1)), vec[i64]([0] * (count + 1))
    at: i64 = 0
    for part in parts:
        versions = part.versions
        order, number = versions.order, part.start
        while number < part.end:
            start = order[number]
            length = run_length(order, number, part.end)
            end = start + length
            keys.append(cut(versions.key_data, versions.key_ends[start], versions.key_ends[end]))
            values.append(
                cut(versions.value_data, versions.value_ends[start], versions.value_ends[end])
            )
            _copy_ends(versions.key_ends, start, end, key_ends, at)
            _copy_ends(versions.value_ends, start, end, value_ends, at)
            if has_tags:
                tags.append(versions.tags[start:end] or bytes([TAG_PUT]) * length)
            if one_seq < 0:
                seqs += (
                    versions.seqs[start:end]
                    if versions.one_seq < 0
                    else [versions.one_seq] * length
                )
            at += length
            number += length
    together = EntryBatch([], [], seqs, may_repeat=may_repeat, one_seq=one_seq)
    together.key_data = b"".join(keys)
    together.key_ends = key_ends
    together.value_data = b"".join(values)
    together.value_ends = value_ends
    together.tags = b"".join(tags)
    together.order = ascending(count)
    return together


def gathered(versions: Iterator[Version]) -> Iterator[EntryBatch]:
    """Versions in order, of which no key stands twice, in stretches."""
    while rows := list(islice(versions, _STRETCH)):
        keys = [key for key, _, _ in rows]
        values = [value for _, value, _ in rows]
        seqs = [seq for _, _, seq in rows]
        start = 0
        while start < len(keys):
            taken = a_stretch(values[start:])
            stop = start + len(taken)
            yield EntryBatch(keys[start:stop], taken, seqs[start:stop], may_repeat=False)
            start = stop


def a_stretch(values: list[Value]) -> list[Value]:
    """The first of ``values``, of ``_STRETCH_BYTES`` and one more: little memory holds them joined."""
    size_bytes: i64 = 0
    count: i64 = 0
    for value in values:
        if size_bytes >= _STRETCH_BYTES:
            return values[:count]
        if value is not None:
            size_bytes += len(value)
        count = count + 1
    return values


def ascending(count: i64) -> vec[i64]:
    """0, 1 and so on, up to ``count`` (not included)."""
    if count <= _MANY:
        return _NUMBERS[:count]
    return vec[i64](range(count))


def run_length(order: vec[i64], start: i64, stop: i64) -> i64:
    """How many of ``order[start:stop]``, which is not empty, stand side by side from the first on."""
    ahead = order[start] - start
    end = start + 1
    while end < stop and order[end] == end + ahead:
        end += 1
    return end - start


def cut(data: bytes, start: i64, end: i64) -> bytes:
    """``data[start:end]``, which need not be copied when it is all of ``data``."""
    return data if start == 0 and end == len(data) else data[start:end]


def _copy_ends(source: vec[i64], start: i64, end: i64, target: vec[i64], at: i64) -> None:
    """Set what follows ``target[at]`` to go on as ``source[start : end + 1]`` does."""
    distance = target[at] - source[start]
    while start < end:
        start += 1
        at += 1
        target[at] = source[start] + distance


def _set_key_ends(keys: list[bytes], ends: vec[i64]) -> None:
    """Set ``ends`` from 1 on to where each of ``keys`` ends when they stand one after another."""
    at: i64 = 0
    end: i64 = 0
    for key in keys:
        end += len(key)
        at = at + 1
        ends[at] = end


def _set_value_ends(values: list[Value], ends: vec[i64]) -> bool:
    """The same for values; returns whether some is a deletion."""
    has_deletions = False
    at: i64 = 0
    end: i64 = 0
    for value in values:
        if value is None:
            has_deletions = True
        else:
            end += len(value)
        at = at + 1
        ends[at] = end
    return has_deletions
