"""Where the bits of a table's filters come from: its filter section, or its blocks.

The section is resident, or read in chunks that the block cache keeps.  Where it is damaged, the copies in
the blocks replace it.  Where these are damaged too, or a table has only one filter, bits are lost.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, note_lost_filters, note_rebuilt_filters
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.block_cache import BlockCache, CacheItem, TableCacheSlots
from lsmkv.sstable.format import Footer
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


class FilterSection:
    """A table's filter section, read by any number of threads."""

    def __init__(
        self,
        file: RandomFile,
        footer: Footer,
        index: TableIndex,
        cache: BlockCache,
        stats: Stats,
        *,
        is_whole: bool,
        is_resident: bool,
    ) -> None:
        """``is_whole``: it is one filter, of the table."""
        self._file = file
        self._footer = footer
        self._index = index
        self._cache = cache
        self._stats = stats
        self._is_whole = is_whole
        self.was_damaged = False  # whether a chunk was damaged when it was read
        self._kept: dict[int, FilterChunk] = {}  # chunks kept for good, above all damaged ones
        self._unreported: list[tuple[int, bool]] = []  # damage not yet logged: offset, whether lost
        self._chunks: TableCacheSlots = cache.slots(index.chunk_count)
        # All of it; None if it is read in chunks.
        self.resident: bytes | None = self._read_resident() if is_resident else None

    def chunk_with(self, block_number: i64) -> FilterChunk:
        """The chunk that holds a block's filter, or the table's one."""
        return self._chunk(self._index.chunk_of(block_number))

    def read_all(self) -> bytes:
        """The filter section, read from disk; CorruptionError if it is damaged."""
        bits = self._read_section()
        for chunk in range(self._index.chunk_count):
            error = self._damage(bits, 0, chunk)
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # or its traceback would keep it, and this table, alive
        return bits

    def read_block_bits(self, block_number: i64, length: i64) -> bytes:
        offset = self._footer.filters_offset + self._index.filter_start(block_number)
        return self._file.pread(offset, length, ReadKind.FILTER)

    def clear_cache(self) -> None:
        self._cache.clear(self._chunks)

    @property
    def memory_bytes(self) -> int:
        kept = sum([chunk.charge_bytes for chunk in self._kept.copy().values()])
        resident = self.resident
        return kept + (0 if resident is None else len(resident))

    def bytes_to_read(self, block_number: i64) -> int:
        chunk = 0 if self._is_whole else self._index.chunk_of(block_number)
        if self.resident is not None or self._chunks.holds(chunk) or chunk in self._kept:
            return 0
        low, high = self._span(chunk)
        return high - low

    def _read_section(self) -> bytes:
        footer = self._footer
        return self._file.pread(footer.filters_offset, footer.filters_length, ReadKind.FILTER)

    def _read_resident(self) -> bytes | None:
        """The filters in one piece; None if some are lost, and the others are kept in chunks."""
        bits = self._read_section()
        recovered: dict[int, FilterChunk] = {}
        for number in range(self._index.chunk_count):
            error = self._damage(bits, 0, number)
            if error is not None:
                recovered[number] = self._recovered(number)
                self._note_damage(recovered[number], error)
        if not recovered:
            return bits
        for number in range(self._index.chunk_count):
            if number not in recovered:
                low, high = self._span(number)
                recovered[number] = FilterChunk(bits[low:high], low)
        parts = [recovered[number].bits for number in range(self._index.chunk_count)]
        if b"" not in parts:
            return b"".join(parts)
        self._kept = recovered
        return None

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
        if self._is_whole:
            return 0, self._footer.filters_length
        return self._index.chunk_span(chunk)

    def _damage(self, bits: bytes, start: i64, chunk: i64) -> CorruptionError | None:
        """The error for a damaged chunk; ``bits`` are the section's from ``start`` on."""
        low, high = self._span(chunk)
        first, end = low - start, high - start
        expected, got = self._index.chunk_checksum(chunk), checksum(bits[first:end], 0)
        if got == expected:
            return None
        reason = "checksum of a table's filter chunk fails"
        offset = self._footer.filters_offset + low
        return CorruptionError(self._file.path, offset, reason, expected=expected, got=got)

    # Damaged chunks: recovered from the blocks, or lost

    def _recovered_once(self, chunk: i64, error: CorruptionError) -> FilterChunk:
        """A damaged chunk, recovered and kept for good: of several threads, the first one's."""
        recovered = self._recovered(chunk)
        kept = self._kept.setdefault(chunk, recovered)
        if kept is recovered:
            self._note_damage(recovered, error)
            self.report_damage()
        return kept

    def _recovered(self, chunk: i64) -> FilterChunk:
        """A damaged chunk as its blocks have it, or without bits."""
        return FilterChunk(self._embedded_copies(chunk), self._span(chunk)[0])

    def _note_damage(self, recovered: FilterChunk, error: CorruptionError) -> None:
        assert error.offset is not None
        self.was_damaged = True
        self._unreported.append((error.offset, not recovered.bits))

    def _embedded_copies(self, chunk: i64) -> bytes:
        """A chunk's filters as its blocks hold them; empty if these are damaged or there are none.

        The index's checksum of the chunk covers them, so no block trailer is read.
        """
        if self._is_whole:
            return b""
        index = self._index
        parts: list[bytes] = []
        for block_number in range(index.chunk_start(chunk), index.chunk_start(chunk + 1)):
            length = index.filter_place(block_number)[1]
            end: i64 = index.offset(block_number + 1)
            offset = end - TRAILER_BYTES - length
            if offset < index.offset(block_number):
                return b""
            parts.append(self._file.pread(offset, length, ReadKind.FILTER))
        bits = b"".join(parts)
        return bits if checksum(bits, 0) == index.chunk_checksum(chunk) else b""

    def report_damage(self) -> None:
        """Count and log new damage, without a lock: a logging handler may use the store."""
        found, self._unreported = self._unreported, []
        rebuilt = [offset for offset, is_lost in found if not is_lost]
        lost = [offset for offset, is_lost in found if is_lost]
        if rebuilt:
            self._stats.filter_rebuilds += len(rebuilt)
            note_rebuilt_filters(self._file.path, min(rebuilt), len(rebuilt))
        if lost:
            self._stats.filter_losses += len(lost)
            note_lost_filters(self._file.path, min(lost), len(lost))
