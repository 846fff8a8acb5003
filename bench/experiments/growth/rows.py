"""What is recorded of one size: what each stage of the measurement finds are columns of the row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bench.harness.records import column


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was asked for."""

    entries: int = column("n, entries of the store, each key once", "setting")
    style: str = column("compaction style", "setting")
    scale: int = column("write buffer, tables, level 1: the default sizes by this", "setting")
    lookups: int = column("random look-ups of each kind, at most n", "setting")
    window: int = column("random overwrites of a sustained write", "setting")
    repetition: int = column("from 0; counts are taken once, times each time", "setting")
    seed: int = column("decides keys, values and orders", "setting")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The store after its fill, settled after each write buffer, and what that wrote."""

    level_count: int = column("the deepest level that has tables: levels below level 0")
    level_count_expected: int = column("the same in theory")
    run_count: int = column("sorted runs")
    table_count: int = column("tables")
    block_count: int = column("data blocks")
    entries_stored: int = column("entries in tables")
    table_bytes: int = column("size of the table files")
    raw_block_bytes: int = column("data blocks, uncompressed: what a cache of all of them holds")
    user_bytes: int = column("keys and values handed over")
    flush_bytes: int = column("tables written by flushes")
    compaction_write_bytes: int = column("tables written by compactions")
    write_amplification: float = column("bytes flushed and compacted, per byte handed over")
    write_amplification_textbook: float = column("1 + L T/2 and its like, for the levels there are")
    write_amplification_model: float = column(
        "by the store's own rules of compaction, followed with sizes alone"
    )


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Counts of random operations on that store, without a cache, beside what theory says."""

    fence_comparisons: float = column(
        "steps of binary search of an absent look-up: derived from the indexes, not counted"
    )
    fence_comparisons_least: float = column(
        "the same in theory: log2 of the blocks of each run that spans the key"
    )
    absent_lookups: int = column("look-ups of absent keys, each just after a present one")
    absent_filters: int = column("filters that these asked")
    absent_filters_expected: float = column("the same in theory, per look-up")
    absent_false_positives: int = column("of these filters, those that let the key pass")
    filter_rate_expected: float = column("exact false-positive rate of the filters asked")
    absent_block_reads: int = column("data blocks that absent look-ups read")
    absent_reads_expected: float = column("the same in theory, per look-up")
    present_lookups: int = column("look-ups of present keys")
    present_filters: int = column("filters that these asked")
    present_false_positives: int = column("of these filters, those that let a wrong key pass")
    present_block_reads: int = column("data blocks that present look-ups read")
    present_reads_expected: float = column("the same in theory, per look-up")
    seeks: int = column("scans of ten entries from a random key")
    seek_block_reads: int = column("data blocks that they read")
    seek_reads_expected: float = column("the same in theory, per seek: blocks whose turn comes")
    seek_reads_without_fences: float = column("the same if fences did not tell where blocks begin")
    wrong_answers: int = column("operations with a wrong answer; must be 0")


@dataclass(frozen=True, kw_only=True)
class CacheUse:
    """A block cache much smaller than the store, before, during and after a scan of all of it."""

    cache_budget_bytes: int = column("block cache: a 32nd of the blocks")
    cache_peak_bytes: int = column("the most it held, in look-ups all over the store and the scan")
    cache_evictions: int = column("items that were driven out")
    scan_cached_bytes: int = column("what the scan puts there by design: each table's first blocks")
    hot_keys: int = column("neighbouring keys that were asked for again and again: a quarter of it")
    hot_hit_rate_before: float = column("of blocks that they need, those in the cache, before")
    hot_hit_rate_after_scan: float = column("the same, after the whole store was scanned")
    hot_hit_rate_after_lookups: float = column(
        "the same, after random look-ups of twice as many blocks as the cache holds"
    )


@dataclass(frozen=True, kw_only=True)
class OpenMemory:
    """Memory of an open store, as the store tells it and as the system does."""

    index_bytes: int = column("indexes in memory, as the store reports")
    index_bytes_expected: float = column("the same in theory, per key")
    filter_bytes: int = column("filters in memory, as the store reports")
    filter_bytes_expected: float = column("the same in theory, per key")
    open_private_bytes: int | None = column(
        "growth of the process's private memory by opening the store", "time"
    )


@dataclass(frozen=True, kw_only=True)
class MemtableMemory:
    """The same of a memtable."""

    memtable_entries: int = column("entries of the memtable that was measured")
    memtable_bytes_reported: float = column("its bytes per entry, as the store reports")
    memtable_bytes_private: float | None = column(
        "growth of the process's private memory, per entry", "time"
    )


@dataclass(frozen=True, kw_only=True)
class WarmTimes:
    """Microseconds of reading, every block that is asked for in the cache."""

    warm_share: float = column(
        "part of the key range that was asked for: what a third of the machine's memory holds",
        "time",
    )
    warm_misses: int = column("blocks that were not in the cache; must be 0")
    get_hit_us: float = column("per look-up of a present key", "time")
    get_miss_us: float = column("per look-up of an absent key", "time")
    seek_us: float = column("per scan of ten entries from a random key", "time")
    scan_us: float = column("per entry of a long scan, which goes past the cache", "time")
    open_us: float = column("opening the closed store, up to its first answer", "time")


@dataclass(frozen=True, kw_only=True)
class ThreadPuts:
    """Microseconds of random overwrites, one by one, flushes and compactions in a thread."""

    thread_put_us: float = column("per put, the puts alone", "time")
    thread_put_settled_us: float = column("per put, until all compaction is done", "time")
    thread_put_us_p50: float = column("median of single puts", "time")
    thread_put_us_p99: float = column("99th percentile of the same", "time")
    thread_put_us_p999: float = column("99.9th percentile of the same", "time")
    thread_put_us_max: float = column("the longest", "time")
    thread_slowdowns: int = column("puts that were slowed down", "time")
    thread_stops: int = column("puts that had to wait for room", "time")
    thread_peak_memory_bytes: int = column(
        "peak resident memory, children included, above that before opening", "time"
    )


@dataclass(frozen=True, kw_only=True)
class ProcessPuts:
    """Microseconds of random overwrites, one by one, flushes and compactions in processes."""

    process_put_us: float = column("per put, the puts alone", "time")
    process_put_settled_us: float = column("per put, until all compaction is done", "time")
    process_put_us_p50: float = column("median of single puts", "time")
    process_put_us_p99: float = column("99th percentile of the same", "time")
    process_put_us_p999: float = column("99.9th percentile of the same", "time")
    process_put_us_max: float = column("the longest", "time")
    process_slowdowns: int = column("puts that were slowed down", "time")
    process_stops: int = column("puts that had to wait for room", "time")
    process_peak_memory_bytes: int = column(
        "peak resident memory, children included, above that before opening", "time"
    )


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Microseconds of random overwrites in batches of 1000, background work in a thread."""

    batch_us: float = column("per entry of a batch, the batches alone", "time")
    batch_settled_us: float = column("per entry, until all compaction is done", "time")


@dataclass(frozen=True, kw_only=True)
class Row(
    Setting,
    Tree,
    Reads,
    CacheUse,
    OpenMemory,
    MemtableMemory,
    WarmTimes,
    ThreadPuts,
    ProcessPuts,
    Batches,
):
    """One size in one repetition."""


def columns(*found: Any) -> dict[str, Any]:
    """The columns of several parts of a row."""
    return {name: value for part in found for name, value in asdict(part).items()}
