"""A table's index: where its blocks lie, which keys they span, where their filters are.

It is checked when the table is opened and read when the table is first used, and it is searched as it
stands in the file: arrays of fixed-width integers (little-endian) and one run of key bytes::

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
Fences are searched first; real keys are compared only where fences are equal.

In tables that are compressed it is stored packed: see :mod:`lsmkv.sstable.index_codec`.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final, NoReturn

from librt.strings import (
    BytesWriter,
    read_i32_le,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.fences import fence, lower_bound
from lsmkv.encoding.words import common_prefix_length
from lsmkv.errors import CorruptionError
from lsmkv.sstable.index_arrays import (
    filter_shapes,
    last_of_ascending_pairs,
    last_of_ascending_u32,
    last_of_ascending_u64,
    sum_of_positive,
)

HEADER: Final = struct.Struct("<III")
_FILTER_CHUNK_BYTES: Final = 16 * 1024
_GROUP: Final = 16  # fences: two lines of the processor's cache
_LINE_BYTES: Final = 64  # of most processors
# Payload and filter of a block have lengths of 32 bits, and memory is taken for a whole block.
_MOST_BLOCK_BYTES: Final = i64(0xFFFF_FFFF)


def array_places(count: int, chunk_count: int) -> list[int]:
    """Where the arrays of a section start, in order, and last its keys."""
    at = HEADER.size
    places: list[int] = []
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
        places.append(at)
        at += width * length
    places.append(at)
    return places


class IndexBuilder:
    """Collects blocks: ``add* finish``."""

    def __init__(self) -> None:
        # Packed as they will stand in the file: it takes a fraction of what objects would.
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
        *,
        length: int,
        filter_length: int,
        entry_count: int,
        probe_count: int,
    ) -> None:
        """The next block of the file, which is ``length`` bytes long."""
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
        """The index section, for a table whose filter section is ``filters``."""
        prefix_length = common_prefix_length(self._smallest, self._largest)
        starts, checksums = self._chunks(filters)
        keys, key_ends = self._keys.getvalue(), self._key_ends.getvalue()
        fences = BytesWriter()
        for side in (4, 0):  # all the last keys, then all the first
            at: i64 = side
            while at < 8 * self.block_count:
                start, end = i64(read_i32_le(key_ends, at)), i64(read_i32_le(key_ends, at + 4))
                write_i64_le(fences, fence(keys[start:end], prefix_length))
                at += 8
        return b"".join(
            (
                HEADER.pack(self.block_count, prefix_length, len(checksums)),
                fences.getvalue(),
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
        """Block at which each chunk of filters starts (and the block count), and its checksum."""
        if self._filter_end != len(filters):  # one filter for the whole table
            return [0, self.block_count], [checksum(filters, 0)]
        ends = struct.unpack(f"<{self.block_count + 1}I", self._filter_ends.getvalue())
        starts = [0]
        for block in range(1, self.block_count):
            if ends[block + 1] - ends[starts[-1]] > _FILTER_CHUNK_BYTES:
                starts.append(block)
        starts.append(self.block_count)
        checksums = [
            checksum(filters[ends[start] : ends[stop]], 0) for start, stop in pairwise(starts)
        ]
        return starts, checksums


class TableIndex:
    """An index section, checked, searched in place.

    Attributes:
        block_count: number of blocks.
        chunk_count: number of chunks in which the filters can be read.
        memory_bytes: size in memory.

    Raises:
        CorruptionError: its arrays do not fit together.
    """

    def __init__(
        self, data: bytes, path: str, offset: int, data_length: int, filters_length: int
    ) -> None:
        self._data = data
        self._path = path
        self._offset = offset
        if len(data) < HEADER.size:
            self._fail("index is shorter than its header")
        count, prefix_length, chunk_count = HEADER.unpack_from(data)
        places = array_places(count, chunk_count)
        at = places[-1]
        if count == 0 or at > len(data):
            self._fail(f"index of {len(data)} bytes cannot hold {count} blocks")
        self.block_count: i64 = count
        self.prefix_length: i64 = prefix_length
        self.chunk_count: i64 = chunk_count
        self._last_fences: i64 = places[0]
        self._first_fences: i64 = places[1]
        self._offsets: i64 = places[2]
        self._filter_ends: i64 = places[3]
        self._entry_counts: i64 = places[4]
        self._probe_counts: i64 = places[5]
        self._key_ends: i64 = places[6]
        self._chunk_starts: i64 = places[7]
        self._chunk_checksums: i64 = places[8]
        self._keys: i64 = at
        # The last fence of each whole group, so close together that they stay in the processor's
        # cache; made when they are first wanted.
        self._samples = b""
        self.memory_bytes = len(data) + 8 * (count // _GROUP)
        self._check(data_length, filters_length)

    def _fail(self, reason: str) -> NoReturn:
        raise CorruptionError(self._path, self._offset, reason)

    def _check(self, data_length: int, filters_length: int) -> None:
        count = self.block_count
        if self.filter_start(count) == 0:
            filters_length = 0  # one for the whole table, or none
        data = self._data
        if last_of_ascending_u64(data, self._offsets, count, _MOST_BLOCK_BYTES) != data_length:
            self._fail("blocks of the index do not fit their section")
        for at, last, step, total, what in (
            (self._filter_ends, count, filters_length, filters_length, "filters"),
            (self._key_ends, 2 * count, MAX_KEY_BYTES, len(data) - self._keys, "keys"),
            (self._chunk_starts, self.chunk_count, count, count, "filter chunks"),
        ):
            if last_of_ascending_u32(data, at, last, step) != total:
                self._fail(f"{what} of the index do not fit their section")

    # What the table's properties say, too

    def check_properties(
        self, smallest: bytes, largest: bytes, block_count: int, entry_count: int
    ) -> None:
        """Check the index against what the properties of its table say.  O(blocks).

        Afterwards every key from ``smallest`` to ``largest`` is found at or before the last block.

        Raises:
            CorruptionError: they contradict each other, or its fences do not ascend.
        """
        count = self.block_count
        if count != block_count:
            self._fail(f"index of {count} blocks in a table of {block_count}")
        if self.first_key(0) != smallest or self.last_key(count - 1) != largest:
            self._fail("key range of a table is not its index's")
        if self.prefix_length > common_prefix_length(smallest, largest):
            self._fail(f"keys of a table do not share {self.prefix_length} bytes")
        lowest, highest = fence(smallest, self.prefix_length), fence(largest, self.prefix_length)
        data, first_at, last_at = self._data, self._first_fences, self._last_fences
        if last_of_ascending_pairs(data, first_at, last_at, count, lowest) != highest:
            self._fail("fences of the index do not ascend from the smallest key to the largest")
        if sum_of_positive(data, self._entry_counts, count) != entry_count:
            self._fail(f"entries of the index are not the {entry_count} of the table")

    def filter_shapes(self) -> set[int]:
        """What :func:`~lsmkv.sstable.index_arrays.filter_shapes` says of the filters.  O(blocks)."""
        return filter_shapes(self._data, self._filter_ends, self._probe_counts, self.block_count)

    # Search

    def seek(self, key: bytes) -> i64:
        """The first block whose last key is ``key`` or above; ``block_count`` when there is none.

        ``key`` must share the table's common prefix, as every key between its smallest and its
        largest does.  O(log n).
        """
        target = fence(key, self.prefix_length)
        return self._seek(key, target, self._group_of(target))

    def group_of(self, key: bytes) -> i64:
        """The first block of the group in which ``key`` is to be searched.  O(log n)."""
        return self._group_of(fence(key, self.prefix_length))

    def _group_of(self, target: i64) -> i64:
        groups = self.block_count // _GROUP
        if groups == 0:
            return 0
        samples = self._samples
        if len(samples) == 0:
            samples = self._samples = self._sampled()
        return _GROUP * lower_bound(samples, 0, groups, target)

    def prefetch(self, group: i64) -> i64:
        """Have the processor fetch what :meth:`find_in` reads of ``group``, and where filters start."""
        if self.block_count < _GROUP:
            return 0
        data = self._data  # past the last block stand the arrays that follow
        last = self._last_fences + 8 * group
        first = self._first_fences + 8 * group
        fetched = read_i64_le(data, last) ^ read_i64_le(data, last + _LINE_BYTES)
        fetched ^= read_i64_le(data, last + 8 * _GROUP - 8)
        fetched ^= read_i64_le(data, first) ^ read_i64_le(data, first + _LINE_BYTES)
        return fetched ^ read_i64_le(data, self._filter_ends + 4 * group)  # or C leaves it all out

    def _seek(self, key: bytes, target: i64, group: i64) -> i64:
        """:meth:`seek` for a key whose fence is ``target``, which falls into ``group``."""
        count = min(self.block_count - group, _GROUP)
        low = group + lower_bound(self._data, self._last_fences + 8 * group, count, target)
        if low == self.block_count or read_i64_le(self._data, self._last_fences + 8 * low) > target:
            return low
        return self._seek_among_equals(key, low, target)

    def _sampled(self) -> bytes:
        """The last fence of each whole group."""
        out = BytesWriter()
        at = self._last_fences + 8 * (_GROUP - 1)
        while at < self._first_fences:
            write_i64_le(out, read_i64_le(self._data, at))
            at += 8 * _GROUP
        return out.getvalue()

    def _seek_among_equals(self, key: bytes, low: i64, target: i64) -> i64:
        data = self._data
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
        """The first block that spans ``key``; -1 when the key lies in a gap between two blocks.

        ``key`` must lie between the table's smallest and largest key.  O(log n).
        """
        target = fence(key, self.prefix_length)
        return self._find(key, target, self._group_of(target))

    def find_in(self, key: bytes, group: i64) -> i64:
        """:meth:`find`, where :meth:`group_of` the key is known."""
        return self._find(key, fence(key, self.prefix_length), group)

    def _find(self, key: bytes, target: i64, group: i64) -> i64:
        block = self._seek(key, target, group)
        if block == self.block_count:
            return -1
        first = read_i64_le(self._data, self._first_fences + 8 * block)
        if target < first or (target == first and key < self.first_key(block)):
            return -1
        return block

    def begins_above(self, block: i64, key: bytes) -> bool:
        """Whether the first key of ``block`` is above ``key``, which is as for :meth:`seek`."""
        target = fence(key, self.prefix_length)
        first = read_i64_le(self._data, self._first_fences + 8 * block)
        return target < first or (target == first and key < self.first_key(block))

    # One block

    def offset(self, block: i64) -> int:
        """Where in the file ``block`` starts; of ``block_count``, where the blocks end."""
        return read_i64_le(self._data, self._offsets + 8 * block)

    def filter_start(self, block: i64) -> i64:
        """Where in the filter section the filter of ``block`` starts."""
        return i64(read_i32_le(self._data, self._filter_ends + 4 * block)) & 0xFFFF_FFFF

    def entry_count(self, block: i64) -> int:
        return read_i32_le(self._data, self._entry_counts + 4 * block)

    def probe_count(self, block: i64) -> i64:
        return self._data[self._probe_counts + block]

    def first_key(self, block: i64) -> bytes:
        return self._key(2 * block)

    def last_key(self, block: i64) -> bytes:
        return self._key(2 * block + 1)

    @property
    def section(self) -> bytes:
        """The bytes that :meth:`key_start` points into."""
        return self._data

    def key_start(self, position: i64) -> i64:
        """Where first (``2 * block``) or last key (one more) start, and the one before ends."""
        at = self._key_ends + 4 * position
        return self._keys + (i64(read_i32_le(self._data, at)) & 0xFFFF_FFFF)

    def _key(self, position: i64) -> bytes:
        at = self._key_ends + 4 * position
        low = i64(read_i32_le(self._data, at)) & 0xFFFF_FFFF
        high = i64(read_i32_le(self._data, at + 4)) & 0xFFFF_FFFF
        return self._data[self._keys + low : self._keys + high]

    # Filter chunks

    def chunk_of(self, block: i64) -> i64:
        """The chunk that holds the filter of ``block``.  O(log chunk_count)."""
        low: i64 = 0
        high: i64 = self.chunk_count - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if i64(read_i32_le(self._data, self._chunk_starts + 4 * middle)) <= block:
                low = middle
            else:
                high = middle - 1
        return low

    def chunk_start(self, chunk: i64) -> i64:
        """The first block whose filter is in ``chunk``; of ``chunk_count``, ``block_count``."""
        return i64(read_i32_le(self._data, self._chunk_starts + 4 * chunk)) & 0xFFFF_FFFF

    def chunk_span(self, chunk: i64) -> tuple[i64, i64]:
        """First and last-plus-one byte of ``chunk`` in the filter section."""
        first, stop = self.chunk_start(chunk), self.chunk_start(chunk + 1)
        return self.filter_start(first), self.filter_start(stop)

    def chunk_checksum(self, chunk: i64) -> int:
        at = self._chunk_checksums + 8 * chunk
        return int.from_bytes(self._data[at : at + 8], "little")  # 64 bits without a sign
