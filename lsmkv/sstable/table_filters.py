"""The filters of one open table: resident, cached in chunks, or off.

Lookups read the filter section.  Where it is damaged, the copies in the blocks replace it.  Where these
are damaged too, or a table has only one filter, blocks are searched without one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import i64

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import (
    CorruptionError,
    UnsupportedFormatError,
    caused,
    note_lost_filters,
    note_rebuilt_filters,
)
from lsmkv.filters.keys import FilterKey, filter_key_from_spec
from lsmkv.filters.learning import LearntKeys
from lsmkv.filters.policy import FilterPolicy, policy_for
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.block_cache import BlockCache, CacheItem, TableCacheSlots
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import TableIndex
from lsmkv.stats import Stats
from lsmkv.storage.storage import RandomFile, ReadKind

_CHUNK_OBJECT_BYTES: Final = 64


class FilterChunk(CacheItem):
    """Filters of consecutive blocks, from byte ``start`` of the filter section.

    Lost ones, damaged in each copy, have no bits.
    """

    def __init__(self, bits: bytes, start: i64) -> None:
        super().__init__(len(bits) + _CHUNK_OBJECT_BYTES)
        self.bits = bits
        self.start = start


class FilterKind(NamedTuple):
    key: FilterKey
    policy: FilterPolicy


def filter_kind(properties: TableProperties, path: str, footer: Footer) -> FilterKind:
    """The kind that a table's properties name.

    Raises CorruptionError if the filter key does not parse, UnsupportedFormatError if no policy of that
    scheme and name is registered.
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
    """A table's filters, asked by any number of threads.

    ``exist`` tells whether there are filters to ask: one ``per_block`` or one ``per_table``.
    ``lack_some`` tells whether some blocks are searched without asking one.  ``learnt`` has keys that
    filters let pass, which lookups ask afterwards.  Raises CorruptionError if a filter has a size or
    parameter that its policy cannot have.
    """

    def __init__(
        self,
        file: RandomFile,
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
        self._path = file.path
        self._footer = footer
        self.index = index
        self._cache = cache
        self.filter_key = kind.key
        self.policy: FilterPolicy = kind.policy
        self._are_key_hashes: bool = kind.key.is_whole and not self.policy.has_own_hash
        self._has_table_filter: bool = properties.granularity == "table"
        self._table_probe_count: i64 = properties.probe_count
        self.exist: bool = footer.filters_length > 0 and residency != "off"
        self.per_table: bool = self.exist and self._has_table_filter
        self.per_block: bool = self.exist and not self._has_table_filter
        self.lack_some: bool = not self.exist
        self._check_shapes(properties)
        self.was_damaged = False
        self._kept: dict[int, FilterChunk] = {}  # chunks kept for good, above all damaged ones
        self._unreported_rebuilt: list[int] = []  # offsets of damage not yet logged
        self._unreported_lost: list[int] = []
        self._chunks: TableCacheSlots = cache.slots(index.chunk_count)
        self._resident: bytes | None = None
        if self.exist and residency == "resident":
            self._resident = self._read_resident()
        self.learnt = LearntKeys(index.block_count, properties.entry_count)

    def _check_shapes(self, properties: TableProperties) -> None:
        footer, policy = self._footer, self.policy
        if footer.filters_length == 0:
            return
        shapes = [(footer.index_offset, shape) for shape in sorted(self.index.filter_shapes())]
        if self._has_table_filter:
            table = footer.filters_length << 8 | properties.probe_count
            shapes.append((footer.properties_offset, table))
        for offset, shape in shapes:
            length, parameter = shape >> 8, shape & 0xFF
            if not length and self.per_block:
                self.lack_some = True
            if length and not policy.is_possible(length, parameter):
                reason = (
                    f"no filter of policy {policy.name!r} has {length} bytes "
                    f"and the parameter {parameter}"
                )
                raise CorruptionError(self._path, offset, reason)

    # Asking

    def hash_of(self, key: bytes, h: i64) -> i64:
        """The hash that the filters hold for ``key``, whose own is ``h``."""
        if self._are_key_hashes:
            return h
        return self.policy.hash_key(self.filter_key.part(key))

    def table_may_hold(self, filter_hash: i64) -> bool:
        """The answer of the table's one filter, which it must have."""
        return self._ask(0, 0, self._footer.filters_length, self._table_probe_count, filter_hash)

    def block_may_hold(self, block_number: i64, filter_hash: i64) -> bool:
        """The answer of a block's filter; True if that block has none."""
        index = self.index
        start = index.filter_start(block_number)
        length = index.filter_start(block_number + 1) - start
        probes = index.probe_count(block_number)
        bits = self._resident
        if bits is not None:  # the usual case, without a detour
            return self.policy.may_contain(bits, start, length, probes, filter_hash)
        return self._ask(block_number, start, length, probes, filter_hash)

    def asks_for(self, block_number: i64) -> bool:
        """Whether a lookup in that block asks a filter: a block of one key, for example, has none."""
        if not self.per_block:
            return self.per_table
        index = self.index
        return index.filter_start(block_number) < index.filter_start(block_number + 1)

    def may_hold(self, block_number: i64, filter_hash: i64) -> bool:
        """The answer of the filters of table or block; True without any."""
        if self.per_table:
            return self.table_may_hold(filter_hash)
        if not self.per_block:
            return True
        return self.block_may_hold(block_number, filter_hash)

    def may_hold_between(self, block_number: i64, start: bytes, stop: bytes) -> bool:
        """Whether a block may hold a key from ``start`` to below ``stop``; its policy answers that."""
        index = self.index
        bits = self.bits_of(block_number)
        key_length = index.key_start(2 * block_number + 1) - index.key_start(2 * block_number)
        parameter = index.probe_count(block_number)
        return not bits or self.policy.may_contain_between(bits, parameter, key_length, start, stop)

    def _ask(
        self, block_number: i64, start: i64, length: i64, probes: i64, filter_hash: i64
    ) -> bool:
        bits = self._resident
        if bits is None:
            if length == 0:
                return True
            chunk = self._chunk(self.index.chunk_of(block_number))
            bits = chunk.bits
            if len(bits) == 0:  # lost
                return True
            start -= chunk.start
        return self.policy.may_contain(bits, start, length, probes, filter_hash)

    def bits_of(self, block_number: i64) -> bytes:
        """A block's filter, or the table's, as lookups ask it; empty if it is lost or there is none."""
        if not self.exist:
            return b""
        start: i64 = 0
        end: i64 = self._footer.filters_length
        if self.per_block:
            start = self.index.filter_start(block_number)
            end = self.index.filter_start(block_number + 1)
        bits = self._resident
        if bits is None and start < end:
            chunk = self._chunk(self.index.chunk_of(block_number))
            bits = chunk.bits
            start -= chunk.start
            end -= chunk.start
        return b"" if bits is None else bits[start:end]

    def prefetch(self, block_number: i64) -> i64:
        """Fetch a block's resident filter into the processor's cache."""
        index, bits = self.index, self._resident
        start, end = index.filter_start(block_number), index.filter_start(block_number + 1)
        fetched = index.probe_count(block_number)
        if bits is not None and start < end:
            fetched += bits[start] + bits[end - 1]
        return fetched

    # Reading the filter section

    def read_all(self) -> bytes:
        """The filter section, read from disk; CorruptionError if it is damaged."""
        bits = self._read_section()
        for chunk in range(self.index.chunk_count):
            error = self._damage(bits, 0, chunk)
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # or its traceback would keep it, and this table, alive
        return bits

    def read_block_bits(self, block_number: i64, length: i64) -> bytes:
        offset = self._footer.filters_offset + self.index.filter_start(block_number)
        return self._file.pread(offset, length, ReadKind.FILTER)

    def _read_section(self) -> bytes:
        footer = self._footer
        return self._file.pread(footer.filters_offset, footer.filters_length, ReadKind.FILTER)

    def _read_resident(self) -> bytes | None:
        """The filters in one piece; None if some are lost, and the others are kept in chunks."""
        bits = self._read_section()
        recovered: dict[int, FilterChunk] = {}
        for number in range(self.index.chunk_count):
            error = self._damage(bits, 0, number)
            if error is not None:
                recovered[number] = self._recovered(number, error)
                self._note_damage(recovered[number], error)
        if not recovered:
            return bits
        chunks = [
            recovered[number] if number in recovered else self._part(bits, number)
            for number in range(self.index.chunk_count)
        ]
        parts = [chunk.bits for chunk in chunks]
        if b"" not in parts:
            return b"".join(parts)
        self._kept = dict(enumerate(chunks))
        return None

    def _part(self, bits: bytes, chunk: i64) -> FilterChunk:
        """A chunk of the whole section."""
        low, high = self._span(chunk)
        return FilterChunk(bits[low:high], low)

    def _chunk(self, chunk: i64) -> FilterChunk:
        if self._kept:
            kept = self._kept.get(chunk)
            if kept is not None:
                return kept
        cached = self._cache.get(self._chunks, chunk)
        if cached is not None:
            assert isinstance(cached, FilterChunk)
            return cached
        low, high = self._span(chunk)
        bits = self._file.pread(self._footer.filters_offset + low, high - low, ReadKind.FILTER)
        error = self._damage(bits, low, chunk)
        if error is not None:
            return self._recovered_once(chunk, error)
        self._file.keep(self._footer.filters_offset + low, bits)
        item = FilterChunk(bits, low)
        self._cache.put(self._chunks, chunk, item)
        return item

    def _span(self, chunk: i64) -> tuple[i64, i64]:
        """Start and end of a chunk in the filter section."""
        if self._has_table_filter:
            return 0, self._footer.filters_length
        return self.index.chunk_span(chunk)

    def _damage(self, bits: bytes, start: i64, chunk: i64) -> CorruptionError | None:
        """The error for a damaged chunk; ``bits`` are the section's from ``start`` on."""
        low, high = self._span(chunk)
        first, end = low - start, high - start
        expected, got = self.index.chunk_checksum(chunk), checksum(bits[first:end], 0)
        if got == expected:
            return None
        reason = "checksum of a table's filter chunk fails"
        offset = self._footer.filters_offset + low
        return CorruptionError(self._path, offset, reason, expected=expected, got=got)

    # Damaged chunks: recovered from the blocks, or lost

    def _recovered_once(self, chunk: i64, error: CorruptionError) -> FilterChunk:
        """A damaged chunk, recovered and kept for good.

        Threads that need it at once recover it each; the first one's is kept, and counted.
        """
        recovered = self._recovered(chunk, error)
        kept = self._kept.setdefault(chunk, recovered)
        if kept is recovered:
            self._note_damage(recovered, error)
            self.report_damage()
        return kept

    def _recovered(self, chunk: i64, error: CorruptionError) -> FilterChunk:
        """A damaged chunk as its blocks have it, or without bits."""
        low, _ = self._span(chunk)
        return FilterChunk(self._embedded_copies(chunk), low)

    def _note_damage(self, recovered: FilterChunk, error: CorruptionError) -> None:
        assert error.offset is not None
        self.was_damaged = True
        found = self._unreported_rebuilt if recovered.bits else self._unreported_lost
        found.append(error.offset)

    def _embedded_copies(self, chunk: i64) -> bytes:
        """A chunk's filters as its blocks hold them; empty if these are damaged or there are none.

        The index's checksum of the chunk covers them, so no block trailer is read.
        """
        if self._has_table_filter:
            return b""
        index = self.index
        parts: list[bytes] = []
        for block_number in range(index.chunk_start(chunk), index.chunk_start(chunk + 1)):
            length = index.filter_start(block_number + 1) - index.filter_start(block_number)
            end: i64 = index.offset(block_number + 1)
            offset = end - TRAILER_BYTES - length
            if offset < index.offset(block_number):
                return b""
            parts.append(self._file.pread(offset, length, ReadKind.FILTER))
        bits = b"".join(parts)
        return bits if checksum(bits, 0) == index.chunk_checksum(chunk) else b""

    def report_damage(self) -> None:
        """Count and log the damage found since the last call.

        Called without a lock: a logging handler may use the store.
        """
        if self._unreported_rebuilt:
            offsets, self._unreported_rebuilt = self._unreported_rebuilt, []
            if offsets:  # another thread may have been faster
                self._stats.filter_rebuilds += len(offsets)
                note_rebuilt_filters(self._path, min(offsets), len(offsets))
        if self._unreported_lost:
            offsets, self._unreported_lost = self._unreported_lost, []
            if offsets:
                self._stats.filter_losses += len(offsets)
                note_lost_filters(self._path, min(offsets), len(offsets))

    def clear_cache(self) -> None:
        self._cache.clear(self._chunks)

    # Inspection

    @property
    def memory_bytes(self) -> int:
        kept = sum([chunk.charge_bytes for chunk in self._kept.copy().values()])
        resident = self._resident
        return kept + self.learnt.memory_bytes + (0 if resident is None else len(resident))

    def bytes_to_read(self, block_number: i64) -> int:
        """Bytes that asking a block's filter would read from disk now."""
        if not self.exist or self._resident is not None:
            return 0
        chunk = 0 if self.per_table else self.index.chunk_of(block_number)
        if self._chunks.holds(chunk) or chunk in self._kept:
            return 0
        low, high = self._span(chunk)
        return high - low
