"""Builds the payload of a block (:mod:`lsmkv.sstable.block.block`) from slices of entry batches."""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i16, i32, i64

from lsmkv.encoding.entries import TAG_PUT
from lsmkv.encoding.entry_batch import EntrySlice, cut, run_length
from lsmkv.encoding.words import COMPILED, append_range, common_prefix_length
from lsmkv.filters.hashing import append_digest, digests
from lsmkv.sstable.block.layout import HAS_TAGS, HAS_VERSIONS

_SEQ_WIDTHS: Final = (1, 2, 4)


class BlockBuilder:
    """The sections of a block's payload, except for the fingerprints.

    ``parts``, at least one, are the entries in order.  From ``digests``
    (:func:`~lsmkv.filters.hashing.digests`) the writer makes fingerprints and filter.
    """

    def __init__(self, parts: list[EntrySlice]) -> None:
        tail = parts[-1]
        self._parts = parts
        self.first = parts[0].batch.key(parts[0].start)
        self.last = tail.batch.key(tail.end - 1)
        self._prefix_length: i64 = common_prefix_length([self.first, self.last])
        self._keys: list[bytes] = []  # without the prefix, many keys in one piece
        self._values: list[bytes] = []
        self._keys_length = 0
        self._values_length = 0
        self._seqs = self._seqs_of_all()
        self.smallest_seq, self.largest_seq = seq_bounds(self._seqs)
        key_lengths, value_lengths = BytesWriter(), BytesWriter()
        keys, packed = BytesWriter(), BytesWriter()
        has_tags = False
        for part in parts:
            if COMPILED:
                self._add_keys(part, packed, key_lengths, keys)
            else:
                self._add_key_objects(part, packed, key_lengths)
            self._add_values(part, value_lengths)
            has_tags = has_tags or bool(part.batch.tags)
        self._keys.append(keys.getvalue())
        self._key_lengths = key_lengths.getvalue()
        self._value_lengths = value_lengths.getvalue()
        self._tags = self._tags_of_all() if has_tags else b""
        self.digests = packed.getvalue()
        self.count: int = len(self._key_lengths) // 2

    def _add_keys(
        self, part: EntrySlice, packed: BytesWriter, lengths: BytesWriter, keys: BytesWriter
    ) -> None:
        versions, prefix_length = part.batch, self._prefix_length
        data, ends, order = versions.key_data, versions.key_ends, versions.order
        last = i64(len(data)) - 8  # where the last eight bytes begin
        written: i64 = len(keys)
        at = part.start
        stop = part.end
        while at < stop:
            position = order[at]
            start, end = ends[position], ends[position + 1]
            append_digest(packed, data, start, end)
            start += prefix_length
            written += end - start
            write_i16_le(lengths, i16(((end - start) ^ 0x8000) - 0x8000))
            if end > last:
                append_range(keys, data, start, end)
            elif start < end:
                while start < end:  # bytes written past the key are truncated
                    write_i64_le(keys, read_i64_le(data, start))
                    start += 8
                keys.truncate(written)
            at += 1
        self._keys_length = written

    def _add_key_objects(self, part: EntrySlice, packed: BytesWriter, lengths: BytesWriter) -> None:
        """As :meth:`_add_keys`, interpreted: loops over words are slow."""
        keys, prefix_length = part.key_objects(), self._prefix_length
        suffixes = [key[prefix_length:] for key in keys]
        packed.write(digests(keys))
        lengths.write(struct.pack(f"<{len(keys)}H", *map(len, suffixes)))
        self._keys += suffixes
        self._keys_length += sum(map(len, suffixes))

    def _add_values(self, part: EntrySlice, lengths: BytesWriter) -> None:
        """Add values, with one cut for all that are contiguous."""
        versions, values = part.batch, self._values
        data, ends, order = versions.value_data, versions.value_ends, versions.order
        at = part.start
        stop = part.end
        while at < stop:
            position = order[at]
            length = run_length(order, at, stop)
            at += length
            last = position + length
            end = ends[position]
            while position < last:
                position += 1
                before, end = end, ends[position]
                write_i32_le(lengths, i32(end - before))
            values.append(cut(data, ends[position - length], end))
            self._values_length += end - ends[position - length]

    def _tags_of_all(self) -> bytes:
        """A tag for each entry; empty if all are plain puts."""
        tags = b"".join([part.tags() for part in self._parts])
        return b"" if tags.count(TAG_PUT) == len(tags) else tags

    def _seqs_of_all(self) -> list[int]:
        """Every entry's sequence number, or the one that all share."""
        one_seq = self._parts[0].batch.one_seq
        for part in self._parts:
            if part.batch.one_seq != one_seq:
                one_seq = -1
        if one_seq >= 0:
            return [one_seq]
        return [seq for part in self._parts for seq in part.seqs()]

    def finish(self, fingerprints: bytes, *, has_versions: bool) -> bytes:
        """The payload; ``has_versions`` tells whether a key occurs more than once."""
        base_seq = self.smallest_seq
        seq_width = _width_of(self.largest_seq - base_seq)
        flags = (HAS_TAGS if self._tags else 0) | (HAS_VERSIONS if has_versions else 0)
        head = BytesWriter()
        write_i32_le(head, self.count)
        head.append(flags)
        head.append(seq_width)
        write_i16_le(head, i16((self._prefix_length ^ 0x8000) - 0x8000))
        write_i64_le(head, base_seq)
        write_i32_le(head, self._keys_length)
        write_i32_le(head, self._values_length)
        prefix_length: int = self._prefix_length
        head.write(self.first[:prefix_length])
        head.write(fingerprints)
        head.write(self._key_lengths)
        head.write(self._value_lengths)
        head.write(self._tags)
        if seq_width:
            for seq in self._seqs:
                head.write((seq - base_seq).to_bytes(seq_width, "little"))
        return b"".join([head.getvalue(), *self._keys, *self._values])


def seq_bounds(seqs: list[int]) -> tuple[int, int]:
    smallest: i64 = seqs[0]
    largest: i64 = smallest
    number: i64
    for number in seqs:
        if number < smallest:
            smallest = number
        elif number > largest:
            largest = number
    return smallest, largest


def _width_of(spread: int) -> int:
    """Bytes that hold every distance from 0 to ``spread``: 0, 1, 2, 4 or 8."""
    if spread == 0:
        return 0
    for width in _SEQ_WIDTHS:
        if spread >> 8 * width == 0:
            return width
    return 8
