"""The filters of one open table: in memory, read when asked, or left alone."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from mypy_extensions import i64

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError, caused, note_rebuilt_filters
from lsmkv.filters import bloom
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import FilterKey, filter_key_from_spec
from lsmkv.filters.policy import BLOOM, FilterPolicy, policy_for
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.block_cache import BlockCache, CacheItem, TableCacheSlots
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import TableIndex
from lsmkv.stats import Stats
from lsmkv.storage.storage import RandomFile, ReadKind

_RESIDENT: Final = "resident"
_OFF: Final = "off"


class FilterChunk(CacheItem):
    """Filters of consecutive blocks, held in the block cache with ``filter_residency="cached"``."""

    def __init__(self, bits: bytes, start: i64) -> None:
        super().__init__(len(bits) + 64)
        self.bits = bits
        self.start = start


class FilterKind(NamedTuple):
    """What a table's filters hold of a key, and how."""

    key: FilterKey
    policy: FilterPolicy


def filter_kind(properties: TableProperties, path: str, footer: Footer) -> FilterKind:
    """The kind that the properties of a table name.

    Raises:
        CorruptionError: which part of a key they hold is not to be understood.
        UnsupportedFormatError: they are of a kind that is not known here.
    """
    try:
        key = filter_key_from_spec(properties.filter_key)
    except ValueError as error:
        raise caused(CorruptionError(path, footer.properties_offset, str(error)), error)
    try:
        policy = policy_for(properties.filter_scheme, properties.filter_policy)
    except ValueError as error:
        raise caused(UnsupportedFormatError(path, str(error)), error)
    return FilterKind(key, policy)


