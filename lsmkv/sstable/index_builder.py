"""Builds a table's index (:mod:`lsmkv.sstable.index_layout`)."""

from __future__ import annotations

import struct
from binascii import unhexlify
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from librt.vecs import vec
from mypy_extensions import i16, i64

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.fences import fence
from lsmkv.encoding.words import common_prefix_length
from lsmkv.sstable.index_keys import DIGITS
from lsmkv.sstable.index_layout import (
    FENCE_BYTES,
    HEADER,
    KEY_GROUP,
    LONG,
    MAX_CODE,
    MAX_DIGITS,
    NUMBER_GROUP,
    NUMBERS,
    OF_DIGITS,
    PADDING,
)
from lsmkv.sstable.index_symbols import Symbols

# A chunk that is read to spare a block of 4 KiB must not be larger than that block.
_FILTER_CHUNK_BYTES: Final = 4 * 1024


class IndexBuilder:
    """Builds an index section: ``add`` for each block, then ``finish``."""

    def __init__(self) -> None:
        # Packed: that takes a fraction of the memory of objects.
        self._separators = BytesWriter()  # of each its length in 2 bytes, and its bytes
        self._ends = BytesWriter()
        self._filter_ends = BytesWriter()
        self._entry_counts = BytesWriter()
        self._parameters = BytesWriter()
        write_i64_le(self._ends, 0)
        write_i64_le(self._filter_ends, 0)
        self._end: i64 = 0
        self._filter_end: i64 = 0
        self.key_bytes: i64 = 0
        self.block_count: i64 = 0

    def add(
        self, above: bytes, length: int, filter_length: int, entry_count: int, parameter: int
    ) -> None:
        """Add the next block, with its separator and its filter's parameter.

        The first block's separator is not needed.
        """
        if self.block_count:
            write_i16_le(self._separators, i16(len(above) - 0x8000))
            self._separators.write(above)
            self.key_bytes += len(above)
        self.block_count += 1
        self._end += length
        write_i64_le(self._ends, self._end)
        self._filter_end += filter_length
        write_i64_le(self._filter_ends, self._filter_end)
        write_i32_le(self._entry_counts, entry_count)
        self._parameters.append(parameter)

    def finish(self, filters: bytes, smallest: bytes, largest: bytes) -> bytes:
        """The index section of a table with these filters and outermost keys."""
        count = self.block_count
        prefix_length = common_prefix_length([smallest, largest])
        ends, filter_ends = self._ends.getvalue(), self._filter_ends.getvalue()
        entry_counts, parameters = self._entry_counts.getvalue(), self._parameters.getvalue()
        chunk_starts, checksums = self._chunks(filters, filter_ends)
        groups = list(self._key_groups(prefix_length))
        fences = [fence(group[0], 0, len(group[0])) for group in groups]
        keys, symbols = _encode(groups)
        key_starts = [0, *accumulate(map(len, keys))]
        number_starts: list[int] = []
        numbers = BytesWriter()
        start: i64 = 0
        while start < count:
            number_starts.append(len(numbers))
            blocks = min(count - start, i64(NUMBER_GROUP))
            _write_numbers(numbers, start, blocks, ends, filter_ends, entry_counts, parameters)
            start += blocks
        return b"".join(
            (
                HEADER.pack(count, prefix_length, len(checksums), key_starts.pop(), symbols.count),
                struct.pack(f"<{len(fences)}Q", *fences),
                _u32s(key_starts),
                _u32s(number_starts),
                _u32s(chunk_starts),
                struct.pack(f"<{len(checksums)}Q", *checksums),
                symbols.section,
                *keys,
                numbers.getvalue(),
                PADDING,
            )
        )

    def _key_groups(self, prefix_length: i64) -> Iterator[list[bytes]]:
        """The separators in groups, without the bytes that they all share."""
        packed = self._separators.getvalue()
        group = [b""]
        at: i64 = 0
        for _ in range(self.block_count - 1):
            if len(group) == KEY_GROUP:
                yield group
                group = []
            end = at + 2 + i64(read_i16_le(packed, at)) + 0x8000
            group.append(packed[at + 2 + prefix_length : end])
            at = end
        yield group

    def _chunks(self, filters: bytes, ends: bytes) -> tuple[list[int], list[int]]:
        """The first block of each chunk of filters, then the block count; and the checksums.

        ``ends`` are the borders of the filters, 8 bytes each.
        """
        if self._filter_end != len(filters):  # one filter for the whole table
            return [0, self.block_count], [checksum(filters, 0)]
        starts, checksums = [0], []
        first: i64 = 0  # of the chunk, in bytes
        number: i64 = 1
        while number <= self.block_count:
            end = read_i64_le(ends, 8 * number)
            is_last = number == self.block_count
            if is_last or read_i64_le(ends, 8 * number + 8) - first > _FILTER_CHUNK_BYTES:
                starts.append(number)
                checksums.append(checksum(filters[first:end], 0))
                first = end
            number += 1
        return starts, checksums


