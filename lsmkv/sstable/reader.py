"""Reads one table file: lookups, blocks and the sections at the end.

A lookup (:meth:`TableReader.get`) takes these steps, and the first that rules the key out ends it:

1. the filter of the whole table, if it has one;
2. the index: a binary search of separators for the one block that may hold the key;
3. that block's own filter, if it has one;
4. the block, from the cache or from disk, searched in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from mypy_extensions import i64

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import ABSENT, Absent
from lsmkv.encoding.expiry import Held
from lsmkv.errors import CorruptionError, caused
from lsmkv.filters.policy import FilterPolicy
from lsmkv.sstable.ask_counts import AskCounts
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.codec import Decompressor
from lsmkv.sstable.block.layout import MAX_BLOCK_BYTES
from lsmkv.sstable.block.trailer import (
    TRAILER_BYTES,
    BlockTrailer,
    decode_block_frame,
    stored_payload,
)
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.block_checks import check_block, check_trailer
from lsmkv.sstable.format import (
    CODEC_NONE,
    CODEC_ZSTD,
    Footer,
    TableMeta,
    TableProperties,
)
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.lazy_sections import LazySections
from lsmkv.sstable.read_around import Eviction, ReadAround
from lsmkv.sstable.table_end import read_end
from lsmkv.sstable.table_filters import TableFilters, filter_kind
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import RandomFile, ReadKind, Storage


class TableReader:
    """An open table, shared by any number of threads.

    Opening reads footer and properties; index and filters are read at first use, or by :meth:`load`.
    Either may raise CorruptionError, UnsupportedFormatError (the format version, index codec or filter
    scheme is unknown) or OSError.  The file is closed when the last reference to the reader goes, so it
    may be used even after the file was deleted; a ``shared`` one only once it was pinned.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        cache: BlockCache,
        meta: TableMeta | None,
        filter_residency: str,
        read_around: bool = False,
        adaptive_filters: bool = False,
        eviction: Eviction | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """Open the table at ``path``; CorruptionError if ``meta`` describes another."""
        self._cache = cache
        self._stats = storage.stats
        self._file = storage.open_random(path)
        if shared:
            self._file.share(storage.shared_files)
        self._file.expect_random_reads()
        end = read_end(self._file)
        footer: Footer = end.footer
        self.footer = footer
        self.properties: TableProperties = end.properties
        self.meta: TableMeta = self.properties.meta(self._file.size, footer.tail_checksum)
        if meta is not None and meta != self.meta:
            offset, reason = footer.properties_offset, "not the table expected here"
            raise CorruptionError(path, offset, reason, expected=meta, got=self.meta)
        # Copies: attributes of ``meta`` and ``properties`` are slow to read on hot paths.
        self._seal: int = self.properties.seal
        self.smallest: bytes = self.meta.smallest
        self.largest: bytes = self.meta.largest
        self.largest_seq: int = self.meta.largest_seq
        self.newest_seq: int = self.meta.newest_seq
        self.one_seq: bool = self.properties.one_seq
        self.has_versions: bool = self.properties.has_versions
        self._decompressor = Decompressor(_read_dictionary(self._file, footer))
        self._around = ReadAround(self._file, self._stats, read_around, eviction or Eviction())
        kind = filter_kind(self.properties, path, footer)
        has_filters: bool = footer.filters_length > 0 and filter_residency != "off"
        self.answers_ranges: bool = (
            has_filters
            and kind.policy.answers_ranges
            and kind.key.is_whole
            and self.properties.granularity == "block"
        )
        self._sections = LazySections(
            self._file, footer, self.properties, kind, cache, filter_residency, self._stats
        )
        self._index: TableIndex | None = None  # copies, which spare lookups a step
        self._filters: TableFilters | None = None
        self.asks = AskCounts(
            self._stats, self._sections.memory, learns=adaptive_filters and has_filters
        )

    @property
    def path(self) -> str:
        return self._file.path

    def is_all_visible(self, seq: int) -> bool:
        """Whether a view of ``seq`` sees every entry, one for each key."""
        return seq >= self.largest_seq and not self.has_versions

    # Index and filters, read at first use

    @property
    def index(self) -> TableIndex:
        index = self._index
        return self._load_index() if index is None else index

    @property
    def filters(self) -> TableFilters:
        filters = self._filters
        return self._load_filters() if filters is None else filters

    def load(self, *, filters: bool = True) -> None:
        """Read the index, and with ``filters`` the filters, if not done before."""
        self._load_index()
        if filters:
            self._load_filters()

    def _load_index(self) -> TableIndex:
        index = self._index = self._sections.load_index()
        return index

    def _load_filters(self) -> TableFilters:
        filters = self._filters = self._sections.load_filters()
        return filters

    def admits_filters(self) -> bool:
        """Whether the memory budget has room for resident filters now."""
        return self._sections.memory.admits_filters(self.footer.filters_length)

    @property
    def file(self) -> RandomFile:
        """The file, to fetch parts of it, or to copy it."""
        return self._file

    @property
    def index_memory_bytes(self) -> int:
        return 0 if self._sections.index is None else self._sections.index.memory_bytes

    @property
    def filter_memory_bytes(self) -> int:
        return 0 if self._sections.filters is None else self._sections.filters.memory_bytes

    @property
    def filter_policy(self) -> FilterPolicy:
        return self._sections.kind.policy

    def leave_cache(self) -> None:
        """Drop the table's blocks from the cache for good: it left the tree."""
        self._sections.leave_cache()

    # Lookups

    def get(self, key: bytes, h: i64, max_seq: int) -> Held | Absent:
        """The newest version of ``key`` with a sequence number up to ``max_seq``.

        ``key`` must lie between the table's smallest and largest key; ``h`` is its hash.  Returns the
        value, None if that version is a deletion, or ABSENT if the table has no such version.
        """
        if self.has_versions:
            return self._get_version(key, h, max_seq)
        block_number = self.block_for(key, h)
        if block_number < 0 or (self.asks.has_learnt and self._is_learnt(block_number, h)):
            return ABSENT
        block = self.block(block_number, True)
        position = self.find_in(block, block_number, key, h)
        if position < 0:
            if self.asks.learns:
                self.asks.learn(self.filters, block, block_number, h)
        elif max_seq < self.largest_seq:
            if self.one_seq:
                return ABSENT
            position = block.find_visible(key, h, max_seq)
        return ABSENT if position < 0 else block.value(position)

    def _get_version(self, key: bytes, h: i64, max_seq: int) -> Held | Absent:
        """:meth:`get` in a table of which blocks may share a key."""
        filters = self.filters
        if filters.per_table and not filters.table_may_hold(filters.hash_of(key, h)):
            self.asks.denied()
            return ABSENT
        index = filters.index
        number = index.find_first(key)
        while True:
            if self.filter_allows(number, key, h):
                block = self.block(number, True)
                if self.find_in(block, number, key, h) < 0:
                    if self.asks.learns:
                        self.asks.learn(filters, block, number, h)
                else:
                    position = block.find_visible(key, h, max_seq)
                    if position >= 0:
                        return block.value(position)
            number += 1
            if not index.begins_at(number, key):
                return ABSENT

    def block_for(self, key: bytes, h: i64) -> i64:
        """Number of the block that may hold ``key``; -1 if ruled out.

        The steps of :meth:`block_near` and :meth:`filter_allows`, without the cost of two calls.
        """
        filters = self._filters
        if filters is None:
            filters = self._load_filters()
        if filters.per_table and not filters.table_may_hold(filters.hash_of(key, h)):
            self.asks.denied()
            return -1
        block_number = filters.index.find(key)
        if filters.per_block and not filters.block_may_hold(block_number, filters.hash_of(key, h)):
            self._stats.filter_negatives += 1  # asks.denied(), without the cost of a call
            self.asks.absent += 1
            return -1
        return block_number

    def block_near(self, key: bytes, h: i64, group: i64) -> i64:
        """Number of the block that may hold ``key``, in its ``group``; -1 if the filter rules it out."""
        filters = self._filters
        if filters is None:
            filters = self._load_filters()
        if filters.per_table and not filters.table_may_hold(filters.hash_of(key, h)):
            self.asks.denied()
            return -1
        return filters.index.find_in(key, group)

    def filter_allows(self, block_number: i64, key: bytes, h: i64) -> bool:
        """Whether a block's filter, if it has one, allows for ``key``."""
        filters = self._filters
        if filters is None:
            filters = self._load_filters()
        if filters.per_block and not filters.block_may_hold(block_number, filters.hash_of(key, h)):
            self.asks.denied()
            return False
        return not self.asks.has_learnt or not self._is_learnt(block_number, h)

    def find_in(self, block: Block, block_number: i64, key: bytes, h: i64) -> i64:
        """Position of the newest version of ``key``, or -1; counted."""
        position = block.find(key, h)
        filters = self._filters
        if filters is None:
            filters = self._load_filters()
        if filters.lack_some and not filters.asks_for(block_number):
            self.asks.searched_unfiltered(position >= 0)
        elif position >= 0:
            self._stats.filter_true_positives += 1
        else:
            self.asks.passed()
        return position

    def _is_learnt(self, block_number: i64, h: i64) -> bool:
        """Whether a key that passed its filter is listed; counted."""
        if not self.filters.learnt.has(block_number, h):
            return False
        self.asks.denied()
        return True

    # Blocks

    def block(self, block_number: i64, fill_cache: bool) -> Block:
        """A block from the cache, or from disk; ``fill_cache`` keeps the latter."""
        index = self._index
        if index is None:
            index = self._load_index()
        blocks = self._sections.blocks
        cached = self._cache.get(blocks, block_number)
        if cached is not None:
            assert isinstance(cached, Block)
            return cached
        offset = index.offset(block_number)
        length = index.offset(block_number + 1) - offset
        data = self._file.pread(offset, length, ReadKind.DATA)
        self._around.note(offset)
        block = self.decode(data, 0, length, offset, block_number)
        self._file.keep(offset, data)
        if fill_cache:
            self._cache.put(blocks, block_number, block)
        return block

    def read_frames(self, first: i64, end: i64, kind: ReadKind) -> bytes:
        """Blocks ``first`` to ``end`` (not included) as stored, with one read."""
        offset = self.index.offset(first)
        return self._file.pread(offset, self.index.offset(end) - offset, kind, end - first)

    def decode(self, data: bytes, start: i64, stop: i64, offset: int, block_number: i64) -> Block:
        """The block ``data[start:stop]``, which stands at ``offset`` of the file, checked."""
        index = self.index
        raw, raw_length, entry_count, codec = stored_payload(
            data, start, stop, self.path, self._seal, offset
        )
        if raw_length > MAX_BLOCK_BYTES:
            raise CorruptionError(self.path, offset, f"block states {raw_length} bytes")
        if codec != CODEC_NONE or len(raw) != raw_length:
            raw = self._decompressor.decompress_block(codec, raw, raw_length, self.path, offset)
        fail = self._failure_at(offset)
        block = Block(raw, fail, codec == CODEC_ZSTD)
        indexed_count = index.entry_count(block_number)
        if not block.count == entry_count == indexed_count:
            fail(f"block of {block.count} entries where the index has {indexed_count}")
        return block  # merging and verifying check that its keys lie between its separators

    def block_range(self, start: bytes | None, stop: bytes | None) -> tuple[i64, i64]:
        """The blocks that may have keys between two bounds: first and end.  O(log blocks)."""
        index = self.index
        first: i64 = 0  # (in compiled code a conditional expression would make an object of it)
        if start is not None and start > self.smallest:
            first = index.find_first(start) if self.has_versions else index.find(start)
        end = index.block_count
        if stop is not None and stop <= self.largest:
            end = index.find_first(stop) + 1  # a block whose separator is the stop lies above
        return first, end

    def block_length(self, block_number: i64) -> int:
        return self.index.offset(block_number + 1) - self.index.offset(block_number)

    def is_cached(self, block_number: int) -> bool:
        return self._sections.index is not None and self._sections.blocks.holds(block_number)

    def prefetch(self, block_number: i64) -> None:
        """Fetch a cached block's keys into the processor's cache."""
        blocks = self._sections.blocks
        if blocks.holds(block_number):
            cached = blocks.items[block_number]
            assert isinstance(cached, Block)
            cached.prefetch_keys()

    def may_hold_between(self, block_number: i64, start: bytes, stop: bytes) -> bool:
        """Whether a block may hold a key from ``start`` to below ``stop``."""
        if self.filters.may_hold_between(block_number, start, stop):
            return True
        self._stats.range_filter_negatives += 1
        return False

    def count_prefix_skips(self, count: int) -> None:
        self._stats.prefix_filter_skips += count

    # Verification

    def read_past_cache(self, block_number: i64) -> tuple[Block, BlockTrailer]:
        """A block and its trailer, read from disk and checked."""
        frame = self.read_frames(block_number, block_number + 1, ReadKind.COMPACTION)
        trailer = self.checked_frame(frame, block_number)[2]
        offset = self.index.offset(block_number)
        return self.decode(frame, 0, len(frame), offset, block_number), trailer

    def checked_frame(self, frame: bytes, block_number: i64) -> tuple[bytes, bytes, BlockTrailer]:
        """Stored payload, filter and trailer of a block, checked against the index."""
        offset = self.index.offset(block_number)
        stored, bits, trailer = decode_block_frame(frame, self.path, self._seal, offset)
        fail = self._failure_at(offset)
        check_trailer(trailer, block_number, self.index, self.filter_policy, fail)
        return stored, bits, trailer

    def verify_block(
        self, block_number: int, *, compare_filters: bool = True
    ) -> tuple[Block, bytes]:
        """Read a block past the cache, and check every byte.

        Returns its trailer as stored, too.  Raises CorruptionError.  ``compare_filters``: its filter
        must equal the copy in the filter section.
        """
        frame = self.read_frames(block_number, block_number + 1, ReadKind.COMPACTION)
        offset = self.index.offset(block_number)
        trailer = decode_block_frame(frame, self.path, self._seal, offset)[2]
        block = self.decode(frame, 0, len(frame), offset, block_number)
        fail = self._failure_at(offset)
        check_block(block, frame, trailer, block_number, self.filters, compare_filters, fail)
        return block, frame[len(frame) - TRAILER_BYTES :]

    def verify_sections(self) -> None:
        if self.footer.filters_length:
            self.filters.section.read_all()

    def _failure_at(self, offset: int) -> Callable[[str], NoReturn]:
        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        return fail


def open_table(
    storage: Storage,
    directory: str,
    cache: BlockCache,
    meta: TableMeta,
    filter_residency: str = "off",
    read_around: bool = False,
    adaptive_filters: bool = False,
    eviction: Eviction | None = None,
) -> TableReader:
    """Open a table that the manifest names; a missing file is a CorruptionError."""
    path = table_path(directory, meta.number)
    try:
        return TableReader(
            storage,
            path,
            cache,
            meta,
            filter_residency,
            read_around,
            adaptive_filters,
            eviction,
            shared=True,
        )
    except FileNotFoundError as error:
        reason = "a table that the manifest names is missing"
        raise caused(CorruptionError(path, None, reason), error)


def _read_dictionary(file: RandomFile, footer: Footer) -> bytes:
    if not footer.dictionary_length:
        return b""
    data = file.pread(footer.data_length, footer.dictionary_length, ReadKind.INDEX)
    expected, got = footer.dictionary_checksum, checksum(data, 0)
    if got != expected:
        reason = "checksum of a table's dictionary fails"
        raise CorruptionError(file.path, footer.data_length, reason, expected=expected, got=got)
    return data