class TableFilters:
    """What a table's filters say of a key.  Any number of threads may ask.

    Filters of blocks stand twice in the file.  Where the copy in the filter section is damaged, the
    one in the blocks is read instead, once; then ``take_notice`` has something to tell.

    Attributes:
        index: the table's.
        filter_key: which part of a key they hold.
        policy: what kind of filter they are.
        per_block: whether there is one for each block, to be asked.
        per_table: whether there is one for the whole table, to be asked.

    Raises:
        CorruptionError: some have a size or a parameter that their policy cannot have; or they are
            resident, and both copies are damaged, or the only one.
        OSError: they are resident, and cannot be read.
    """

    def __init__(
        self,
        file: RandomFile,
        path: str,
        footer: Footer,
        properties: TableProperties,
        kind: FilterKind,
        index: TableIndex,
        cache: BlockCache,
        residency: str,
        stats: Stats,
    ) -> None:
        self._stats = stats
        self._file = file
        self._path = path
        self._footer = footer
        self.index = index
        self._cache = cache
        self.filter_key = kind.key
        self.policy: FilterPolicy = kind.policy
        self._is_bloom: bool = self.policy is BLOOM
        self._whole_keys: bool = self.filter_key.is_whole
        self._one_for_all: bool = properties.granularity == "table"
        self._table_probe_count: i64 = properties.probe_count
        asked = footer.filters_length > 0 and residency != _OFF
        self.per_table: bool = asked and self._one_for_all
        self.per_block: bool = asked and not self._one_for_all
        self._check_shapes(properties)
        self._rebuilding = threading.RLock()
        self._rebuilt: dict[int, FilterChunk] = {}  # chunks that were damaged, kept for good
        self._untold: list[int] = []  # where in the file damage was found that nobody knows of
        self._chunks: TableCacheSlots = cache.shelf(index.chunk_count)
        self._resident: bytes | None = None
        if asked and residency == _RESIDENT:
            self._resident = self._read_resident()

    def _check_shapes(self, properties: TableProperties) -> None:
        """Check that each filter has a size and a parameter that its policy can have."""
        footer, policy = self._footer, self.policy
        if footer.filters_length == 0:
            return
        place = footer.properties_offset
        shapes = [footer.filters_length << 8 | properties.probe_count]
        if not self._one_for_all:
            place = footer.index_offset
            shapes = sorted(self.index.filter_shapes())
        for shape in shapes:
            length, parameter = shape >> 8, shape & 0xFF
            if length and not policy.is_possible(length, parameter):
                reason = (
                    f"no filter of policy {policy.name!r} has {length} bytes "
                    f"and the parameter {parameter}"
                )
                raise CorruptionError(self._path, place, reason)

    @property
    def exist(self) -> bool:
        """Whether there are filters to ask."""
        return self.per_table or self.per_block

    # Asking for a key

    def block_for(self, key: bytes, h: i64) -> i64:
        """Number of the block that may hold ``key``, whose hash is ``h``; -1: there is none.

        It is :meth:`block_near` and :meth:`may_be_in`, without what handing on between them takes.
        """
        if self.per_table and not self.table_may_hold(self.hash_of(key, h)):
            self._stats.filter_negatives += 1
            return -1
        number = self.index.find(key)
        if number < 0:
            self._stats.fence_negatives += 1
            if self.per_table:
                self._stats.filter_false_positives += 1
            return -1
        if self.per_block and not self.block_may_hold(number, self.hash_of(key, h)):
            self._stats.filter_negatives += 1
            return -1
        return number

    def block_near(self, key: bytes, h: i64, group: i64) -> i64:
        """Number of the block that spans ``key``; -1: none does, or the table's filter says no.

        ``group`` is the index's for ``key``.
        """
        if self.per_table and not self.table_may_hold(self.hash_of(key, h)):
            self._stats.filter_negatives += 1
            return -1
        number = self.index.find_in(key, group)
        if number < 0:
            self._stats.fence_negatives += 1
            if self.per_table:
                self._stats.filter_false_positives += 1
        return number

    def may_be_in(self, number: i64, key: bytes, h: i64) -> bool:
        """Whether the filter of block ``number``, if it has one, leaves it open that it holds ``key``."""
        if self.per_block and not self.block_may_hold(number, self.hash_of(key, h)):
            self._stats.filter_negatives += 1
            return False
        return True

    def prefetch(self, number: i64) -> i64:
        """Have the processor fetch the filter of block ``number``, if it is in memory."""
        index, bits = self.index, self._resident
        start, end = index.filter_start(number), index.filter_start(number + 1)
        fetched = index.probe_count(number)
        if bits is not None and start < end:
            fetched += bits[start] + bits[end - 1]
        return fetched

    # Asking for a hash

    def hash_of(self, key: bytes, h: i64) -> i64:
        """The hash that the filters hold for ``key``, whose own hash is ``h``."""
        return h if self._whole_keys else hash_key(self.filter_key.part(key))

    def table_may_hold(self, filter_hash: i64) -> bool:
        """What the table's one filter says of ``filter_hash``; it must have one."""
        return self._ask(0, 0, self._footer.filters_length, self._table_probe_count, filter_hash)

    def block_may_hold(self, block: i64, filter_hash: i64) -> bool:
        """What the filter of ``block`` says of ``filter_hash``; True when that block has none."""
        index = self.index
        start = index.filter_start(block)
        length = index.filter_start(block + 1) - start
        probes = index.probe_count(block)
        bits = self._resident
        if self._is_bloom and bits is not None:  # the usual, without a detour
            return bloom.may_contain(bits, start, length, probes, filter_hash)
        return self._ask(block, start, length, probes, filter_hash)

    def may_hold(self, block: i64, filter_hash: i64) -> bool:
        """Whether whatever filters there are leave it open that ``filter_hash`` is in ``block``."""
        if self.per_table:
            return self.table_may_hold(filter_hash)
        return not self.per_block or self.block_may_hold(block, filter_hash)

    def _ask(self, block: i64, start: i64, length: i64, probes: i64, filter_hash: i64) -> bool:
        bits = self._resident
        if bits is None:
            if length == 0:
                return True
            chunk = self._chunk(self.index.chunk_of(block))
            bits = chunk.bits
            start -= chunk.start
        if self._is_bloom:  # the usual one, without the detour that takes any policy
            return bloom.may_contain(bits, start, length, probes, filter_hash)
        return self.policy.may_contain(bits, start, length, probes, filter_hash)

    # Bits

    def read_all(self) -> bytes:
        """The filter section, from disk, checked: no other copy will do.

        Raises:
            CorruptionError: it is damaged.
        """
        bits = self._read_section()
        for chunk in range(self.index.chunk_count):
            error = self._problem(bits, 0, chunk)
            if error is not None:
                raise error
        return bits

    def read_block_bits(self, block: i64, length: i64) -> bytes:
        """``length`` bytes of the filter section, from where the filter of ``block`` starts."""
        at = self._footer.filters_offset + self.index.filter_start(block)
        return self._file.pread(at, length, ReadKind.FILTER)

    def _read_section(self) -> bytes:
        footer = self._footer
        return self._file.pread(footer.filters_offset, footer.filters_length, ReadKind.FILTER)

    def _read_resident(self) -> bytes:
        """The filters, from the section; chunks of it that are damaged, from the blocks."""
        bits = self._read_section()
        rebuilt: dict[int, bytes] = {}
        for chunk in range(self.index.chunk_count):
            error = self._problem(bits, 0, chunk)
            if error is not None:
                rebuilt[chunk] = self._rebuild(chunk, error)
        if not rebuilt:
            return bits
        parts: list[bytes] = []
        for chunk in range(self.index.chunk_count):
            low, high = self._span(chunk)
            parts.append(rebuilt[chunk] if chunk in rebuilt else bits[low:high])
        return b"".join(parts)

    def _chunk(self, chunk: i64) -> FilterChunk:
        if self._rebuilt:
            kept = self._rebuilt.get(chunk)
            if kept is not None:
                return kept
        cached = self._cache.get(self._chunks, chunk)
        if cached is not None:
            assert isinstance(cached, FilterChunk)
            return cached
        low, high = self._span(chunk)
        bits = self._file.pread(self._footer.filters_offset + low, high - low, ReadKind.FILTER)
        error = self._problem(bits, low, chunk)
        if error is not None:
            return self._rebuilt_chunk(chunk, error)
        item = FilterChunk(bits, low)
        self._cache.put(self._chunks, chunk, item)
        return item

    def _span(self, chunk: i64) -> tuple[i64, i64]:
        if self._one_for_all:
            return 0, self._footer.filters_length
        return self.index.chunk_span(chunk)

    def _problem(self, bits: bytes, start: i64, chunk: i64) -> CorruptionError | None:
        """What is wrong with ``chunk`` of the section, of which ``bits`` stand from ``start`` on."""
        low, high = self._span(chunk)
        first, end = low - start, high - start
        expected, got = self.index.chunk_checksum(chunk), checksum(bits[first:end], 0)
        if got == expected:
            return None
        reason = "checksum of a table's filter chunk fails"
        place = self._footer.filters_offset + low
        return CorruptionError(self._path, place, reason, expected=expected, got=got)

    # Bits from the blocks

    def _rebuilt_chunk(self, chunk: i64, error: CorruptionError) -> FilterChunk:
        """``chunk``, which is damaged in the section, from the blocks; read by one thread, once."""
        with self._rebuilding:
            kept = self._rebuilt.get(chunk)
            if kept is None:
                low, _ = self._span(chunk)
                kept = FilterChunk(self._rebuild(chunk, error), low)
                self._rebuilt[chunk] = kept
        self.take_notice()  # without the lock: a handler of log records may use the store
        return kept

    def _rebuild(self, chunk: i64, error: CorruptionError) -> bytes:
        """The filters of ``chunk`` as they stand in its blocks.

        Their checksum is held against the one that the index has of the chunk: no trailer is needed.

        Raises:
            CorruptionError: ``error``, when they are damaged too, or blocks have none.
        """
        if self._one_for_all:
            raise error
        index = self.index
        parts: list[bytes] = []
        for block in range(index.chunk_start(chunk), index.chunk_start(chunk + 1)):
            length = index.filter_start(block + 1) - index.filter_start(block)
            end: i64 = index.offset(block + 1)
            at = end - TRAILER_BYTES - length
            if at < index.offset(block):
                raise error
            parts.append(self._file.pread(at, length, ReadKind.FILTER))
        bits = b"".join(parts)
        if checksum(bits, 0) != index.chunk_checksum(chunk):
            raise error
        self._stats.filter_rebuilds += 1
        assert error.offset is not None
        self._untold.append(error.offset)
        return bits

    def take_notice(self) -> None:
        """Tell of damage that was found since this was called last."""
        if self._untold:
            places, self._untold = self._untold, []
            if places:  # another thread may have been faster
                note_rebuilt_filters(self._path, min(places), len(places))

    def forget(self) -> None:
        """Give back what the cache holds of them; nothing more will be kept there."""
        self._cache.clear(self._chunks)

    # Inspection

    @property
    def memory_bytes(self) -> int:
        """Memory of resident filters, and of those that were rebuilt."""
        rebuilt = sum([chunk.charge_bytes for chunk in self._rebuilt.copy().values()])
        return rebuilt + (len(self._resident) if self._resident is not None else 0)

    def bytes_to_read(self, block: i64) -> int:
        """Bytes that asking the filter of ``block`` would read from disk now.

        0 when it is in memory, or there is none to ask.
        """
        if not self.exist or self._resident is not None:
            return 0
        chunk = 0 if self.per_table else self.index.chunk_of(block)
        if self._chunks.holds(chunk) or chunk in self._rebuilt:
            return 0
        low, high = self._span(chunk)
        return high - low
