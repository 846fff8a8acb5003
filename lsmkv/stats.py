"""Counters and histograms of what the store did.

Any thread increments a counter with ``+=`` and a number that was computed before.  Under the global
interpreter lock CPython does not switch threads within such an increment, so none is lost.  (It may
switch where the right side calls a function.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from lsmkv.html import table


@dataclass(repr=False)
class Histogram:
    """Counts of values by power of two.

    ``buckets[i]`` counts the values v with 2^(i-1) <= v < 2^i; ``total`` is the sum of all values.
    """

    count: int = 0
    total: float = 0.0
    maximum: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * 64)

    def add(self, value: float) -> None:
        """Count one value, which must not be negative."""
        bucket = min(int(value).bit_length(), 63)
        self.count += 1
        self.total += value
        self.buckets[bucket] += 1
        if value > self.maximum:
            self.maximum = value

    def mean(self) -> float:
        """The arithmetic mean; 0 without values."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """An upper bound of the percentile, at most twice its value; 0 without values."""
        rank = self.count * percent / 100.0
        seen = 0
        for index, count in enumerate(self.buckets):
            seen += count
            if count and seen >= rank:
                return float(1 << index)
        return 0.0

    def __repr__(self) -> str:
        return (
            f"<lsmkv.Histogram of {self.count} values, mean {self.mean():g}, "
            f"maximum {self.maximum:g}>"
        )

    def copy(self) -> Histogram:
        """An independent copy."""
        return Histogram(self.count, self.total, self.maximum, list(self.buckets))

    def __sub__(self, earlier: Histogram) -> Histogram:
        """The values added since ``earlier``, but with the maximum of all."""
        buckets = [a - b for a, b in zip(self.buckets, earlier.buckets, strict=True)]
        return Histogram(
            self.count - earlier.count, self.total - earlier.total, self.maximum, buckets
        )


@dataclass(repr=False)
class Stats:
    """Counts since the store was opened.  ``later - earlier`` gives the difference.

    The ending of a name is its unit: bytes, seconds (``_s``), micro- or nanoseconds (``_us``, ``_ns``).

    Lookups:
        gets: lookups by ``get``, ``in``, and each key of ``multi_get``.
        get_hits: lookups that found a value.
        memtable_hits: lookups answered by a memtable (a value or a deletion).
        entry_cache_hits: lookups answered by the entry cache (a value that a lookup had read before).
        range_negatives: runs that lookups skipped because none of their tables spans the key.
        filter_negatives: blocks (or tables) that lookups skipped because their filter excludes the key:
            reads saved, as far as no cache has these blocks.
        filter_true_positives: searches after a filter's maybe that found the key.
        filter_false_positives: a filter's maybes of keys that were not there: wasted searches.
        filter_lessons: wasted searches that were listed, to be denied next time
            (``Options.adaptive_filters``).
        unfiltered_probes: blocks searched without a filter (none was written, or residency is off).
        prefix_filter_skips: blocks that scans of a prefix skipped because of their filter.
        range_filter_negatives: times that a filter told a scan of a range without a key of its block, so
            that the scan went on without that block (``filter_policy="grafite"``).

    Disk:
        block_reads: data blocks read by lookups and scans.  Here and below the page cache of the
            operating system may serve what the store reads.
        block_read_bytes: size of the data blocks read by lookups and scans.
        read_around_bytes: bytes of tables to prefetch, because many of their blocks had been read
            (``Options.read_around``).
        read_around_looks: reads of one byte that found a prefetched page still in memory.
        filter_reads: reads of filters.
        filter_read_bytes: size of the filters read.
        filter_rebuilds: damaged chunks of filters (mostly 4 KiB) that were read from the copies
            in the blocks.
        filter_losses: damaged chunks of filters without a whole copy.  Their filters allow every key,
            which counts as a filter's maybe.
        index_reads: reads of footers, indexes and properties of tables.
        index_read_bytes: size of the footers, indexes and properties read.
        log_reads: reads of logs and manifests.
        log_read_bytes: bytes read of logs and manifests.
        compaction_block_reads: data blocks read by compactions, ``verify`` and ``blocks``.
        compaction_read_bytes: size of the data blocks read by compactions, ``verify`` and ``blocks``.
        block_cache_hits: lookups in the block cache that found the block or filter.
        block_cache_misses: lookups in the block cache that did not find it.
        block_cache_evictions: blocks and filters that the block cache dropped for others.

    Object storage:
        object_gets: GET requests that were sent; these counters leave out retries by the client.
        object_get_bytes: bytes that GET requests asked for.
        object_lists: LIST requests, each for up to 1,000 names.
        object_puts: PUT requests, of which a large object takes one for each part and two more.
        object_put_bytes: bytes that PUT requests sent.
        object_deletes: requests to remove up to 1,000 objects each.
        disk_cache_hits: lookups in the cache at ``Options.disk_cache_path`` that found something.
        disk_cache_misses: lookups in the cache at ``Options.disk_cache_path`` that found nothing.
        disk_cache_failures: calls to the operating system that failed for that cache, for example on a
            full disk; it then keeps less.

    Writes:
        writes: puts and deletes.
        write_batches: atomic batches.
        log_bytes: bytes appended to logs.
        log_syncs: fdatasync calls of logs.
        flushes: memtables written to tables.
        flush_bytes: size of the tables that flushes wrote.
        compactions: compactions that rewrote tables.
        compaction_write_bytes: bytes that compactions wrote.
        filter_build_ns: time spent on building filters.
        tables_moved: tables that compactions moved down a level without rewriting them.
        ingested_tables: tables that ``ingest`` and ``bulk_load`` added.
        ingested_bytes: size of the tables that ``ingest`` and ``bulk_load`` added.
        spill_bytes: sorted runs that ``bulk_load`` wrote while it sorted its input.
        write_slowdowns: delayed writes.
        write_slowdown_s: delays of writes, in all.
        write_stops: writes that waited for a flush, a compaction or the commit of an ``ingest``.
        write_stop_s: waits of writes for a flush, a compaction or the commit of an ``ingest``, in all.

    Histograms:
        sync_us: how long syncs of logs took.
        flush_us: how long flushes took.
        compaction_us: how long compactions took.
        group_commit_size: writers that one fdatasync served.
    """

    gets: int = 0
    get_hits: int = 0
    memtable_hits: int = 0
    entry_cache_hits: int = 0
    range_negatives: int = 0
    filter_negatives: int = 0
    filter_true_positives: int = 0
    filter_false_positives: int = 0
    filter_lessons: int = 0
    unfiltered_probes: int = 0
    prefix_filter_skips: int = 0
    range_filter_negatives: int = 0
    block_reads: int = 0
    block_read_bytes: int = 0
    read_around_bytes: int = 0
    read_around_looks: int = 0
    filter_reads: int = 0
    filter_read_bytes: int = 0
    filter_rebuilds: int = 0
    filter_losses: int = 0
    index_reads: int = 0
    index_read_bytes: int = 0
    log_reads: int = 0
    log_read_bytes: int = 0
    compaction_block_reads: int = 0
    compaction_read_bytes: int = 0
    block_cache_hits: int = 0
    block_cache_misses: int = 0
    block_cache_evictions: int = 0
    object_gets: int = 0
    object_get_bytes: int = 0
    object_lists: int = 0
    object_puts: int = 0
    object_put_bytes: int = 0
    object_deletes: int = 0
    disk_cache_hits: int = 0
    disk_cache_misses: int = 0
    disk_cache_failures: int = 0
    writes: int = 0
    write_batches: int = 0
    log_bytes: int = 0
    log_syncs: int = 0
    flushes: int = 0
    flush_bytes: int = 0
    compactions: int = 0
    compaction_write_bytes: int = 0
    filter_build_ns: int = 0
    tables_moved: int = 0
    ingested_tables: int = 0
    ingested_bytes: int = 0
    spill_bytes: int = 0
    write_slowdowns: int = 0
    write_slowdown_s: float = 0.0
    write_stops: int = 0
    write_stop_s: float = 0.0
    sync_us: Histogram = field(default_factory=Histogram)
    flush_us: Histogram = field(default_factory=Histogram)
    compaction_us: Histogram = field(default_factory=Histogram)
    group_commit_size: Histogram = field(default_factory=Histogram)

    def __repr__(self) -> str:
        """All counters that are not zero."""
        found = [(item.name, getattr(self, item.name)) for item in dataclasses.fields(self)]
        shown = [f"{name}={value!r}" for name, value in found if _is_counted(value)]
        return f"lsmkv.Stats({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """All counters that are not zero."""
        found = [(item.name, getattr(self, item.name)) for item in dataclasses.fields(self)]
        rows = [(name, _shown(value)) for name, value in found if _is_counted(value)]
        return table("lsmkv.Stats", rows or [("counted", "nothing")])

    def copy(self) -> Stats:
        """An independent copy."""
        copied = dataclasses.replace(self)
        for name in _HISTOGRAMS:
            setattr(copied, name, getattr(self, name).copy())
        return copied

    def __sub__(self, earlier: Stats) -> Stats:
        """The counts since ``earlier``.  TypeError: it is no Stats."""
        if not isinstance(earlier, Stats):
            raise TypeError(f"stats - {earlier!r}: subtract the stats() of an earlier moment")
        names = [item.name for item in dataclasses.fields(self)]
        return Stats(**{name: getattr(self, name) - getattr(earlier, name) for name in names})

    def add_work(self, done: Stats) -> None:
        """Add the counts of a flush or compaction in a helper process."""
        self.block_reads += done.block_reads
        self.block_read_bytes += done.block_read_bytes
        self.filter_reads += done.filter_reads
        self.filter_read_bytes += done.filter_read_bytes
        self.filter_rebuilds += done.filter_rebuilds
        self.filter_losses += done.filter_losses
        self.index_reads += done.index_reads
        self.index_read_bytes += done.index_read_bytes
        self.log_reads += done.log_reads
        self.log_read_bytes += done.log_read_bytes
        self.compaction_block_reads += done.compaction_block_reads
        self.compaction_read_bytes += done.compaction_read_bytes
        self.filter_build_ns += done.filter_build_ns

    def as_dict(self) -> dict[str, object]:
        """The counters by name; of histograms count, mean, median, 99th percentile and maximum."""
        result: dict[str, object] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Histogram):
                result[item.name] = {
                    "count": value.count,
                    "mean": value.mean(),
                    "p50": value.percentile(50),
                    "p99": value.percentile(99),
                    "max": value.maximum,
                }
            else:
                result[item.name] = value
        return result


def _is_counted(value: object) -> bool:
    return value.count > 0 if isinstance(value, Histogram) else bool(value)


def _shown(value: object) -> int | str:
    if isinstance(value, Histogram):
        return (
            f"{value.count:,} values, mean {value.mean():,.0f}, 99 % below "
            f"{value.percentile(99):,.0f}, largest {value.maximum:,.0f}"
        )
    return value if isinstance(value, int) else f"{value:,.3f}"


_HISTOGRAMS = [
    item.name for item in dataclasses.fields(Stats) if item.default is dataclasses.MISSING
]
