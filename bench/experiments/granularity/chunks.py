"""Bloom filters of consecutive keys beside a store without filters, and lookups that ask them.

HBase and RocksDB can split the filter of a table into filters of consecutive keys, each loaded by
itself.  lsmkv cannot, so the experiment adds such filters.  A lookup takes these steps in each table:

1. a binary search of the filters' first keys for the one that covers the key;
2. that filter, from memory, from the block cache or from the file of filters;
3. if it says maybe, the table's own lookup: index, block.

Hashes, filter bits, tables and block cache are lsmkv's own, and so are the counters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lsmkv.encoding.entries import MAX_SEQUENCE, Absent
from lsmkv.encoding.expiry import Clock, Held, Moment
from lsmkv.filters.bloom import may_contain
from lsmkv.filters.hashing import digests, hash_key
from lsmkv.filters.policy import BLOOM
from lsmkv.inspection.store_info import StoreInfo
from lsmkv.sstable.block_cache import BlockCache, TableCacheSlots
from lsmkv.sstable.filter_section import FilterChunk
from lsmkv.sstable.reader import TableReader
from lsmkv.stats import Stats
from lsmkv.storage.storage import ReadKind, Storage

from ...harness.table_readers import keys_of, open_tables
from .contenders import keys_within

_OFFSET_BYTES: Final = 8
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Chunk:
    """One filter: the keys that it covers begin at ``first_key``; no bytes, no filter."""

    first_key: bytes
    key_count: int
    offset: int
    length: int
    probe_count: int

    @property
    def exact_rate(self) -> float:
        """The exact false-positive rate."""
        if not self.length:
            return 1.0
        return BLOOM.exact_rate(self.length, self.key_count, self.probe_count)

    @property
    def index_bytes(self) -> int:
        """Its entry in an index of chunks: first key, offset and length."""
        return len(self.first_key) + _OFFSET_BYTES + _LENGTH_BYTES


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A file of filters: the chunks of each table, newest data first."""

    path: str
    tables: Sequence[Sequence[Chunk]]

    def chunks(self) -> Iterator[Chunk]:
        for chunks in self.tables:
            yield from chunks

    @property
    def filter_bytes(self) -> int:
        return sum(chunk.length for chunk in self.chunks())

    @property
    def index_bytes(self) -> int:
        """Indexes of chunks in memory; a table with one chunk needs none."""
        return sum(
            chunk.index_bytes for chunks in self.tables if len(chunks) > 1 for chunk in chunks
        )


def write_chunks(
    store_path: str, info: StoreInfo, rates: Sequence[float], chunk_bytes: int, path: str
) -> ChunkFile:
    """Write Bloom filters of at most ``chunk_bytes`` for every table, as full as can be, at ``rates``."""
    found = []
    offset = 0
    with open(path, "wb") as file:
        for table, rate in zip(open_tables(store_path, info, "off"), rates, strict=True):
            keys, covered, chunks = keys_of(table), keys_within(chunk_bytes, rate), []
            for start in range(0, len(keys), covered):
                part = keys[start : start + covered]
                bits, probes = BLOOM.build_from_digests(digests(part), rate)
                file.write(bits)
                chunks.append(Chunk(part[0], len(part), offset, len(bits), probes))
                offset += len(bits)
            found.append(chunks)
    return ChunkFile(path, found)


class ChunkedStore:
    """Lookups in a store without filters that ask a file of filters first.

    Args:
        cache_bytes: the block cache for filters and data blocks; None: all filters are in memory,
            and no data block is cached.

    ``chunk_searches`` counts searches of the filters' first keys, in tables that have several.
    """

    def __init__(
        self, path: str, info: StoreInfo, filters: ChunkFile, cache_bytes: int | None = None
    ) -> None:
        self._stats = Stats()
        storage = Storage(self._stats)
        self._cache = BlockCache(cache_bytes or 0, self._stats)
        self._readers = open_tables(path, info, "off", storage, self._cache)
        self._file = storage.open_random(filters.path)
        self._tables = filters.tables
        self._firsts = [[chunk.first_key for chunk in chunks] for chunks in filters.tables]
        self._slots = [self._cache.slots(len(chunks)) for chunks in filters.tables]
        self._resident: bytes | None = None
        if cache_bytes is None:
            with open(filters.path, "rb") as file:
                self._resident = file.read()
        for reader in self._readers:
            reader.load()
        self.chunk_searches = 0

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; None if there is none."""
        stats = self._stats
        stats.gets += 1
        h = hash_key(key)
        for number, table in enumerate(self._readers):
            if not table.smallest <= key <= table.largest:
                stats.range_negatives += 1
                continue
            chunk = self._chunk_for(number, key)
            if not self._may_hold(number, chunk, h):
                stats.filter_negatives += 1
                continue
            found = self._search(table, self._tables[number][chunk], key, h)
            if not isinstance(found, Absent):
                stats.get_hits += 1
                return Moment(Clock()).value_of(found)
        return None

    def stats(self) -> Stats:
        """The counters so far."""
        return self._stats.copy()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> ChunkedStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _chunk_for(self, number: int, key: bytes) -> int:
        """The chunk that covers ``key``, which the table's key range holds."""
        firsts = self._firsts[number]
        if len(firsts) == 1:
            return 0
        self.chunk_searches += 1
        return bisect_right(firsts, key) - 1

    def _may_hold(self, number: int, at: int, h: int) -> bool:
        chunk = self._tables[number][at]
        if not chunk.length:
            return True
        if self._resident is not None:
            return may_contain(self._resident, chunk.offset, chunk.length, chunk.probe_count, h)
        bits = self._load(self._slots[number], at, chunk)
        return may_contain(bits, 0, chunk.length, chunk.probe_count, h)

    def _load(self, slots: TableCacheSlots, at: int, chunk: Chunk) -> bytes:
        cached = self._cache.get(slots, at)
        if cached is not None:
            assert isinstance(cached, FilterChunk)
            return cached.bits
        bits = self._file.pread(chunk.offset, chunk.length, ReadKind.FILTER)
        self._cache.put(slots, at, FilterChunk(bits, 0))
        return bits

    def _search(self, table: TableReader, chunk: Chunk, key: bytes, h: int) -> Held | Absent:
        """The table's own lookup, counted as one after a filter's maybe."""
        stats = self._stats
        unfiltered = stats.unfiltered_probes
        found = table.get(key, h, MAX_SEQUENCE)
        if chunk.length:
            stats.unfiltered_probes = unfiltered
            if isinstance(found, Absent):
                stats.filter_false_positives += 1
            else:
                stats.filter_true_positives += 1
        return found
