"""Versions of keys as columns: how flushes and compactions hold them, and the payload made of them.

A list of keys, one of values and one of sequence numbers cost a third of what a tuple for each
version does, and most of what is done with them is done by one call for many.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from librt.strings import BytesWriter, write_i32_le
from mypy_extensions import i64

from lsmkv.compare import append_range
from lsmkv.encoding import COMPILED, TAG_DELETE, TAG_PUT, common_prefix_length
from lsmkv.sstable.block import HAS_TAGS, HAS_VERSIONS, HEADER, Block, Value

Version = tuple[bytes, Value, int]  # key, value, sequence number

_STRETCH: Final = 256  # versions that are gathered at a time
_SEQ_WIDTHS: Final = (1, 2, 4)


class Versions:
    """Versions in order: by key, those of one key newest first.

    Attributes:
        keys, values: lists of one length; a value of None is a deletion.
        one_seq: the sequence number of them all, as is usual; -1 when they differ, or may.
        may_repeat: whether some key may stand more than once.
    """

    __slots__ = ("_seqs", "keys", "may_repeat", "one_seq", "values")

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
        self.keys = keys
        self.values = values
        self._seqs = seqs
        self.one_seq = one_seq
        self.may_repeat = may_repeat

    @property
    def seqs(self) -> list[int]:
        """The sequence number of each."""
        return self._seqs if self.one_seq < 0 else [self.one_seq] * len(self.keys)

    @property
    def different_seqs(self) -> list[int]:
        """The sequence number of each, or the one that all have."""
        return self._seqs if self.one_seq < 0 else [self.one_seq]

    def set_one_seq(self, seq: int) -> None:
        """Give each the same sequence number."""
        self.one_seq = seq
        self._seqs = []

    def take(self, other: Versions, start: i64, stop: i64) -> None:
        """Append the versions of ``other`` from position ``start`` up to ``stop``, which follow these."""
        if stop <= start:
            return
        if not self.keys:
            self.keys = other.keys[start:stop]
            self.values = other.values[start:stop]
            self._seqs = other._seqs[start:stop]
            self.one_seq = other.one_seq
            return
        if self.one_seq != other.one_seq or self.one_seq < 0:
            self._seqs = self.seqs
            self.one_seq = -1
            self._seqs += other.seqs[start:stop]
        if stop == start + 1:
            self.keys.append(other.keys[start])
            self.values.append(other.values[start])
        else:
            self.keys += other.keys[start:stop]
            self.values += other.values[start:stop]

    def add_block(self, block: Block) -> None:
        """Append every version in a block, which follow these.  ``may_repeat`` is the caller's to set."""
        seq = block.one_seq()
        if not self.keys:
            self.one_seq = seq
        if self.one_seq != seq or seq < 0:
            self._seqs = self.seqs
            self.one_seq = -1
            self._seqs += block.seqs()
        block.append_keys(self.keys)
        block.append_values(self.values)


def gathered(versions: Iterator[Version]) -> Iterator[Versions]:
    """Versions in order, of which no key stands twice, in stretches."""
    while stretch := list(islice(versions, _STRETCH)):
        yield Versions(
            [key for key, _, _ in stretch],
            [value for _, value, _ in stretch],
            [seq for _, _, seq in stretch],
            may_repeat=False,
        )


def seq_bounds(seqs: list[int]) -> tuple[int, int]:
    """The smallest and the largest of at least one sequence number."""
    smallest: i64 = seqs[0]
    largest: i64 = smallest
    number: i64
    for number in seqs:
        if number < smallest:
            smallest = number
        elif number > largest:
            largest = number
    return smallest, largest


def encode_block(
    keys: list[bytes],
    values: list[Value],
    seqs: list[int],
    fingerprints: bytes,
    *,
    has_versions: bool,
) -> bytes:
    """The payload for entries already in order; the lists are of one length, at least 1.

    ``seqs`` may also have one number alone, which is that of them all.
    """
    prefix_length = common_prefix_length(keys[0], keys[-1])
    count = len(keys)
    flags = HAS_VERSIONS if has_versions else 0
    lengths = BytesWriter()
    key_length = _common_key_length(keys)
    if key_length >= 0:
        suffix_length = key_length - prefix_length
        keys_length = suffix_length * count
        lengths.write(suffix_length.to_bytes(2, "little") * count)
    else:
        keys_length = 0
        for key in keys:
            length = len(key) - prefix_length
            keys_length += length
            lengths.append(length & 0xFF)
            lengths.append(length >> 8)
    value_length = _common_value_length(values)
    if value_length >= 0:
        values_length = value_length * count
        lengths.write(value_length.to_bytes(4, "little") * count)
    else:
        values_length = 0
        for value in values:
            if value is None:
                flags |= HAS_TAGS
                write_i32_le(lengths, 0)
            else:
                values_length += len(value)
                write_i32_le(lengths, len(value))
    if flags & HAS_TAGS:
        for value in values:
            lengths.append(TAG_DELETE if value is None else TAG_PUT)
    base_seq, largest_seq = seq_bounds(seqs)
    seq_width = _width_of(largest_seq - base_seq)
    if seq_width:
        for seq in seqs:
            lengths.write((seq - base_seq).to_bytes(seq_width, "little"))
    parts = [
        HEADER.pack(
            len(keys), flags, seq_width, prefix_length, base_seq, keys_length, values_length
        ),
        keys[0][:prefix_length],
        fingerprints,
        lengths.getvalue(),
    ]
    if prefix_length == 0:
        parts += keys
    elif COMPILED:
        suffixes = BytesWriter()
        for key in keys:
            append_range(suffixes, key, prefix_length, len(key))
        parts.append(suffixes.getvalue())
    else:
        parts += [key[prefix_length:] for key in keys]
    if flags & HAS_TAGS:
        parts += filter(None, values)  # what is empty or deleted has no bytes
    else:
        parts += values  # type: ignore[arg-type]  # none of them is None
    return b"".join(parts)


def _common_key_length(keys: list[bytes]) -> int:
    """The length that every key has; -1 when they differ."""
    length: i64 = len(keys[0])
    for key in keys:
        if len(key) != length:
            return -1
    return length


def _common_value_length(values: list[Value]) -> int:
    """The length that every value has; -1 when they differ, or one is a deletion."""
    first = values[0]
    if first is None:
        return -1
    length: i64 = len(first)
    for value in values:
        if value is None or len(value) != length:
            return -1
    return length


def _width_of(spread: int) -> int:
    """Bytes that hold every distance from 0 to ``spread``: 0, 1, 2, 4 or 8."""
    if spread == 0:
        return 0
    for width in _SEQ_WIDTHS:
        if spread >> 8 * width == 0:
            return width
    return 8
