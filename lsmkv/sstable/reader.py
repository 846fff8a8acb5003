"""Reads one table file: asks its filters, fetches its blocks, answers look-ups.

A look-up in a table goes: table filter (if it has one) -> fence search -> that block's filter ->
cache or disk -> search in the block.  Each step may end it, and each is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from mypy_extensions import i64

from lsmkv.encoding.entries import ABSENT, Absent
from lsmkv.errors import CorruptionError, caused
from lsmkv.filters.policy import FilterPolicy
from lsmkv.sstable.block.block import MAX_BLOCK_BYTES, Block
from lsmkv.sstable.block.codec import Decompressor
from lsmkv.sstable.block.trailer import (
    BlockTrailer,
    checked_payload,
    codec_at,
    decode_block_frame,
    entry_count_at,
    raw_length_at,
)
from lsmkv.sstable.block_cache import BlockCache, TableCacheSlots
from lsmkv.sstable.block_checks import check_block, check_trailer, why_not_mergeable
from lsmkv.sstable.format import (
    CODEC_NONE,
    CODEC_ZSTD_REDUCED,
    BlockInfo,
    Footer,
    TableMeta,
    TableProperties,
)
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.read_around import ReadAround
from lsmkv.sstable.table_filters import FilterKind, TableFilters, filter_kind
from lsmkv.sstable.tail import read_dictionary, read_footer, read_index, read_properties
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import ReadKind, Storage

_READ_AHEAD_BYTES: Final = 256 * 1024  # a long scan or a compaction reads about this much at once


class TableReader:
    """An open table.  Any number of threads may read it.

    Index and filters are read at the first use (:meth:`load`), so that opening a large store takes
    little.

    The file is closed when the last reference to the reader goes, so that a look-up or an iterator
    that still uses it is never cut off, even if the file has lost its name.

    Raises:
        CorruptionError: footer, index or properties do not check out, or the table is not the one
            that ``meta`` describes.
        UnsupportedFormatError: another format version, or an unknown filter scheme.
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
        read_around: bool = False,
    ) -> None:
        self._is_retired = False
        self._storage = storage
        self._cache = cache
        self._stats = storage.stats
        self.path = path
        self._file = storage.open_random(path)
        self.footer: Footer = read_footer(self._file, path)
        footer = self.footer
        self.properties: TableProperties = read_properties(self._file, path, footer)
        self.meta: TableMeta = self.properties.meta(self._file.size, footer.tail_checksum)
        if meta is not None and meta != self.meta:
            raise CorruptionError(
                path,
                footer.properties_offset,
                "not the table expected here",
                expected=meta,
                got=self.meta,
            )
        # Looked at by every scan or for every block, and so held where that is cheap.
        self._number: int = self.meta.number
        self.smallest: bytes = self.meta.smallest
        self.largest: bytes = self.meta.largest
        self.largest_seq: int = self.meta.largest_seq
        self.has_versions: bool = self.properties.has_versions
        self._decompressor = Decompressor(read_dictionary(self._file, path, footer))
        self._around = ReadAround(self._file, self._stats, read_around)
        self._filter_residency = filter_residency
        self._filter_kind: FilterKind = filter_kind(self.properties, path, footer)
        self._has_filters: bool = footer.filters_length > 0 and filter_residency != "off"
        # Read at the first use.
        # Re-entrant: a finalizer may run while this thread loads, and load too.  Both results are equal.
        self._loading = threading.RLock()
        self._index: TableIndex | None = None
        self._filters: TableFilters | None = None
        self._blocks: TableCacheSlots = cache.shelf(0)

    # What is read at the first use

    @property
    def index(self) -> TableIndex:
        """Where the blocks lie.  Raises as :meth:`load`."""
        index = self._index
        return self._load_index() if index is None else index

    @property
    def filters(self) -> TableFilters:
        """The filters.  Raises as :meth:`load`."""
        filters = self._filters
        return self._load_filters() if filters is None else filters

    def load(self, *, filters: bool = True) -> None:
        """Read index and resident filters, unless that is done; the first use of each does it.

        Args:
            filters: whether these, too.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: the index is packed by an unknown codec.
            OSError: they cannot be read.
        """
        self._load_index()
        if filters:
            self._load_filters()

    def _load_index(self) -> TableIndex:
        with self._loading:
            index = self._index
            if index is None:
                index = read_index(self._file, self.path, self.footer, self.properties)
                self._blocks = self._cache.shelf(index.block_count)
                if self._is_retired:
                    self._cache.clear(self._blocks)
                self._index = index  # last: who sees it needs the shelf
            return index

    def _load_filters(self) -> TableFilters:
        index = self.index
        with self._loading:
            filters = self._filters
            if filters is None:
                filters = TableFilters(
                    self._file,
                    self.path,
                    self.footer,
                    self.properties,
                    self._filter_kind,
                    index,
                    self._cache,
                    self._filter_residency,
                    self._stats,
                )
                if self._is_retired:
                    filters.forget()
                self._filters = filters
        filters.take_notice()
        return filters

    @property
    def index_memory_bytes(self) -> int:
        """Memory of the index; 0 until it is read."""
        return 0 if self._index is None else self._index.memory_bytes

    @property
    def filter_memory_bytes(self) -> int:
        """Memory of resident filters; 0 until they are read."""
        return 0 if self._filters is None else self._filters.memory_bytes

    @property
    def filter_policy(self) -> FilterPolicy:
        """What kind of filter it has."""
        return self._filter_kind.policy

    def mark_obsolete(self) -> None:
        """Keep nothing of it in the cache any more: it is in the tree no more."""
        with self._loading:
            self._is_retired = True
            self._cache.clear(self._blocks)
            if self._filters is not None:
                self._filters.forget()

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
        block_number = self.block_for(key, h)
        if block_number < 0:
            return ABSENT
        block = self.block(block_number, True)
        position = self.find_in(block, key, h)
        if position >= 0 and max_seq < self.largest_seq:
            position = block.find_visible(key, h, max_seq)
            while position < 0 and self._goes_on(block_number, key):
                block_number += 1
                block = self.block(block_number, True)
                position = block.find_visible(key, h, max_seq)
        return ABSENT if position < 0 else block.value(position)

    def block_for(self, key: bytes, h: i64) -> i64:
        """Number of the block that may hold ``key``; -1 when index or filters know of none."""
        filters = self._filters
        if filters is None:
            filters = self._load_filters()
        return filters.block_for(key, h)

    def find_in(self, block: Block, key: bytes, h: i64) -> i64:
        """Position of the newest version of ``key`` in the block that :meth:`block_for` named, or -1."""
        position = block.find(key, h)
        if not self._has_filters:
            self._stats.unfiltered_probes += 1
        elif position >= 0:
            self._stats.filter_true_positives += 1
        else:
            self._stats.filter_false_positives += 1
        return position

    def _goes_on(self, block_number: i64, key: bytes) -> bool:
        """Whether older versions of ``key`` may stand in the block after this one."""
        return (
            block_number + 1 < self.index.block_count
            and self.index.first_key(block_number + 1) == key
        )

    # Blocks

    def block(self, number: i64, fill_cache: bool) -> Block:
        """Block ``number``, from the cache or from disk (and then kept, if ``fill_cache``)."""
        index = self._index
        if index is None:
            index = self._load_index()
        cached = self._cache.get(self._blocks, number)
        if cached is not None:
            assert isinstance(cached, Block)
            return cached
        offset = index.offset(number)
        length = index.offset(number + 1) - offset
        data = self._file.pread(offset, length, ReadKind.DATA)
        self._around.note(offset)
        block = self._decode(data, 0, length, number, offset)
        if fill_cache:
            self._cache.put(self._blocks, number, block)
        return block

    def prefetch(self, number: i64) -> None:
        """Have the processor fetch what a scan reads first of block ``number``, if it is in the cache."""
        if self._blocks.holds(number):
            cached = self._blocks.items[number]
            assert isinstance(cached, Block)
            cached.prefetch_keys()

    def count_prefix_skips(self, count: int) -> None:
        """Note that a prefix scan passed over ``count`` blocks thanks to their filters."""
        self._stats.prefix_filter_skips += count

    def is_cached(self, number: int) -> bool:
        """Whether block ``number`` is in the cache now."""
        return self._index is not None and self._blocks.holds(number)

    def blocks_ahead(
        self, numbers: Sequence[int], kind: ReadKind, *, cached_first: int
    ) -> Iterator[Block]:
        """The blocks ``numbers``, which ascend or descend, of which many may be wanted.

        The first ``cached_first`` go through the cache, the rest as :meth:`blocks_further` says; with
        none, the cache is let alone.
        """
        for number in numbers[:cached_first]:
            yield self.block(number, True)
        passed_bytes = sum(map(self.block_length, numbers[:cached_first])) if cached_first else None
        yield from self.blocks_further(numbers[cached_first:], kind, passed_bytes)

    def blocks_further(
        self, numbers: Sequence[int], kind: ReadKind, passed_bytes: int | None
    ) -> Iterator[Block]:
        """The blocks ``numbers``, for a scan that goes on, which has read ``passed_bytes`` before.

        They only profit from what is in the cache, so that a long scan does not drive out what look-ups
        need; neighbours are read together.  Each read is twice as long as the one before, up to about
        256 KiB, and the first as long as ``passed_bytes``: how far a scan goes shows only as it goes, and
        so it reads at most about as much in vain as it needs.
        With None (a compaction goes to the end) reads are long at once, and the cache is let alone.
        """
        at = 0
        use_cache = passed_bytes is not None
        ahead = _READ_AHEAD_BYTES if passed_bytes is None else min(passed_bytes, _READ_AHEAD_BYTES)
        while at < len(numbers):
            if use_cache and self.is_cached(numbers[at]):
                yield self.block(numbers[at], False)
                at += 1
                continue
            end = self._neighbours_end(numbers, at, ahead, use_cache)
            ahead = min(2 * ahead, _READ_AHEAD_BYTES)
            yield from self._read_together(numbers[at:end], kind)
            at = end

    def every_block(self, kind: ReadKind) -> Iterator[Block]:
        """All blocks in order, past the cache, in reads of about 256 KiB: for a compaction.

        Raises:
            CorruptionError: a block is damaged, or its keys do not ascend.
        """
        index = self.index
        count = index.block_count
        number: i64 = 0
        start: i64 = 0
        while number < count:
            first, end = start, number + 1
            stop: i64 = index.offset(end)
            while end < count and stop - first < _READ_AHEAD_BYTES:
                end += 1
                stop = index.offset(end)
            data = self._file.pread(first, stop - first, kind, end - number)
            while number < end:
                low = start - first
                start = index.offset(number + 1)
                high = start - first
                block = self._decode(data, low, high, number, first + low)
                problem = why_not_mergeable(block, index, number, self.has_versions)
                if problem:
                    raise CorruptionError(self.path, first + low, problem)
                yield block
                number += 1

    def _neighbours_end(
        self, numbers: Sequence[int], at: int, size_bytes: int, stop_at_cached: bool
    ) -> int:
        """How far from ``at`` on ``numbers`` can be read at once, in about ``size_bytes``."""
        end = at + 1
        size = self.block_length(numbers[at])
        while (
            end < len(numbers)
            and size < size_bytes
            and abs(numbers[end] - numbers[end - 1]) == 1
            and not (stop_at_cached and self.is_cached(numbers[end]))
        ):
            size += self.block_length(numbers[end])
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
            yield self._decode(data, start - first, stop - first, number, start)

    def block_length(self, number: i64) -> int:
        """Bytes of block ``number`` on disk."""
        return self.index.offset(number + 1) - self.index.offset(number)

    def _decode(self, data: bytes, start: i64, stop: i64, number: i64, offset: int) -> Block:
        """Block ``number``, which stands at ``offset`` and in ``data[start:stop]``."""
        raw = checked_payload(data, start, stop, self.path, self._number, offset)
        raw_length, codec = raw_length_at(data, stop), codec_at(data, stop)
        if raw_length > MAX_BLOCK_BYTES:
            raise CorruptionError(self.path, offset, f"block states {raw_length} bytes")
        if codec != CODEC_NONE or len(raw) != raw_length:
            raw = self._decompressor.decompress_block(codec, raw, raw_length, self.path, offset)

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        index = self.index
        block = Block(raw, fail, codec == CODEC_ZSTD_REDUCED)
        if not block.count == entry_count_at(data, stop) == index.entry_count(number):
            fail(f"block of {block.count} entries where the index has {index.entry_count(number)}")
        # The last key is left to those that read every block: a look-up does without it.
        if not block.is_key(
            0, index.section, index.key_start(2 * number), index.key_start(2 * number + 1)
        ):
            fail("first key of a block is not the index's")
        return block

    # Inspection

    def block_info(self, number: int) -> BlockInfo:
        """What block ``number`` is made of; reads it from disk."""
        offset = self.index.offset(number)
        frame, trailer = self._frame(number)

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        check_trailer(trailer, number, self.index, self._filter_kind.policy, fail)
        return BlockInfo(
            number,
            offset,
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
        offset = self.index.offset(number)
        frame, trailer = self._frame(number)
        block = self._decode(frame, 0, len(frame), number, offset)

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        check_block(block, frame, trailer, number, self.filters, fail)
        return block

    def verify_tail(self) -> None:
        """Check everything but the blocks: filters and the first and last key of the table.

        Raises:
            CorruptionError: what does not hold.
        """
        if self.footer.filters_length:
            self.filters.read_all()
        first = self.index.first_key(0)
        last = self.index.last_key(self.index.block_count - 1)
        if first != self.meta.smallest or last != self.meta.largest:
            reason = "key range of a table is not its index's"
            raise CorruptionError(self.path, self.footer.index_offset, reason)


def open_table(
    storage: Storage,
    directory: str,
    cache: BlockCache,
    meta: TableMeta,
    *,
    filter_residency: str = "off",
    read_around: bool = False,
) -> TableReader:
    """Open a table that the manifest names; a missing file is a CorruptionError."""
    path = table_path(directory, meta.number)
    try:
        return TableReader(
            storage,
            path,
            cache,
            meta=meta,
            filter_residency=filter_residency,
            read_around=read_around,
        )
    except FileNotFoundError as error:
        reason = "a table that the manifest names is missing"
        raise caused(CorruptionError(path, None, reason), error)
