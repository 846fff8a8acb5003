"""Reads one table file: asks its filters, fetches its blocks, answers look-ups.

A look-up in a table goes: table filter (if it has one) -> fence search -> that block's filter ->
cache or disk -> search in the block.  Each step may end it, and each is counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NoReturn

from mypy_extensions import i64

from lsmkv.cache import BlockCache, CacheItem
from lsmkv.encoding import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError, caused
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.filters.policy import SCHEME_NONE, FilterPolicy, policy_for
from lsmkv.finalizers import Finalizer
from lsmkv.sstable.block import ABSENT, MAX_BLOCK_BYTES, Absent, Block
from lsmkv.sstable.codec import Decompressor
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.layout import (
    FOOTER_BYTES,
    BlockInfo,
    BlockTrailer,
    Footer,
    TableMeta,
    decode_block_frame,
    decode_footer,
    decode_properties,
)
from lsmkv.storage import ReadKind, Storage

BLOCKS_PER_CACHE_TABLE: Final = 1 << 32  # cache keys: table number * this + block
_READ_AHEAD_BYTES: Final = 256 * 1024  # a long scan or a compaction reads about this much at once
_CHUNK_BIT: Final = 1 << 31  # set in the cache keys of filter chunks


class FilterChunk(CacheItem):
    """Filters of consecutive blocks, held in the block cache with ``filter_residency="cached"``."""

    def __init__(self, bits: bytes, start: i64) -> None:
        super().__init__(len(bits) + 64)
        self.bits = bits
        self.start = start


class TableReader:
    """An open table.  Any number of threads may read it.

    The file is closed when the last reference to the reader goes, so that a look-up or an iterator
    that still uses it is never cut off; if ``retire`` was called, the file is removed then.

    Raises:
        CorruptionError: footer, index, properties or resident filters do not check out, or the
            table is not the one that ``meta`` describes.
        UnsupportedFormatError: another format version, or an unknown codec or filter scheme.
        OSError: the file cannot be opened or read.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        cache: BlockCache,
        *,
        meta: TableMeta | None,
        filter_residency: str,
    ) -> None:
        self._retired: Finalizer | None = None
        self._storage = storage
        self._cache = cache
        self._stats = storage.stats
        self.path = path
        self._file = storage.open_random(path)
        size = self._file.size
        at = max(0, size - FOOTER_BYTES)
        self.footer: Footer = decode_footer(
            self._file.pread(at, size - at, ReadKind.INDEX), path, size
        )
        footer = self.footer
        tail_length = footer.index_length + footer.properties_length
        tail = self._file.pread(footer.index_offset, tail_length, ReadKind.INDEX)
        computed = checksum(tail, 0)
        if computed != footer.tail_checksum:
            raise CorruptionError(
                path,
                footer.index_offset,
                "checksum of a table's index fails",
                expected=footer.tail_checksum,
                got=computed,
            )
        self.properties = decode_properties(
            tail[footer.index_length :], path, footer.properties_offset
        )
        self.meta: TableMeta = self.properties.meta(size, footer.tail_checksum)
        if meta is not None and meta != self.meta:
            raise CorruptionError(
                path,
                footer.properties_offset,
                "not the table expected here",
                expected=meta,
                got=self.meta,
            )
        try:
            self.filter_key = filter_key_from_spec(self.properties.filter_key)
        except ValueError as error:
            raise caused(CorruptionError(path, footer.properties_offset, str(error)), error)
        try:
            self.policy: FilterPolicy = policy_for(
                self.properties.filter_scheme, self.properties.filter_policy
            )
        except ValueError as error:
            raise caused(UnsupportedFormatError(path, str(error)), error)
        self.index = TableIndex(
            tail[: footer.index_length],
            path,
            footer.index_offset,
            footer.data_length,
            footer.filters_length,
        )
        self._decompressor = Decompressor(self._read_dictionary())
        self._cache_base = self.meta.number * BLOCKS_PER_CACHE_TABLE
        self._whole_keys: bool = self.filter_key.is_whole
        has_filters = footer.filters_length > 0 and filter_residency != "off"
        self._table_filter: bool = has_filters and self.properties.granularity == "table"
        self._block_filters: bool = has_filters and not self._table_filter
        self._table_probe_count: i64 = self.properties.probe_count
        self._resident: bytes | None = None
        if has_filters and (filter_residency == "resident"):
            self._resident = self._read_filters()

    def retire(self, still_ours: Callable[[], bool]) -> None:
        """Remove the file once nobody reads it any more.

        Args:
            still_ours: asked at that moment.  Once the store is closed the directory may be
                another's; the next open removes what is left over.
        """
        self._retired = Finalizer(
            partial(_remove_file, self._storage, self.path, os.getpid(), still_ours)
        )
        base = self._cache_base
        self._cache.discard(range(base, base + self.index.block_count))
        self._cache.discard(range(base + _CHUNK_BIT, base + _CHUNK_BIT + self.index.chunk_count))

    # Look-ups

    def get(self, key: bytes, h: i64, max_seq: int) -> bytes | Absent | None:
        """The newest version of ``key`` numbered ``max_seq`` or lower.

        Args:
            key: lies between the table's smallest and largest key.
            h: its hash (:func:`~lsmkv.filters.hashing.hash_key`).
            max_seq: a sequence number.

        Returns:
            The value; None when that version is a deletion; ABSENT when there is none.
        """
        stats = self._stats
        filtered = False
        if self._table_filter:
            filtered = True
            if not self._ask_table_filter(self.filter_hash(key, h)):
                stats.filter_negatives += 1
                return ABSENT
        block_number = self.index.find(key)
        if block_number < 0:
            stats.fence_negatives += 1
            if filtered:
                stats.filter_false_positives += 1
            return ABSENT
        if self._block_filters:
            filtered = True
            if not self.ask_block_filter(block_number, self.filter_hash(key, h)):
                stats.filter_negatives += 1
                return ABSENT
        block = self.block(block_number, True)
        position = block.find(key, h)
        if not filtered:
            stats.unfiltered_probes += 1
        elif position >= 0:
            stats.filter_true_positives += 1
        else:
            stats.filter_false_positives += 1
        if position >= 0 and max_seq < self.meta.largest_seq:
            position = block.find_visible(key, h, max_seq)
            while position < 0 and self._goes_on(block_number, key):
                block_number += 1
                block = self.block(block_number, True)
                position = block.find_visible(key, h, max_seq)
        return ABSENT if position < 0 else block.value(position)

    def _goes_on(self, block_number: i64, key: bytes) -> bool:
        """Whether older versions of ``key`` may stand in the block after this one."""
        return (
            block_number + 1 < self.index.block_count
            and self.index.first_key(block_number + 1) == key
        )

    def filter_hash(self, key: bytes, h: i64) -> i64:
        """The hash that this table's filters hold for ``key``, whose own hash is ``h``."""
        return h if self._whole_keys else hash_key(self.filter_key.part(key))

    def _ask_table_filter(self, filter_hash: i64) -> bool:
        return self._ask(0, 0, self.footer.filters_length, self._table_probe_count, filter_hash)

    def ask_block_filter(self, block_number: i64, filter_hash: i64) -> bool:
        """Whether the filter of a block may hold ``filter_hash``.  True when it has no filter."""
        index = self.index
        start = index.filter_start(block_number)
        length = index.filter_start(block_number + 1) - start
        return self._ask(block_number, start, length, index.probe_count(block_number), filter_hash)

    def _ask(self, block_number: i64, start: i64, length: i64, probes: i64, h: i64) -> bool:
        resident = self._resident
        if resident is not None:
            return self.policy.may_contain(resident, start, length, probes, h)
        if length == 0:
            return True
        chunk = self._filter_chunk(self.index.chunk_of(block_number))
        return self.policy.may_contain(chunk.bits, start - chunk.start, length, probes, h)

    @property
    def has_table_filter(self) -> bool:
        """Whether look-ups ask one filter for the whole table."""
        return self._table_filter

    @property
    def has_block_filters(self) -> bool:
        """Whether look-ups ask a filter per block."""
        return self._block_filters

    @property
    def has_filters(self) -> bool:
        """Whether there are filters to ask."""
        return self._table_filter or self._block_filters

    def may_hold_part(self, block_number: i64, part_hash: i64) -> bool:
        """Whether the filters leave it open that a key with this filter part is in the block."""
        if self._table_filter:
            return self._ask_table_filter(part_hash)
        return not self._block_filters or self.ask_block_filter(block_number, part_hash)

    # Blocks

    def block(self, number: i64, fill_cache: bool) -> Block:
        """Block ``number``, from the cache or from disk (and then kept, if ``fill_cache``)."""
        cache_key = self._cache_base + number
        cached = self._cache.get(cache_key)
        if cached is not None:
            assert isinstance(cached, Block)
            return cached
        offset = self.index.offset(number)
        length = self.index.offset(number + 1) - offset
        block = self._decode(self._file.pread(offset, length, ReadKind.DATA), number, offset)
        if fill_cache:
            self._cache.put(cache_key, block)
        return block

    def count_prefix_skips(self, count: int) -> None:
        """Note that a prefix scan passed over ``count`` blocks thanks to their filters."""
        self._stats.prefix_filter_skips += count

    def is_cached(self, number: int) -> bool:
        """Whether block ``number`` is in the cache now."""
        return self._cache.peek(self._cache_base + number)

    def blocks_ahead(
        self, numbers: Sequence[int], kind: ReadKind, *, cached_first: int
    ) -> Iterator[Block]:
        """The blocks ``numbers``, which ascend or descend, for a scan.

        The first ``cached_first`` go through the cache.  The rest only profit from what is in it, so
        that a long scan does not drive out what look-ups need; neighbours are read together.  Each
        read is twice as long as the one before, up to about 256 KiB: how far a scan goes shows only as
        it goes, and so it reads at most about as much in vain as it needs.  With no ``cached_first``
        (a compaction goes to the end) reads are long at once.
        """
        for number in numbers[:cached_first]:
            yield self.block(number, True)
        at = cached_first
        ahead = _READ_AHEAD_BYTES
        if cached_first:
            ahead = min(ahead, sum(map(self._length, numbers[:cached_first])))
        while at < len(numbers):
            if cached_first and self.is_cached(numbers[at]):
                yield self.block(numbers[at], False)
                at += 1
                continue
            end = self._neighbours_end(numbers, at, ahead, bool(cached_first))
            ahead = min(2 * ahead, _READ_AHEAD_BYTES)
            yield from self._read_together(numbers[at:end], kind)
            at = end

    def _neighbours_end(
        self, numbers: Sequence[int], at: int, size_bytes: int, stop_at_cached: bool
    ) -> int:
        """How far from ``at`` on ``numbers`` can be read at once, in about ``size_bytes``."""
        end = at + 1
        size = self._length(numbers[at])
        while (
            end < len(numbers)
            and size < size_bytes
            and abs(numbers[end] - numbers[end - 1]) == 1
            and not (stop_at_cached and self.is_cached(numbers[end]))
        ):
            size += self._length(numbers[end])
            end += 1
        return end

    def _read_together(self, numbers: Sequence[int], kind: ReadKind) -> Iterator[Block]:
        """Blocks that stand side by side, with one read, past the cache; each decoded in its turn."""
        low, high = sorted((numbers[0], numbers[-1]))
        first = self.index.offset(low)
        length = self.index.offset(high + 1) - first
        data = self._file.pread(first, length, kind, len(numbers))
        for number in numbers:
            start = self.index.offset(number)
            stop = self.index.offset(number + 1)
            yield self._decode(data[start - first : stop - first], number, start)

    def _length(self, number: int) -> int:
        return self.index.offset(number + 1) - self.index.offset(number)

    def _decode(self, data: bytes, number: i64, offset: int) -> Block:
        payload, _, trailer = decode_block_frame(data, self.path, self.meta.number, offset)
        if trailer.raw_length > MAX_BLOCK_BYTES:
            raise CorruptionError(self.path, offset, f"block states {trailer.raw_length} bytes")
        raw = self._decompressor.decompress(
            trailer.codec, payload, trailer.raw_length, self.path, offset
        )

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        block = Block(raw, fail)
        if not block.count == trailer.entry_count == self.index.entry_count(number):
            fail(
                f"block of {block.count} entries where the index has {self.index.entry_count(number)}"
            )
        return block

    # Sections

    def _read_dictionary(self) -> bytes:
        footer = self.footer
        if not footer.dictionary_length:
            return b""
        data = self._file.pread(footer.data_length, footer.dictionary_length, ReadKind.INDEX)
        self._check_sum(data, footer.dictionary_checksum, footer.data_length, "dictionary")
        return data

    def _read_filters(self) -> bytes:
        footer = self.footer
        bits = self._file.pread(footer.filters_offset, footer.filters_length, ReadKind.FILTER)
        for chunk in range(self.index.chunk_count):
            low, high = self._chunk_span(chunk)
            self._check_sum(
                bits[low:high],
                self.index.chunk_checksum(chunk),
                footer.filters_offset + low,
                "filter chunk",
            )
        return bits

    def _chunk_span(self, chunk: i64) -> tuple[i64, i64]:
        if self.properties.granularity == "table":
            return 0, self.footer.filters_length
        return self.index.chunk_span(chunk)

    def _filter_chunk(self, chunk: i64) -> FilterChunk:
        cache_key = self._cache_base + (_CHUNK_BIT | chunk)
        cached = self._cache.get(cache_key)
        if cached is not None:
            assert isinstance(cached, FilterChunk)
            return cached
        low, high = self._chunk_span(chunk)
        at = self.footer.filters_offset + low
        bits = self._file.pread(at, high - low, ReadKind.FILTER)
        self._check_sum(bits, self.index.chunk_checksum(chunk), at, "filter chunk")
        item = FilterChunk(bits, low)
        self._cache.put(cache_key, item)
        return item

    def _check_sum(self, data: bytes, expected: int, offset: int, what: str) -> None:
        got = checksum(data, 0)
        if got != expected:
            raise CorruptionError(
                self.path, offset, f"checksum of a table's {what} fails", expected=expected, got=got
            )

    # Inspection

    @property
    def filter_memory_bytes(self) -> int:
        """Memory of the resident filters."""
        return len(self._resident) if self._resident is not None else 0

    def filter_bytes_to_read(self, number: int) -> int:
        """Bytes that asking the filter of block ``number`` would read from disk now.

        0 when it is in memory, or there is none to ask.
        """
        if not self.has_filters or self._resident is not None:
            return 0
        chunk = 0 if self._table_filter else self.index.chunk_of(number)
        if self._cache.peek(self._cache_base + (_CHUNK_BIT | chunk)):
            return 0
        low, high = self._chunk_span(chunk)
        return high - low

    def block_info(self, number: int) -> BlockInfo:
        """What block ``number`` is made of; reads it from disk."""
        frame, trailer = self._frame(number)
        return BlockInfo(
            number,
            self.index.offset(number),
            len(frame),
            trailer.entry_count,
            self.index.first_key(number),
            self.index.last_key(number),
            trailer.filter_key_count,
            trailer.filter_length * 8,
            trailer.probe_count,
            trailer.codec,
            trailer.raw_length,
        )

    def _frame(self, number: i64) -> tuple[bytes, BlockTrailer]:
        offset = self.index.offset(number)
        length = self.index.offset(number + 1) - offset
        frame = self._file.pread(offset, length, ReadKind.COMPACTION)
        return frame, decode_block_frame(frame, self.path, self.meta.number, offset)[2]

    def verify_block(self, number: int) -> Block:
        """Check one block to the last byte: checksums, order, the index's word on it, its filter.

        Returns:
            The block, read from disk past the cache.

        Raises:
            CorruptionError: what does not hold.
        """
        index = self.index
        offset = index.offset(number)
        frame, trailer = self._frame(number)
        block = self._decode(frame, number, offset)

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        block.check_order(fail)
        keys = block.keys()
        if keys[0] != index.first_key(number) or keys[-1] != index.last_key(number):
            fail("first or last key of a block is not the index's")
        if trailer.filter_scheme not in (SCHEME_NONE, self.policy.scheme):
            fail(f"filter scheme {trailer.filter_scheme} is not the table's, {self.policy.scheme}")
        embedded = frame[trailer.payload_length : trailer.payload_length + trailer.filter_length]
        start = index.filter_start(number)
        if trailer.filter_length != index.filter_start(number + 1) - start or (
            trailer.filter_length and trailer.probe_count != index.probe_count(number)
        ):
            fail("filter of a block is not the one that the index describes")
        if trailer.filter_length:
            at = self.footer.filters_offset + start
            if self._file.pread(at, trailer.filter_length, ReadKind.FILTER) != embedded:
                fail("filter of a block differs from its copy in the filter section")
            for key in keys:
                part_hash = self.filter_hash(key, hash_key(key))
                if not self.policy.may_contain(
                    embedded, 0, trailer.filter_length, trailer.probe_count, part_hash
                ):
                    fail(f"filter of a block denies its key {key[:40]!r}")
        return block

    def verify_tail(self) -> None:
        """Check everything but the blocks: filters and the first and last key of the table.

        Raises:
            CorruptionError: what does not hold.
        """
        if self.footer.filters_length:
            self._read_filters()
        first = self.index.first_key(0)
        last = self.index.last_key(self.index.block_count - 1)
        if first != self.meta.smallest or last != self.meta.largest:
            reason = "key range of a table is not its index's"
            raise CorruptionError(self.path, self.footer.index_offset, reason)


def _remove_file(storage: Storage, path: str, pid: int, still_ours: Callable[[], bool]) -> None:
    """Remove a table's file, in the process that retired it.  What is left the next open removes."""
    if os.getpid() == pid and still_ours():
        storage.remove(path)
