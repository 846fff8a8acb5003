"""The rows of ``granularity``: one for each tree and use of filter memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...harness.records import Observation, column, optional


def _of_rocksdb(meaning: str) -> Any:
    return optional(
        f"RocksDB's own count in tables of the same keys, filters cached: {meaning}; its cache is "
        "divided by a random hash, so the last digits may differ",
        "time",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One tree with one use of filter memory."""

    style: str = column("compaction style", "setting")
    granularity: str = column(
        "what one filter covers: a block, a table, or so many keys of one that the filter has "
        "4 KiB (partition) or 128 KiB (chunk)",
        "setting",
    )
    policy: str = column("kind of filter; none: the same tree without filters", "setting")
    allocation: str = column("uniform rates, or Monkey's", "setting")
    budget_bits_per_key: float | None = column(
        "filter memory asked for; empty where the kind of filter decides it", "setting"
    )
    error_rate: float = column("option error_rate that comes nearest to the budget", "setting")
    entries: int = column("entries in the tree, all keys distinct", "setting")
    shape: str = column("level:entries of each run, newest first; a run is one table", "setting")
    absent_lookups: int = column("lookups of absent keys that were counted", "setting")
    present_lookups: int = column("lookups of present keys that were counted", "setting")
    cached_lookups: int = column("lookups counted for each order with cached filters", "setting")
    cached_share: float = column("block cache by filter bytes, with cached filters", "setting")

    runs: int = column("runs that a lookup of an absent key must rule out")
    run_entries: tuple[int, ...] = column("entries of each run, newest first")
    block_keys: int = column("keys of a full block")
    filter_bytes: int = column("filters held in memory")
    filter_bytes_per_key: float = column("the same by entries")
    filter_bits_per_key: float = column("the same in bits: what was really used of the budget")
    same_rate_uniform_bits_per_key: float | None = column(
        "filter bits per key that uniform rates would take at this error_rate"
    )
    filter_disk_bytes: int = column("filters in files: with those per block a copy in each block")
    filter_disk_bytes_per_key: float = column("the same by entries")
    largest_filter_read_bytes: int = column(
        "most that asking one filter reads when it is not in memory: a chunk, or a table's filter"
    )
    chunk_index_bytes: int = column(
        "indexes of partitions or chunks in memory: first key, offset and length of each"
    )
    index_bytes: int = column("indexes of blocks held in memory")
    store_bytes: int = column("all table files")

    absent_block_reads_per_lookup: float = column("data blocks read for an absent key, no cache")
    absent_block_reads_expected: float = column("the same by exact rates, for these keys")
    absent_read_bytes_per_lookup: float = column("bytes of data blocks read for an absent key")
    absent_filter_probes_per_lookup: float = column("filters asked for an absent key")
    absent_index_searches_per_lookup: float = column("searches of an index of blocks, absent")
    absent_chunk_searches_per_lookup: float = column(
        "searches of an index of partitions or chunks for an absent key"
    )
    false_positives: int = column("filters that let an absent key pass")
    filter_probes: int = column("filters asked in all lookups of absent keys")
    false_positive_rate: float = column("measured: false positives by filters asked")
    false_positive_rate_low: float = column("its 95 % interval, Clopper and Pearson's")
    false_positive_rate_high: float = column("upper end of the interval")
    false_positive_rate_exact: float = column("what the exact rates of the built filters give")
    present_block_reads_per_lookup: float = column("data blocks read for a present key, no cache")
    present_read_bytes_per_lookup: float = column("bytes of data blocks read for a present key")
    present_filter_probes_per_lookup: float = column("filters asked for a present key")
    present_index_searches_per_lookup: float = column("index searches for a present key")
    wrong_answers: int = column("present keys not found and absent keys found; always 0")
    miscounted: int = column("counters of index searches that key ranges contradict; always 0")

    cached_uniform_filter_reads_per_lookup: float = column(
        "cached filters, random absent keys: filter reads"
    )
    cached_uniform_filter_read_bytes_per_lookup: float = column("the bytes of those reads")
    cached_uniform_block_read_bytes_per_lookup: float = column("bytes of data blocks read then")
    cached_hot_filter_reads_per_lookup: float = column(
        "cached filters, 9 of 10 absent keys from a scattered hundredth: filter reads"
    )
    cached_hot_filter_read_bytes_per_lookup: float = column("the bytes of those reads")
    cached_hot_block_read_bytes_per_lookup: float = column("bytes of data blocks read then")
    cached_near_filter_reads_per_lookup: float = column(
        "cached filters, stretches of 64 neighbouring absent keys: filter reads"
    )
    cached_near_filter_read_bytes_per_lookup: float = column("the bytes of those reads")
    cached_near_block_read_bytes_per_lookup: float = column("bytes of data blocks read then")

    rocksdb_filter_bits_per_key: float | None = _of_rocksdb(
        "filter bits per key, with the index of partitions"
    )
    rocksdb_uniform_filter_reads_per_lookup: float | None = _of_rocksdb("filter reads, random keys")
    rocksdb_uniform_filter_read_bytes_per_lookup: float | None = _of_rocksdb(
        "the bytes of those reads"
    )
    rocksdb_hot_filter_reads_per_lookup: float | None = _of_rocksdb(
        "filter reads, 9 of 10 absent keys from a scattered hundredth"
    )
    rocksdb_hot_filter_read_bytes_per_lookup: float | None = _of_rocksdb("the bytes of those reads")
    rocksdb_near_filter_reads_per_lookup: float | None = _of_rocksdb(
        "filter reads, stretches of 64 neighbouring absent keys"
    )
    rocksdb_near_filter_read_bytes_per_lookup: float | None = _of_rocksdb(
        "the bytes of those reads"
    )

    load_s: float = column("loading the tree, s", "time")

    @property
    def absent_block_reads(self) -> int:
        return round(self.absent_block_reads_per_lookup * self.absent_lookups)
