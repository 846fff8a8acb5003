"""Counters and histograms: what the store did, as plain numbers that can be subtracted.

The counters are incremented with ``+=`` by any thread, by numbers that were computed before: under
the global interpreter lock CPython does not switch threads between the load and the store of such an
increment, and none is lost.  (It may, where the right side is a call.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field


@dataclass
class Histogram:
    """Counts of values by power of two: bucket i holds values v with 2^(i-1) <= v < 2^i."""

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
        """Arithmetic mean; 0 when empty."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Upper edge of the bucket in which the given percentile lies; 0 when empty."""
        rank = self.count * percent / 100.0
        seen = 0
        for index, count in enumerate(self.buckets):
            seen += count
            if count and seen >= rank:
                return float(1 << index)
        return 0.0

    def copy(self) -> Histogram:
        """A copy that later values do not change."""
        return Histogram(self.count, self.total, self.maximum, list(self.buckets))

    def __sub__(self, earlier: Histogram) -> Histogram:
        """What was added since ``earlier``; the maximum stays that of the later one."""
        buckets = [a - b for a, b in zip(self.buckets, earlier.buckets, strict=True)]
        return Histogram(
            self.count - earlier.count, self.total - earlier.total, self.maximum, buckets
        )


@dataclass
class Stats:
    """Everything counted since the store was opened.  ``later - earlier`` gives the difference.

    Look-ups (``get``, ``in``, ``multi_get``: one per key)
        gets, get_hits: asked, and found.
        memtable_hits: answered by a memtable (a value or a deletion).
        range_negatives: runs none of whose tables spans the key.
        fence_negatives: tables whose fence keys showed that the key lies in no block.
        filter_negatives: blocks (or tables) that were not searched because their filter said no.
        filter_true_positives: the filter said maybe, and the key was there.
        filter_false_positives: the filter said maybe, and the key was not there.
        unfiltered_probes: blocks searched without asking a filter (residency off, or none written).
        prefix_filter_skips: blocks that a prefix scan passed over because their filter said no.

    Disk (what the storage layer was asked to read)
        block_reads, block_read_bytes: data blocks read from table files, by look-ups and scans.
        read_around_bytes: parts of tables that the operating system was asked to fetch into its page
            cache, because many blocks had been read from them (``Options.read_around``).
        filter_reads, filter_read_bytes: filters read.
        filter_rebuilds: parts of filters, of about 16 KiB, that were damaged and were read from the
            blocks, which hold copies.
        index_reads, index_read_bytes: footers, indexes and properties read.
        log_reads, log_read_bytes: logs and manifests read.
        compaction_block_reads, compaction_read_bytes: data blocks read by compactions, and by
            ``verify`` and ``blocks``, which are no look-ups either.
        block_cache_hits, block_cache_misses, block_cache_evictions.

    Writes
        writes: operations (puts and deletes).  write_batches: atomic batches.
        log_bytes: bytes appended to logs.  log_syncs: fdatasyncs of logs.
        flushes, flush_bytes: memtables written out, and the bytes of their tables.
        compactions, compaction_write_bytes: compactions run, and the bytes they wrote.
        filter_build_ns: time spent on hashing keys for filters and setting their bits.
        tables_moved: tables moved down a level without being rewritten.
        write_slowdowns, write_slowdown_s: writes that were delayed, and for how long in all.
        write_stops, write_stop_s: writes that had to wait, and for how long in all.

    Histograms (microseconds; operations for ``group_commit_size``)
        sync_us, flush_us, compaction_us, group_commit_size (writers served by one fdatasync).
    """

    gets: int = 0
    get_hits: int = 0
    memtable_hits: int = 0
    range_negatives: int = 0
    fence_negatives: int = 0
    filter_negatives: int = 0
    filter_true_positives: int = 0
    filter_false_positives: int = 0
    unfiltered_probes: int = 0
    prefix_filter_skips: int = 0
    block_reads: int = 0
    block_read_bytes: int = 0
    read_around_bytes: int = 0
    filter_reads: int = 0
    filter_read_bytes: int = 0
    filter_rebuilds: int = 0
    index_reads: int = 0
    index_read_bytes: int = 0
    log_reads: int = 0
    log_read_bytes: int = 0
    compaction_block_reads: int = 0
    compaction_read_bytes: int = 0
    block_cache_hits: int = 0
    block_cache_misses: int = 0
    block_cache_evictions: int = 0
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
    write_slowdowns: int = 0
    write_slowdown_s: float = 0.0
    write_stops: int = 0
    write_stop_s: float = 0.0
    sync_us: Histogram = field(default_factory=Histogram)
    flush_us: Histogram = field(default_factory=Histogram)
    compaction_us: Histogram = field(default_factory=Histogram)
    group_commit_size: Histogram = field(default_factory=Histogram)

    def copy(self) -> Stats:
        """A copy that later operations do not change."""
        copied = dataclasses.replace(self)
        for name in _HISTOGRAMS:
            setattr(copied, name, getattr(self, name).copy())
        return copied

    def __sub__(self, earlier: Stats) -> Stats:
        """What happened between ``earlier`` and this one."""
        names = [item.name for item in dataclasses.fields(self)]
        return Stats(**{name: getattr(self, name) - getattr(earlier, name) for name in names})

    def add_work(self, done: Stats) -> None:
        """Count what a flush or compaction did in another process, with counters of its own."""
        self.block_reads += done.block_reads
        self.block_read_bytes += done.block_read_bytes
        self.filter_reads += done.filter_reads
        self.filter_read_bytes += done.filter_read_bytes
        self.filter_rebuilds += done.filter_rebuilds
        self.index_reads += done.index_reads
        self.index_read_bytes += done.index_read_bytes
        self.log_reads += done.log_reads
        self.log_read_bytes += done.log_read_bytes
        self.compaction_block_reads += done.compaction_block_reads
        self.compaction_read_bytes += done.compaction_read_bytes
        self.filter_build_ns += done.filter_build_ns

    def as_dict(self) -> dict[str, object]:
        """The counters by name; of a histogram its count, mean, median, 99th percentile and maximum."""
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


_HISTOGRAMS = [
    item.name for item in dataclasses.fields(Stats) if item.default is dataclasses.MISSING
]
