"""The rows of ``growth``: each stage of the measurement makes some of the columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bench.harness.records import column


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:,.0f}"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The settings."""

    entries: int = column("n, entries of the store, each key once", "setting", form=",")
    style: str = column("compaction style", "setting")
    scale: int = column("write buffer, tables, level 1: the default sizes by this", "setting")
    lookups: int = column("random lookups of each kind, at most n", "setting")
    window: int = column("random overwrites of a sustained write", "setting")
    repetition: int = column("from 0; counts are taken once, times each time", "setting")
    seed: int = column("decides keys, values and orders", "setting")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The store after its fill, and the bytes that the fill wrote."""

    level_count: int = column("the deepest level that has tables: levels below level 0")
    level_count_expected: int = column("the same in theory")
    run_count: int = column("sorted runs", heading="runs")
    table_count: int = column("tables", heading="tables", form=",")
    block_count: int = column("data blocks", heading="blocks", form=",")
    entries_stored: int = column("entries in tables")
    table_bytes: int = column("size of the table files")
    raw_block_bytes: int = column("data blocks, uncompressed: what a cache of all of them holds")
    user_bytes: int = column("keys and values handed over")
    flush_bytes: int = column("tables written by flushes")
    compaction_write_bytes: int = column("tables written by compactions")
    write_amplification: float = column(
        "bytes flushed and compacted, per byte handed over", heading="write amp.", form=".2f"
    )
    write_amplification_textbook: float = column(
        "1 + L T/2 and its like, for the levels there are", heading="textbook", form=".0f"
    )
    write_amplification_model: float = column(
        "by the store's own rules of compaction, followed with sizes alone",
        heading="model",
        form=".2f",
    )


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Counts of random operations without a cache, beside theory."""

    fence_comparisons: float = column(
        "steps of binary search of an absent lookup: derived from the indexes, not counted",
        heading="fences",
        form=".1f",
    )
    fence_comparisons_least: float = column(
        "the same in theory: log2 of the blocks of each run that spans the key",
        heading="least",
        form=".1f",
    )
    absent_lookups: int = column("lookups of absent keys, each just after a present one")
    absent_filters: int = column("filters that these asked")
    absent_filters_expected: float = column(
        "the same in theory, per lookup", heading="theory", form=".3f"
    )
    absent_false_positives: int = column("of these filters, those that let the key pass")
    filter_rate_expected: float = column("exact false-positive rate of the filters asked")
    absent_block_reads: int = column("data blocks that absent lookups read")
    absent_reads_expected: float = column(
        "the same in theory, per lookup", heading="theory", form=".4f"
    )
    present_lookups: int = column("lookups of present keys")
    present_filters: int = column("filters that these asked")
    present_false_positives: int = column("of these filters, those that let a wrong key pass")
    present_block_reads: int = column("data blocks that present lookups read")
    present_reads_expected: float = column(
        "the same in theory, per lookup", heading="theory", form=".4f"
    )
    seeks: int = column("scans of ten entries from a random key")
    seek_block_reads: int = column("data blocks that they read")
    seek_reads_expected: float = column(
        "the same in theory, per seek: blocks that a seek reads", heading="theory", form=".2f"
    )
    seek_reads_without_fences: float = column(
        "the same if fences did not tell where blocks begin", heading="no fences", form=".2f"
    )
    wrong_answers: int = column("operations with a wrong answer; must be 0")


@dataclass(frozen=True, kw_only=True)
class CacheUse:
    """A block cache much smaller than the store, around a full scan."""

    cache_budget_bytes: int = column(
        "block cache: a 32nd of the blocks", heading="budget, KiB", form=_kib
    )
    cache_peak_bytes: int = column(
        "the most it held, in lookups all over the store and the scan",
        heading="most held, KiB",
        form=_kib,
    )
    cache_evictions: int = column("items that were driven out")
    scan_cached_bytes: int = column("what the scan puts there by design: each table's first blocks")
    hot_keys: int = column("neighbouring keys that were asked for again and again: a quarter of it")
    hot_hit_rate_before: float = column(
        "of blocks that they need, those in the cache, before", heading="hit rate, hot", form=".1%"
    )
    hot_hit_rate_after_scan: float = column(
        "the same, after the whole store was scanned", heading="after a full scan", form=".1%"
    )
    hot_hit_rate_after_lookups: float = column(
        "the same, after random lookups of twice as many blocks as the cache holds",
        heading="after lookups",
        form=".1%",
    )


@dataclass(frozen=True, kw_only=True)
class OpenMemory:
    """Memory of an open store, by the store and by the system."""

    index_bytes: int = column("indexes in memory, as the store reports")
    index_bytes_expected: float = column("the same in theory, per key")
    filter_bytes: int = column("filters in memory, as the store reports")
    filter_bytes_expected: float = column("the same in theory, per key")
    open_private_bytes: int | None = column(
        "growth of the process's private memory by opening the store", "time"
    )


@dataclass(frozen=True, kw_only=True)
class MemtableMemory:
    """Memory of a memtable, by the store and by the system."""

    memtable_entries: int = column("entries of the memtable that was measured")
    memtable_bytes_reported: float = column(
        "its bytes per entry, as the store reports", heading="memtable entry", form=".0f"
    )
    memtable_bytes_private: float | None = column(
        "growth of the process's private memory, per entry",
        "time",
        heading="in the process",
        form=".0f",
    )


@dataclass(frozen=True, kw_only=True)
class WarmTimes:
    """Microseconds of reads, with every needed block in the cache."""

    warm_share: float = column(
        "part of the key range that was asked for: what a third of the machine's memory holds",
        "time",
    )
    warm_misses: int = column("blocks that were not in the cache; must be 0")
    get_hit_us: float = column("per lookup of a present key", "time")
    get_miss_us: float = column("per lookup of an absent key", "time")
    seek_us: float = column("per scan of ten entries from a random key", "time")
    scan_us: float = column("per entry of a long scan, which goes past the cache", "time")
    open_us: float = column("opening the closed store, up to its first answer", "time")


@dataclass(frozen=True, kw_only=True)
class ThreadPuts:
    """Microseconds of single random overwrites, background work in threads."""

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
    """Microseconds of single random overwrites, background work in processes."""

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
    """Microseconds of overwrites in batches of 1000, background work in threads."""

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
