"""The rows of ``memory``: one for each store, memory, workload and repetition."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.records import Observation, column, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """The lookups of one workload in one store, with the cache in its steady state."""

    part: str = column("split, residency, preset or direct", "setting")
    filters: str = column("kind of filter, or none; rocksdb: Bloom's, in RocksDB", "setting")
    error_rate: float = column(
        "false-positive rate asked for of Bloom filters; ribbon filters have the bytes of these",
        "setting",
    )
    granularity: str = column("one filter per block, or per table", "setting")
    residency: str = column(
        "filter_residency; `equal`: resident filters, whose bytes the cache does not get", "setting"
    )
    run_count: int = column("overlapping sorted runs", "setting")
    block_size_bytes: int = column("size at which a data block is closed", "setting")
    budget_share: float | None = optional(
        "filters, index and caches by all entries' bytes", "setting"
    )
    row_cache_share: float | None = optional("RocksDB's row cache by all its caches", "setting")
    law: str = column("popularity of keys: uniform, zipf or hot", "setting")
    present_share: float = column("lookups of present keys, by all", "setting")
    key_count: int = column("entries", "setting")
    lookup_count: int = column("lookups counted, after those that warm the caches", "setting")

    independent_lookups: float | None = optional(
        "as many lookups of different keys tell as much, as keys are repeated (Kish)"
    )
    data_bytes: int = column("bytes of keys and values, and 7 for each entry")
    error_rate_exact: float | None = optional("theory for the filters as built, weighted by keys")
    filter_bytes: int = column("bytes of all filters, one copy")
    chunk_bytes: int | None = optional("the largest chunk in which cached filters are read")
    index_memory_bytes: int | None = optional("memory of the indexes; of RocksDB of filters, too")
    memory_bytes: int = column("budget: resident filters, indexes and caches")
    cache_bytes: int | None = optional("block and entry cache; None: the rest exceeds the budget")
    found_count: int | None = optional("lookups that found their key")
    present_count: int | None = optional("lookups of present keys")
    block_reads: int | None = optional("data blocks read")
    absent_block_reads: int | None = optional("of these for absent keys, all wasted")
    block_read_bytes: int | None = optional("their bytes")
    block_page_bytes: int | None = optional("bytes of the 4 KiB pages that they touch")
    filter_reads: int | None = optional("reads of filters")
    filter_read_bytes: int | None = optional("their bytes")
    filter_page_bytes: int | None = optional("bytes of the 4 KiB pages that they touch")
    evictions: int | None = optional("items that the cache dropped meanwhile")

    @property
    def is_possible(self) -> bool:
        return self.cache_bytes is not None

    @property
    def reads(self) -> int:
        return (self.block_reads or 0) + (self.filter_reads or 0)

    @property
    def reads_per_lookup(self) -> float:
        return self.reads / self.lookup_count

    @property
    def page_bytes_per_lookup(self) -> float:
        """What a device reads."""
        return ((self.block_page_bytes or 0) + (self.filter_page_bytes or 0)) / self.lookup_count

    @property
    def bytes_per_lookup(self) -> float:
        """What the store asks for."""
        return ((self.block_read_bytes or 0) + (self.filter_read_bytes or 0)) / self.lookup_count
