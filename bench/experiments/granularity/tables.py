"""The tables of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.experiments.granularity.groups import contender, index_share, styles
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.verdict import ORDERS, filter_read_bytes, filter_reads
from bench.harness.story import Table


def tables(rows: Sequence[Row]) -> list[Table]:
    """For each tree: reads, times, and what cached filters cost."""
    found = []
    for style in styles(rows):
        here = [row for row in rows if row.style == style]
        found += [_reads(style, here), _times(style, here), _cached(style, here)]
    return found


def _name(row: Row) -> list[str]:
    return [str(contender(row)), f"{row.filter_bits_per_key:.2f}"]


def _ns(value: float) -> str:
    return "" if math.isnan(value) else f"{value:,.0f}"


def _reads(style: str, rows: Sequence[Row]) -> Table:
    cells = [
        [
            *_name(row),
            f"{row.absent_block_reads_per_lookup:.4f}",
            f"{row.absent_block_reads_expected:.4f}",
            *_rates(row),
            f"{row.absent_filter_probes_per_lookup:.2f}",
            f"{row.absent_fence_searches_per_lookup:.3f}",
            f"{row.present_block_reads_per_lookup:.3f}",
            f"{row.filter_disk_bytes_per_key:.2f}",
        ]
        for row in rows
    ]
    headings = (
        "filters",
        "bits/key",
        "absent:\nreads",
        "\nexpected",
        "rate, %\n(95 % interval)",
        "\nexact",
        "\nprobes",
        "index\nsearches",
        "present:\nreads",
        "disk\nbytes/key",
    )
    shape = rows[0].shape
    note = f"Per look-up, no block cache.  Runs, newest first, as level:entries: {shape}."
    return Table(f"Counts, {style}", headings, cells, note)


def _rates(row: Row) -> list[str]:
    if not row.filter_probes:
        return ["", ""]
    low, high = row.false_positive_rate_low * 100, row.false_positive_rate_high * 100
    return [
        f"{row.false_positive_rate * 100:.3g} ({low:.3g}-{high:.3g})",
        f"{row.false_positive_rate_exact * 100:.3g}",
    ]


def _times(style: str, rows: Sequence[Row]) -> Table:
    cells = [
        [
            *_name(row),
            f"{row.absent_warm_us_p50:.1f}",
            f"{row.absent_warm_us_p95:.1f}",
            f"{row.absent_warm_us_p99:.1f}",
            f"{row.present_warm_us_p50:.1f}",
            f"{row.present_warm_us_p95:.1f}",
            f"{row.present_warm_us_p99:.1f}",
            _ns(row.fence_search_ns),
            _ns(row.filter_probe_ns),
            f"{index_share(rows, row):.0%}",
            _ns(row.filter_build_ns_per_key),
        ]
        for row in rows
    ]
    headings = (
        "filters",
        "bits/key",
        "absent, µs\np50",
        "\np95",
        "\np99",
        "present, µs\np50",
        "\np95",
        "\np99",
        "index\nsearch, ns",
        "filter\nprobe, ns",
        "index share\nof absent",
        "build,\nns/key",
    )
    note = f"Everything in memory, {rows[0].lsmkv_build} build.  Not repeatable to the digit."
    return Table(f"Times, {style}", headings, cells, note)


def _cached(style: str, rows: Sequence[Row]) -> Table:
    cells = []
    for row in rows:
        if not row.filter_bytes:
            continue
        cell = [*_name(row), f"{row.largest_filter_read_bytes:,}"]
        for order in ORDERS:
            cell += [f"{filter_reads(row, order):.2f}", f"{filter_read_bytes(row, order):,.0f}"]
        cells.append(cell)
    headings = ["filters", "bits/key", "largest\nread, bytes"]
    for text in ORDERS.values():
        headings += [f"{text}:\nreads", "\nbytes"]
    note = (
        f"Filters read per absent look-up; the block cache is {rows[0].cached_share:.0%} of the "
        "size of the filters."
    )
    return Table(f"Filters fetched on demand, {style}", headings, cells, note)
