"""A table's index: where its blocks are, which keys they span, where their filters are.

It is searched as it stands in the file: arrays of fixed-width integers (little-endian) and one run of
key bytes::

    u32 block_count n, u32 prefix_length (bytes that every key of the table shares), u32 chunk_count c
    last_fences     n u64      the fence of each block's last key
    first_fences    n u64      the fence of each block's first key
    offsets         n+1 u64    block i is bytes offsets[i] .. offsets[i+1] of the file
    filter_ends     n+1 u32    its filter is bytes filter_ends[i] .. filter_ends[i+1] of the filters
    entry_counts    n u32
    probe_counts    n u8       k of each block's filter
    key_ends        2n+1 u32   first and last key of each block, within the run of keys
    chunk_starts    c+1 u32    filters are read in chunks: chunk j holds those of the blocks
                               chunk_starts[j] .. chunk_starts[j+1]
    chunk_checksums c u64      XXH3-64 of each chunk
    keys

A *fence* is the 8 bytes of a key after the table's common prefix, zero-padded, as a big-endian
integer without its lowest bit (63 bits: the same in a Python integer and in a signed machine word).
Fences are searched first; keys are compared only where fences are equal.

Compressed tables store it packed: see :mod:`lsmkv.sstable.index_codec`.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final, NoReturn

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.fences import fence, lower_bound
from lsmkv.encoding.words import common_prefix_length
from lsmkv.errors import CorruptionError
from lsmkv.sstable.index_arrays import (
    filter_shapes,
    last_of_ascending,
    last_of_ascending_pairs,
    sum_of_positive,
)

HEADER: Final = struct.Struct("<III")
# A chunk that is read to spare a block of 4 KiB must not be larger than that block.
_FILTER_CHUNK_BYTES: Final = 4 * 1024
_GROUP: Final = 16  # fences: two cache lines
_CACHE_LINE_BYTES: Final = 64  # of most processors
_MAX_BLOCK_BYTES: Final = i64(0xFFFF_FFFF)


def array_offsets(count: int, chunk_count: int) -> list[int]:
    """Where the arrays of a section start; last, where the keys do."""
    at = HEADER.size
    starts: list[int] = []
    for width, length in (
        (8, count),
        (8, count),
        (8, count + 1),
        (4, count + 1),
        (4, count),
        (1, count),
        (4, 2 * count + 1),
        (4, chunk_count + 1),
        (8, chunk_count),
    ):
        starts.append(at)
        at += width * length
    starts.append(at)
    return starts


def packed_fences(data: bytes, keys: i64, key_ends: bytes, count: i64, prefix_length: i64) -> bytes:
    """The fences of all last keys, then of all first keys.

    ``key_ends`` is the array of an index of ``count`` blocks; the keys start in ``data`` at ``keys``.
    """
    out = BytesWriter()
    for side in (4, 0):
        at: i64 = side
        while at < 8 * count:
            start = keys + (i64(read_i32_le(key_ends, at)) & 0xFFFF_FFFF)
            end = keys + (i64(read_i32_le(key_ends, at + 4)) & 0xFFFF_FFFF)
            write_i64_le(out, fence(data, start + prefix_length, end))
            at += 8
    return out.getvalue()


class IndexBuilder:
    """Builds an index section: ``add`` for each block, then ``finish``."""

    def __init__(self) -> None:
        # Packed as in the file: that takes a fraction of the memory of objects.
        self._ends = BytesWriter()
        self._filter_ends = BytesWriter()
        self._entry_counts = BytesWriter()
        self._probe_counts = BytesWriter()
        self._key_ends = BytesWriter()
        self._keys = BytesWriter()  # first and last of each block
        write_i64_le(self._ends, 0)
        write_i32_le(self._filter_ends, 0)
        write_i32_le(self._key_ends, 0)
        self._end: i64 = 0
        self._filter_end = 0
        self._smallest = b""
        self._largest = b""
        self.key_bytes: i64 = 0
        self.block_count: i64 = 0

    def add(
        self,
        first: bytes,
        last: bytes,
        length: int,
        filter_length: int,
        entry_count: int,
        probe_count: int,
    ) -> None:
        if self.block_count == 0:
            self._smallest = first
        self._largest = last
        self.block_count += 1
        self._end += length
        write_i64_le(self._ends, self._end)
        self._filter_end += filter_length
        write_i32_le(self._filter_ends, self._filter_end)
        write_i32_le(self._entry_counts, entry_count)
        self._probe_counts.append(probe_count)
        for key in (first, last):
            self._keys.write(key)
            self.key_bytes += len(key)
            write_i32_le(self._key_ends, i32(self.key_bytes))

    def finish(self, filters: bytes) -> bytes:
        """The index section of a table whose filter section is ``filters``."""
        prefix_length = common_prefix_length([self._smallest, self._largest])
        starts, checksums = self._chunks(filters)
        keys, key_ends = self._keys.getvalue(), self._key_ends.getvalue()
        return b"".join(
            (
                HEADER.pack(self.block_count, prefix_length, len(checksums)),
                packed_fences(keys, 0, key_ends, self.block_count, prefix_length),
                self._ends.getvalue(),
                self._filter_ends.getvalue(),
                self._entry_counts.getvalue(),
                self._probe_counts.getvalue(),
                key_ends,
                struct.pack(f"<{len(starts)}I", *starts),
                struct.pack(f"<{len(checksums)}Q", *checksums),
                keys,
            )
        )

    def _chunks(self, filters: bytes) -> tuple[list[int], list[int]]:
        """The first block of each chunk of filters, then the block count; and the checksums."""
        if self._filter_end != len(filters):  # one filter for the whole table
            return [0, self.block_count], [checksum(filters, 0)]
        ends = struct.unpack(f"<{self.block_count + 1}I", self._filter_ends.getvalue())
        starts = [0]
        for block_number in range(1, self.block_count):
            if ends[block_number + 1] - ends[starts[-1]] > _FILTER_CHUNK_BYTES:
                starts.append(block_number)
        starts.append(self.block_count)
        checksums = [
            checksum(filters[ends[start] : ends[stop]], 0) for start, stop in pairwise(starts)
        ]
        return starts, checksums


class TableIndex:
    """An index section, searched in place.

    :meth:`key_start` points into ``section``.  Raises CorruptionError if its arrays do not fit together.

    Attributes:
        was_packed: whether it was stored packed, as in compressed tables.
    """

    def __init__(
        self,
        data: bytes,
        path: str,
        offset: int,
        data_length: int,
        filters_length: int,
        was_packed: bool = False,
    ) -> None:
        self.section = data
        self.was_packed = was_packed
        self._path = path
        self._offset = offset
        if len(data) < HEADER.size:
            self._fail("index is shorter than its header")
        count, prefix_length, chunk_count = HEADER.unpack_from(data)
        starts = array_offsets(count, chunk_count)
        at = starts[-1]
        if count == 0 or at > len(data):
            self._fail(f"index of {len(data)} bytes cannot hold {count} blocks")
        self.block_count: i64 = count
        self.prefix_length: i64 = prefix_length
        self.chunk_count: i64 = chunk_count
        self._last_fences: i64 = starts[0]
        self._first_fences: i64 = starts[1]
        self._offsets: i64 = starts[2]
        self._filter_ends: i64 = starts[3]
        self._entry_counts: i64 = starts[4]
        self._probe_counts: i64 = starts[5]
        self._key_ends: i64 = starts[6]
        self._chunk_starts: i64 = starts[7]
        self._chunk_checksums: i64 = starts[8]
        self._keys: i64 = at
        # The last fence of each whole group, made at first use.  They are so close together that they
        # stay in the processor's cache.
        self._samples = b""
        self.memory_bytes = len(data) + 8 * (count // _GROUP)
        self._check(data_length, filters_length)

    def _fail(self, reason: str) -> NoReturn:
        raise CorruptionError(self._path, self._offset, reason)

    def _check(self, data_length: int, filters_length: int) -> None:
        count = self.block_count
        if self.filter_start(count) == 0:
            filters_length = 0  # one for the whole table, or none
        data = self.section
        if last_of_ascending(data, self._offsets, 8, count, _MAX_BLOCK_BYTES) != data_length:
            self._fail("blocks of the index do not fit their section")
        for at, last, step, total, what in (
            (self._filter_ends, count, filters_length, filters_length, "filters"),
            (self._key_ends, 2 * count, MAX_KEY_BYTES, len(data) - self._keys, "keys"),
            (self._chunk_starts, self.chunk_count, count, count, "filter chunks"),
        ):
            if last_of_ascending(data, at, 4, last, step) != total:
                self._fail(f"{what} of the index do not fit their section")

    def check_properties(
        self, smallest: bytes, largest: bytes, block_count: int, entry_count: int
    ) -> None:
        """Check that the index fits its table, and fences ascend.  O(blocks).

        After that, every key from ``smallest`` to ``largest`` is found at or before the last block.
        """
        count = self.block_count
        if count != block_count:
            self._fail(f"index of {count} blocks in a table of {block_count}")
        if self.first_key(0) != smallest or self.last_key(count - 1) != largest:
            self._fail("key range of a table is not its index's")
        if self.prefix_length > common_prefix_length([smallest, largest]):
            self._fail(f"keys of a table do not share {self.prefix_length} bytes")
        lowest = fence(smallest, self.prefix_length, len(smallest))
        highest = fence(largest, self.prefix_length, len(largest))
        data, first_at, last_at = self.section, self._first_fences, self._last_fences
        if last_of_ascending_pairs(data, first_at, last_at, count, lowest) != highest:
            self._fail("fences of the index do not ascend from the smallest key to the largest")
        if sum_of_positive(data, self._entry_counts, count) != entry_count:
            self._fail(f"entries of the index are not the {entry_count} of the table")

    def filter_shapes(self) -> set[int]:
        return filter_shapes(self.section, self._filter_ends, self._probe_counts, self.block_count)

    # Search

    def seek(self, key: bytes) -> i64:
        """The first block whose last key is not below ``key``, or ``block_count``.

        ``key`` must share the table's common prefix.  O(log n).
        """
        target = fence(key, self.prefix_length, len(key))
        return self._seek(key, target, self._group_of(target))

    def group_of(self, key: bytes) -> i64:
        """The first block of the group of fences to search for ``key``."""
        return self._group_of(fence(key, self.prefix_length, len(key)))

    def _group_of(self, target: i64) -> i64:
        groups = self.block_count // _GROUP
        if groups == 0:
            return 0
        samples = self._samples
        if len(samples) == 0:
            samples = self._samples = self._sampled()
        return _GROUP * lower_bound(samples, 0, groups, target)

    def prefetch(self, group: i64) -> i64:
        """Fetch what :meth:`find_in` reads of ``group`` into the processor's cache."""
        if self.block_count < _GROUP:
            return 0
        data = self.section  # past the last block these read from the arrays that follow
        last = self._last_fences + 8 * group
        first = self._first_fences + 8 * group
        fetched = read_i64_le(data, last) ^ read_i64_le(data, last + _CACHE_LINE_BYTES)
        fetched ^= read_i64_le(data, last + 8 * _GROUP - 8)
        fetched ^= read_i64_le(data, first) ^ read_i64_le(data, first + _CACHE_LINE_BYTES)
        fetched ^= read_i64_le(data, self._filter_ends + 4 * group)
        return fetched  # used, or the compiler drops the reads

    def _seek(self, key: bytes, target: i64, group: i64) -> i64:
        """:meth:`seek` for a key whose fence is ``target``, in ``group``."""
        count = min(self.block_count - group, _GROUP)
        low = group + lower_bound(self.section, self._last_fences + 8 * group, count, target)
        if (
            low == self.block_count
            or read_i64_le(self.section, self._last_fences + 8 * low) > target
        ):
            return low
        return self._seek_among_equals(key, low, target)

    def _sampled(self) -> bytes:
        """The last fence of each whole group."""
        out = BytesWriter()
        at = self._last_fences + 8 * (_GROUP - 1)
        while at < self._first_fences:
            write_i64_le(out, read_i64_le(self.section, at))
            at += 8 * _GROUP
        return out.getvalue()

    def _seek_among_equals(self, key: bytes, low: i64, target: i64) -> i64:
        data = self.section
        high: i64 = self.block_count
        while low < high:
            middle = (low + high) >> 1
            if (
                read_i64_le(data, self._last_fences + 8 * middle) == target
                and self.last_key(middle) < key
            ):
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, key: bytes) -> i64:
        """The first block that spans ``key``; -1 if the key lies between two blocks.

        ``key`` must lie between the table's smallest and largest key.  O(log n).
        """
        target = fence(key, self.prefix_length, len(key))
        return self._find(key, target, self._group_of(target))

    def find_in(self, key: bytes, group: i64) -> i64:
        return self._find(key, fence(key, self.prefix_length, len(key)), group)

    def _find(self, key: bytes, target: i64, group: i64) -> i64:
        block_number = self._seek(key, target, group)
        if block_number == self.block_count:
            return -1
        first = read_i64_le(self.section, self._first_fences + 8 * block_number)
        if target < first or (target == first and key < self.first_key(block_number)):
            return -1
        return block_number

    def begins_above(self, block_number: i64, key: bytes) -> bool:
        """Whether a block's first key is above ``key``; see :meth:`seek`."""
        target = fence(key, self.prefix_length, len(key))
        first = read_i64_le(self.section, self._first_fences + 8 * block_number)
        return target < first or (target == first and key < self.first_key(block_number))

    # One block

    def offset(self, block_number: i64) -> int:
        """Where in the file a block starts; of ``block_count``, where the blocks end."""
        return read_i64_le(self.section, self._offsets + 8 * block_number)

    def filter_start(self, block_number: i64) -> i64:
        return i64(read_i32_le(self.section, self._filter_ends + 4 * block_number)) & 0xFFFF_FFFF

    def entry_count(self, block_number: i64) -> int:
        return read_i32_le(self.section, self._entry_counts + 4 * block_number)

    def probe_count(self, block_number: i64) -> i64:
        return self.section[self._probe_counts + block_number]

    def first_key(self, block_number: i64) -> bytes:
        return self._key(2 * block_number)

    def last_key(self, block_number: i64) -> bytes:
        return self._key(2 * block_number + 1)

    def key_start(self, key_number: i64) -> i64:
        """Start of a key: a block's first (``2 * block_number``) or last (+ 1).

        The key before ends there.
        """
        at = self._key_ends + 4 * key_number
        return self._keys + (i64(read_i32_le(self.section, at)) & 0xFFFF_FFFF)

    def _key(self, key_number: i64) -> bytes:
        start, end = self.key_start(key_number), self.key_start(key_number + 1)
        return self.section[start:end]

    # Filter chunks

    def chunk_of(self, block_number: i64) -> i64:
        """The chunk that holds a block's filter.  O(log chunk_count)."""
        low: i64 = 0
        high: i64 = self.chunk_count - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if i64(read_i32_le(self.section, self._chunk_starts + 4 * middle)) <= block_number:
                low = middle
            else:
                high = middle - 1
        return low

    def chunk_start(self, chunk: i64) -> i64:
        """The first block whose filter is in ``chunk``; for ``chunk_count``, ``block_count``."""
        return i64(read_i32_le(self.section, self._chunk_starts + 4 * chunk)) & 0xFFFF_FFFF

    def chunk_span(self, chunk: i64) -> tuple[i64, i64]:
        first, stop = self.chunk_start(chunk), self.chunk_start(chunk + 1)
        return self.filter_start(first), self.filter_start(stop)

    def chunk_checksum(self, chunk: i64) -> int:
        at = self._chunk_checksums + 8 * chunk
        return int.from_bytes(self.section[at : at + 8], "little")  # unsigned 64 bits
