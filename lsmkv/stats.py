"""Counters and histograms of what the store did.

Any thread increments a counter with ``+=`` and a number that was computed before.  Under the global
interpreter lock CPython does not switch threads within such an increment, so none is lost.  (It may
switch where the right side calls a function.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field


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

    Lookups (``get``, ``in``, and each key of ``multi_get``)
        gets, get_hits: lookups, and those that found a value.
        memtable_hits: lookups answered by a memtable (a value or a deletion).
        range_negatives: runs skipped because none of their tables spans the key.
        fence_negatives: tables skipped because their fence keys exclude the key from every block.
        filter_negatives: blocks (or tables) skipped because their filter excludes the key.
        filter_true_positives: searches after a filter's maybe that found the key.
        filter_false_positives: searches after a filter's maybe that did not.
        filter_lessons: false positives that filters learnt to deny (``Options.adaptive_filters``).
        unfiltered_probes: blocks searched without a filter (none was written, or residency is off).
        prefix_filter_skips: blocks that scans of a prefix skipped because of their filter.

    Disk (reads by the store; the page cache of the operating system may serve them)
        block_reads, block_read_bytes: data blocks read by lookups and scans.
        read_around_bytes: bytes of tables to prefetch, because many of their blocks had been read
            (``Options.read_around``).
        filter_reads, filter_read_bytes: filters.
        filter_rebuilds: damaged chunks of filters (mostly 4 KiB) that were read from the copies
            in the blocks.
        filter_losses: such chunks without a whole copy.  Their filters allow every key, which counts
            as a filter's maybe.
        index_reads, index_read_bytes: footers, indexes and properties of tables.
        log_reads, log_read_bytes: logs and manifests.
        compaction_block_reads, compaction_read_bytes: data blocks read by compactions, ``verify`` and
            ``blocks``.
        block_cache_hits, block_cache_misses, block_cache_evictions: lookups in the block cache, and
            blocks and filters that it dropped for others.

    Object storage (requests that were sent, each counted once; retries by the client are not counted)
        object_gets, object_get_bytes: GET requests, and the bytes that they asked for.
        object_lists: LIST requests, each for up to 1,000 names.
        object_puts, object_put_bytes: PUT requests, of which a large object takes one for each part and
            two more, and the bytes sent.
        object_deletes: requests to remove up to 1,000 objects each.
        disk_cache_hits, disk_cache_misses: lookups in the cache at ``Options.disk_cache_path``.

    Writes
        writes, write_batches: puts and deletes, and atomic batches.
        log_bytes, log_syncs: bytes appended to logs, and their fdatasync calls.
        flushes, flush_bytes: memtables written to tables, and the size of these tables.
        compactions, compaction_write_bytes: compactions that rewrote tables, and the bytes written.
        filter_build_ns: time spent on building filters, in nanoseconds.
        tables_moved: tables that compactions moved down a level without rewriting them.
        ingested_tables, ingested_bytes: tables that ``ingest`` and ``bulk_load`` added, and their size.
        spill_bytes: sorted runs that ``bulk_load`` wrote while it sorted its input.
        write_slowdowns, write_slowdown_s: delayed writes, and their delays in seconds.
        write_stops, write_stop_s: writes that waited for a flush, a compaction or the commit of an
            ``ingest``, and their waits in seconds.

    Histograms
        sync_us, flush_us, compaction_us: durations in microseconds.
        group_commit_size: writers that one fdatasync served.
    """

    gets: int = 0
    get_hits: int = 0
    memtable_hits: int = 0
    range_negatives: int = 0
    fence_negatives: int = 0
    filter_negatives: int = 0
    filter_true_positives: int = 0
    filter_false_positives: int = 0
    filter_lessons: int = 0
    unfiltered_probes: int = 0
    prefix_filter_skips: int = 0
    block_reads: int = 0
    block_read_bytes: int = 0
    read_around_bytes: int = 0
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
        """What is not zero."""
        found = [(item.name, getattr(self, item.name)) for item in dataclasses.fields(self)]
        shown = [f"{name}={value!r}" for name, value in found if _is_counted(value)]
        return f"lsmkv.Stats({', '.join(shown)})"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import of_stats

        return of_stats(self)

    def copy(self) -> Stats:
        """An independent copy."""
        copied = dataclasses.replace(self)
        for name in _HISTOGRAMS:
            setattr(copied, name, getattr(self, name).copy())
        return copied

    def __sub__(self, earlier: Stats) -> Stats:
        """What was counted since ``earlier``."""
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


_HISTOGRAMS = [
    item.name for item in dataclasses.fields(Stats) if item.default is dataclasses.MISSING
]
