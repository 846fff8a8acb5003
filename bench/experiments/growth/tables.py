"""The tables of ``growth``: shape, reads, times, single puts, memory and the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.growth.groups import MODES, OPERATIONS, Size, figures, with_spread
from bench.experiments.growth.rows import Row
from bench.experiments.growth.tasks import ENTRY_BYTES
from bench.harness.intervals import rate_interval
from bench.harness.tables import Shown, Table, table_of
from lsmkv.options import MIB

Sizes = Mapping[str, Sequence[Size]]


def _interval(row: Row) -> str:
    low, high = rate_interval(row.absent_false_positives, row.absent_filters)
    return f"{low * 100:.3f}-{high * 100:.3f}"


def _per_key(row: Row, in_memory: int, expected: float) -> str:
    return f"{in_memory / row.entries:.2f} ({expected:.2f})"


_ABSENT_READS: Final = Shown(
    "blocks read", lambda row: row.absent_block_reads / row.absent_lookups, ".4f"
)

# Title, columns and note of each table of counts.
_SHAPE: Final = (
    "The tree, and what its fill wrote: measured, in theory",
    (
        Shown("levels\n(theory)", lambda row: f"{row.level_count} ({row.level_count_expected})"),
        "run_count",
        "table_count",
        "block_count",
        "write_amplification",
        "write_amplification_model",
        "write_amplification_textbook",
        Shown("space", lambda row: row.table_bytes / (row.entries * ENTRY_BYTES), ".3f"),
    ),
    "Levels: below level 0. Write amp.: bytes flushed and compacted per byte handed over. "
    "Space: bytes of table files by bytes of keys and values.",
)
_FILTERS: Final = (
    "Filters that absent lookups ask: measured, in theory",
    (
        Shown("asked each", lambda row: row.absent_filters / row.absent_lookups, ".3f"),
        "absent_filters_expected",
        Shown(
            "let pass, %",
            lambda row: row.absent_false_positives / max(1, row.absent_filters) * 100,
            ".3f",
        ),
        Shown("95 % interval", _interval),
        Shown("exact", lambda row: row.filter_rate_expected * 100, ".3f"),
        _ABSENT_READS,
        "absent_reads_expected",
    ),
    "Each: per lookup. Exact: by the rates of the filters that were asked. Blocks read: per "
    "lookup, without a cache.",
)
_READS: Final = (
    "Fences and blocks per operation, without a cache: measured, in theory",
    (
        "fence_comparisons",
        "fence_comparisons_least",
        Shown("present", lambda row: row.present_block_reads / row.present_lookups, ".4f"),
        "present_reads_expected",
        Shown("seek + 10", lambda row: row.seek_block_reads / row.seeks, ".2f"),
        "seek_reads_expected",
        "seek_reads_without_fences",
    ),
    "Fences: compared by an absent lookup, derived from the indexes; least: log2 of the "
    "blocks of each run that spans the key. Present, seek: data blocks read; no fences: in "
    "theory, if a scan had to read a block to know where it begins.",
)
_MEMORY: Final = (
    "Memory, bytes per key: the store's report (theory), and the process's",
    (
        Shown("indexes", lambda row: _per_key(row, row.index_bytes, row.index_bytes_expected)),
        Shown("filters", lambda row: _per_key(row, row.filter_bytes, row.filter_bytes_expected)),
        Shown("both", lambda row: (row.index_bytes + row.filter_bytes) / row.entries, ".2f"),
        Shown(
            "process,\nby opening",
            lambda row: row.open_private_bytes and row.open_private_bytes / row.entries,
            ".2f",
        ),
        "memtable_bytes_reported",
        "memtable_bytes_private",
    ),
    "Process: growth of private memory, in pages of 4 KiB at least. Memtable: the store "
    "reports the length of its log; the process holds keys, values and the dict.",
)
_CACHE: Final = (
    "A block cache of a 32nd of the blocks",
    (
        "cache_budget_bytes",
        "cache_peak_bytes",
        "hot_hit_rate_before",
        "hot_hit_rate_after_scan",
        "hot_hit_rate_after_lookups",
    ),
    "Hit rate of the hot blocks: before, after a scan of the whole store, and after random "
    "lookups of twice as many blocks as the cache holds.",
)


def tables(sizes: Sizes) -> list[Table]:
    every = [size for found in sizes.values() for size in found]
    counts = [size.counts for size in every]
    shape, filters, reads, memory, cache = (
        table_of(title, counts, ("style", "entries", *columns), note, empty="-")
        for title, columns, note in (_SHAPE, _FILTERS, _READS, _MEMORY, _CACHE)
    )
    return [shape, filters, reads, _times(every), _puts(every), memory, cache]


def _times(sizes: Sequence[Size]) -> Table:
    return Table(
        "Microseconds per operation: median (least-most)",
        ("", *(f"{size.counts.style}\n{size.counts.entries:,}" for size in sizes)),
        [
            [name, *(with_spread(size.spread(column)) for size in sizes)]
            for name, column in OPERATIONS.items()
        ],
        "put, batch: the calls alone; until settled: with the time until all compaction is done. "
        "thread, process: where flushes and compactions run (batches: a thread). open: up to the "
        "first answer.",
    )


@dataclass(frozen=True, slots=True)
class _Puts:
    """Single puts of one size in one mode."""

    size: Size
    mode: str

    def median(self, column: str) -> float:
        return self.size.spread(f"{self.mode}_{column}").median

    def spread(self) -> str:
        longest = self.size.spread(f"{self.mode}_put_us_max")
        return f"{figures(longest.least)}-{figures(longest.most)}"


def _puts(sizes: Sequence[Size]) -> Table:
    return table_of(
        "Single puts while flushes and compactions run, microseconds: medians",
        [_Puts(size, mode) for size in sizes for mode in MODES],
        (
            Shown("style", lambda puts: puts.size.counts.style),
            Shown("entries", lambda puts: puts.size.counts.entries, ","),
            Shown("in a", "mode"),
            Shown("p50", lambda puts: puts.median("put_us_p50"), figures),
            Shown("p99", lambda puts: puts.median("put_us_p99"), figures),
            Shown("p99.9", lambda puts: puts.median("put_us_p999"), figures),
            Shown("longest", lambda puts: puts.median("put_us_max"), figures),
            Shown("its spread", _Puts.spread),
            Shown("stops", lambda puts: puts.median("stops"), "g"),
            Shown("slowed", lambda puts: puts.median("slowdowns"), "g"),
            Shown("MiB", lambda puts: puts.median("peak_memory_bytes") / MIB, ".0f"),
        ),
        "Stops: puts that had to wait for room; slowed: puts held back because level 0 is crowded; "
        "MiB: peak memory of the process and its children, above that before the store was opened.",
        left=3,
    )
