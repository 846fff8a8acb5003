"""The tables of ``granularity``: reads, times, and the cost of cached filters in each tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.granularity.groups import contender, index_share, styles
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.verdict import ORDERS
from bench.harness.tables import Shown, Table, percent, table_of

_NAME: Final = (Shown("filters", contender, str), "filter_bits_per_key")


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for style in styles(rows):
        here = [row for row in rows if row.style == style]
        found += [_reads(style, here), _times(style, here), _cached(style, here)]
    return found


def _rate(row: Row) -> str:
    if not row.filter_probes:
        return ""
    low, high = percent(row.false_positive_rate_low), percent(row.false_positive_rate_high)
    return f"{percent(row.false_positive_rate)} ({low}-{high})"


def _exact_rate(row: Row) -> str:
    return percent(row.false_positive_rate_exact) if row.filter_probes else ""


def _reads(style: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Counts, {style}",
        rows,
        (
            *_NAME,
            "absent_block_reads_per_lookup",
            "absent_block_reads_expected",
            Shown("rate, %\n(95 % interval)", _rate),
            Shown("\nexact", _exact_rate),
            "absent_filter_probes_per_lookup",
            "absent_fence_searches_per_lookup",
            "present_block_reads_per_lookup",
            "filter_disk_bytes_per_key",
        ),
        f"Per lookup, no block cache.  Runs, newest first, as level:entries: {rows[0].shape}.",
    )


def _times(style: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Times, {style}",
        rows,
        (
            *_NAME,
            *(f"{key}_warm_us_{part}" for key in ("absent", "present") for part in _PERCENTILES),
            "fence_search_ns",
            "filter_probe_ns",
            Shown("index share\nof absent", lambda row: index_share(rows, row), ".0%"),
            "filter_build_ns_per_key",
        ),
        f"Everything in memory, {rows[0].lsmkv_build} build.  Not repeatable to the digit.",
    )


_PERCENTILES: Final = ("p50", "p95", "p99")


def _cached(style: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Filters fetched on demand, {style}",
        [row for row in rows if row.filter_bytes],
        (
            *_NAME,
            "largest_filter_read_bytes",
            *(
                f"cached_{order}_filter_{figure}_per_lookup"
                for order in ORDERS
                for figure in ("reads", "read_bytes")
            ),
        ),
        f"Filters read per absent lookup; the block cache is {rows[0].cached_share:.0%} of the "
        "size of the filters.",
    )