def _u32s(numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _encode(groups: list[list[bytes]]) -> tuple[list[bytes], Symbols]:
    """Groups of separators as stored, and the symbols of those front-coded."""
    keys = list(map(_codes, groups))
    front_coded = [number for number, codes in enumerate(keys) if not codes]
    rests = [_rests(groups[number]) for number in front_coded]
    symbols = Symbols([rest for group in rests for _, rest in group])
    start = 0
    for number, group in zip(front_coded, rests, strict=True):
        end = start + len(group)
        keys[number] = _front_coded([known for known, _ in group], symbols.coded[start:end])
        start = end
    return keys, symbols


def _codes(group: list[bytes]) -> bytes:
    """A group by codes, or nothing if it cannot be."""
    base = common_prefix_length(group)
    if base > FENCE_BYTES:
        return b""
    rests = [key[base:] for key in group]
    length = max(1, *map(len, rests))
    last = {rest[-1:] for rest in rests}
    if length <= MAX_DIGITS and b"0" not in last and _are_digits(rests):
        width = (length + 1) // 2
        digits = b"".join([rest.ljust(2 * width, b"0") for rest in rests])
        return bytes((OF_DIGITS + width, base)) + unhexlify(digits)
    if length <= MAX_CODE and b"\0" not in last:
        return bytes((length, base)) + b"".join([rest.ljust(length, b"\0") for rest in rests])
    return b""


def _rests(group: list[bytes]) -> list[tuple[int, bytes]]:
    """What is known of each separator, and its rest.

    Known is what the fence holds of the first, and what another shares with the one before.
    """
    rests = [(min(len(group[0]), FENCE_BYTES), group[0][FENCE_BYTES:])]
    for before, each in pairwise(group):
        kept = common_prefix_length([before, each])
        rests.append((kept, each[kept:]))
    return rests


def _front_coded(known: list[int], rests: list[bytes]) -> bytes:
    base = min(known[1:], default=0)
    out = BytesWriter()
    out.append(0)
    _write_varint(out, known[0] + len(rests[0]))
    out.write(rests[0])
    _write_varint(out, base)
    for kept, rest in zip(known[1:], rests[1:], strict=True):
        over, length = kept - base, len(rest)
        out.append(min(over, LONG) << 4 | min(length, LONG))
        if over >= LONG:
            _write_varint(out, over - LONG)
        if length >= LONG:
            _write_varint(out, length - LONG)
        out.write(rest)
    return out.getvalue()


def _are_digits(rests: list[bytes]) -> bool:
    """Whether there is nothing but hexadecimal digits, of lower case."""
    return not b"".join(rests).translate(None, DIGITS)


def _write_varint(out: BytesWriter, number: i64) -> None:
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _write_numbers(
    out: BytesWriter,
    start: i64,
    blocks: i64,
    ends: bytes,
    filter_ends: bytes,
    entry_counts: bytes,
    parameters: bytes,
) -> None:
    """Append a group of numbers, of ``blocks`` blocks from ``start`` on.

    Ends take 8 bytes each, with a leading 0, entry counts 4, parameters 1.
    """
    first, filter_first = read_i64_le(ends, 8 * start), read_i64_le(filter_ends, 8 * start)
    step, filter_step = _step(ends, start, blocks), _step(filter_ends, start, blocks)
    offsets = vec[i64]([0] * 65)
    filters = vec[i64]([0] * 65)
    counts = vec[i64]([0] * 64)
    chosen = vec[i64]([0] * 64)
    least = i64(read_i32_le(entry_counts, 4 * start))
    parameter = i64(parameters[start])
    number: i64 = 0
    while number <= blocks:
        at = start + number
        offsets[number] = read_i64_le(ends, 8 * at) - first - number * step
        filters[number] = read_i64_le(filter_ends, 8 * at) - filter_first - number * filter_step
        if number < blocks:
            counts[number] = i64(read_i32_le(entry_counts, 4 * at))
            chosen[number] = i64(parameters[at])
            least = min(least, counts[number])
            parameter = min(parameter, chosen[number])
        number += 1
    number = 0
    while number < blocks:
        counts[number] -= least
        chosen[number] -= parameter
        number += 1
    bits = _bits_for(filters), _bits_for(chosen), _bits_for(counts), _bits_for(offsets)
    fields = first, step, filter_first, filter_step, least, parameter
    out.write(NUMBERS.pack(*fields, *bits))
    _write_row(out, filters, bits[0])
    _write_row(out, chosen, bits[1])
    _write_row(out, counts, bits[2])
    _write_row(out, offsets, bits[3])


def _step(ends: bytes, start: i64, blocks: i64) -> i64:
    """The slope of the steepest line from the first border below all."""
    first = read_i64_le(ends, 8 * start)
    step = read_i64_le(ends, 8 * start + 8) - first
    number: i64 = 2
    while number <= blocks:
        step = min(step, (read_i64_le(ends, 8 * (start + number)) - first) // number)
        number += 1
    return step


def _bits_for(numbers: vec[i64]) -> i64:
    """The bits that the largest of some numbers takes."""
    joined: i64 = 0
    for number in numbers:
        joined |= number
    bits: i64 = 0
    while joined >> bits:
        bits += 1
    return bits


def _write_row(out: BytesWriter, numbers: vec[i64], bits: i64) -> None:
    """Append numbers of ``bits`` bits one after another."""
    if bits == 0:
        return
    word: i64 = 0
    filled: i64 = 0
    for number in numbers:
        word |= number << filled
        filled += bits
        while filled >= 8:
            out.append(word & 0xFF)
            word >>= 8
            filled -= 8
    if filled:
        out.append(word & 0xFF)
