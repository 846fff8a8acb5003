"""The tables of the report: shape, reads, times, single puts, memory, the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.experiments.growth.groups import MODES, OPERATIONS, Size, figures, with_spread
from bench.experiments.growth.rows import Row
from bench.experiments.growth.tasks import ENTRY_BYTES
from bench.harness.intervals import rate_interval
from bench.harness.story import Table

MIB: Final = 1 << 20
Sizes = Mapping[str, Sequence[Size]]


def tables(sizes: Sizes) -> list[Table]:
    """Every table."""
    return [
        _table(
            "The tree, and what its fill wrote: measured, in theory",
            (
                "levels\n(theory)",
                "runs",
                "tables",
                "blocks",
                "write amp.",
                "model",
                "textbook",
                "space",
            ),
            sizes,
            _shape,
            "Levels: below level 0. Write amp.: bytes flushed and compacted per byte handed over. "
            "Space: bytes of table files by bytes of keys and values.",
        ),
        _table(
            "Filters that absent look-ups ask: measured, in theory",
            (
                "asked each",
                "theory",
                "let pass, %",
                "95 % interval",
                "exact",
                "blocks read",
                "theory",
            ),
            sizes,
            _filters,
            "Each: per look-up. Exact: by the rates of the filters that were asked. Blocks read: per "
            "look-up, without a cache.",
        ),
        _table(
            "Fences and blocks per operation, without a cache: measured, in theory",
            ("fences", "least", "present", "theory", "seek + 10", "theory", "no fences"),
            sizes,
            _reads,
            "Fences: compared by an absent look-up, derived from the indexes; least: log2 of the "
            "blocks of each run that spans the key. Present, seek: data blocks read; no fences: in "
            "theory, if a scan had to read a block to know where it begins.",
        ),
        _times(sizes),
        _puts(sizes),
        _table(
            "Memory, bytes per key: the store's report (theory), and the process's",
            (
                "indexes",
                "filters",
                "both",
                "process,\nby opening",
                "memtable entry",
                "in the process",
            ),
            sizes,
            _memory,
            "Process: growth of private memory, in pages of 4 KiB at least. Memtable: the store "
            "reports the length of its log; the process holds keys, values and the dict.",
        ),
        _table(
            "A block cache of a 32nd of the blocks",
            (
                "budget, KiB",
                "most held, KiB",
                "hit rate, hot",
                "after a full scan",
                "after look-ups",
            ),
            sizes,
            _cache,
            "Hit rate of the hot blocks: before, after a scan of the whole store, and after random "
            "look-ups of twice as many blocks as the cache holds.",
        ),
    ]


def _table(
    title: str,
    headings: Sequence[str],
    sizes: Sizes,
    cells: Callable[[Row], Sequence[str]],
    note: str,
) -> Table:
    rows = [
        [style, f"{size.counts.entries:,}", *cells(size.counts)]
        for style, found in sizes.items()
        for size in found
    ]
    return Table(title, ("style", "entries", *headings), rows, note)


def _shape(row: Row) -> Sequence[str]:
    return (
        f"{row.level_count} ({row.level_count_expected})",
        str(row.run_count),
        f"{row.table_count:,}",
        f"{row.block_count:,}",
        f"{row.write_amplification:.2f}",
        f"{row.write_amplification_model:.2f}",
        f"{row.write_amplification_textbook:.0f}",
        f"{row.table_bytes / (row.entries * ENTRY_BYTES):.3f}",
    )


def _filters(row: Row) -> Sequence[str]:
    low, high = rate_interval(row.absent_false_positives, row.absent_filters)
    return (
        f"{row.absent_filters / row.absent_lookups:.3f}",
        f"{row.absent_filters_expected:.3f}",
        f"{row.absent_false_positives / max(1, row.absent_filters) * 100:.3f}",
        f"{low * 100:.3f}-{high * 100:.3f}",
        f"{row.filter_rate_expected * 100:.3f}",
        f"{row.absent_block_reads / row.absent_lookups:.4f}",
        f"{row.absent_reads_expected:.4f}",
    )


def _reads(row: Row) -> Sequence[str]:
    return (
        f"{row.fence_comparisons:.1f}",
        f"{row.fence_comparisons_least:.1f}",
        f"{row.present_block_reads / row.present_lookups:.4f}",
        f"{row.present_reads_expected:.4f}",
        f"{row.seek_block_reads / row.seeks:.2f}",
        f"{row.seek_reads_expected:.2f}",
        f"{row.seek_reads_without_fences:.2f}",
    )


def _times(sizes: Sizes) -> Table:
    columns = [size for found in sizes.values() for size in found]
    return Table(
        "Microseconds per operation: median (least-most)",
        ("", *(f"{size.counts.style}\n{size.counts.entries:,}" for size in columns)),
        [
            [name, *(with_spread(size.spread(column)) for size in columns)]
            for name, column in OPERATIONS.items()
        ],
        "put, batch: the calls alone; until settled: with the time until all compaction is done. "
        "thread, process: where flushes and compactions run (batches: a thread). open: up to the "
        "first answer.",
    )


def _puts(sizes: Sizes) -> Table:
    cells = []
    for style, found in sizes.items():
        for size in found:
            for mode in MODES:
                most = size.spread(f"{mode}_put_us_max")
                cells.append(
                    [
                        style,
                        f"{size.counts.entries:,}",
                        mode,
                        *(
                            figures(size.spread(f"{mode}_put_us_{column}").median)
                            for column in ("p50", "p99", "p999", "max")
                        ),
                        f"{figures(most.least)}-{figures(most.most)}",
                        f"{size.spread(f'{mode}_stops').median:g}",
                        f"{size.spread(f'{mode}_slowdowns').median:g}",
                        f"{size.spread(f'{mode}_peak_memory_bytes').median / MIB:.0f}",
                    ]
                )
    return Table(
        "Single puts while flushes and compactions run, microseconds: medians",
        (
            "style",
            "entries",
            "in a",
            "p50",
            "p99",
            "p99.9",
            "longest",
            "its spread",
            "stops",
            "slowed",
            "MiB",
        ),
        cells,
        "Stops: puts that had to wait for room; slowed: puts held back because level 0 is crowded; "
        "MiB: peak memory of the process and its children, above that before the store was opened.",
        left=3,
    )


def _memory(row: Row) -> Sequence[str]:
    n = row.entries
    private = row.open_private_bytes
    memtable = row.memtable_bytes_private
    return (
        f"{row.index_bytes / n:.2f} ({row.index_bytes_expected:.2f})",
        f"{row.filter_bytes / n:.2f} ({row.filter_bytes_expected:.2f})",
        f"{(row.index_bytes + row.filter_bytes) / n:.2f}",
        "-" if private is None else f"{private / n:.2f}",
        f"{row.memtable_bytes_reported:.0f}",
        "-" if memtable is None else f"{memtable:.0f}",
    )


def _cache(row: Row) -> Sequence[str]:
    return (
        f"{row.cache_budget_bytes / 1024:,.0f}",
        f"{row.cache_peak_bytes / 1024:,.0f}",
        f"{row.hot_hit_rate_before:.1%}",
        f"{row.hot_hit_rate_after_scan:.1%}",
        f"{row.hot_hit_rate_after_lookups:.1%}",
    )
