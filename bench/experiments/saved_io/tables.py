"""The tables of ``saved-io``: absent keys of every store, each store, and hash strategies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.saved_io.rows import Row
from bench.harness.tables import Shown, Table, percent, table_of
from lsmkv.options import KIB


def _requested(row: Row) -> str:
    return "none" if row.error_rate_requested is None else percent(row.error_rate_requested)


def measured_rate(row: Row) -> str | None:
    if row.error_rate_measured is None:
        return None
    low, high = row.error_rate_low or 0.0, row.error_rate_high or 0.0
    return f"{percent(row.error_rate_measured)} ({percent(low)}-{percent(high)})"


def _saved(row: Row, share: float | None) -> str:
    return "" if row.error_rate_requested is None else f"{(share or 0.0) * 100:.2f}"


def _os_check(row: Row) -> str:
    if row.os_read_bytes is None or not row.counted_read_bytes:
        return row.os_check
    ratio = f"{row.os_read_bytes / row.counted_read_bytes:.4f}"
    return ratio + (" FAILED" if row.os_check == "FAILED" else "")


_RATES: Final = (Shown("p asked\n%", _requested), "error_rate_exact")
_READS: Final = (
    "data_block_reads",
    "data_block_reads_unfiltered",
    Shown("saved\n%", lambda row: _saved(row, row.reads_saved_gross_share)),
    Shown("net\n%", lambda row: _saved(row, row.reads_saved_net_share)),
    "filter_bytes_per_key",
)


def summary(rows: Sequence[Row]) -> Table:
    """The lookups of absent keys."""
    several = len({row.filter_policy for row in rows}) > 1

    def store(row: Row) -> str:
        name = f"{row.dataset} {(row.block_size_bytes or 0) // KIB} KiB x {row.run_count}"
        return f"{name}, {row.filter_policy}" if several else name

    return table_of(
        "Absent keys (data set, block size x runs)",
        rows,
        (
            Shown("store", store),
            *_RATES,
            Shown("measured, %\n(95 % interval)", measured_rate),
            *_READS,
            Shown("cold\nµs", "cold_us_mean", ".1f"),
            Shown("OS bytes\n/ ours", _os_check),
        ),
        "p none: tables without filters. Reads are of data blocks, block cache off.",
    )


def of_store(rows: Sequence[Row]) -> Table:
    """The lookups in the stores of one shape."""
    first = rows[0]
    kib, runs = (first.block_size_bytes or 0) // KIB, first.run_count
    return table_of(
        f"{first.dataset}: {first.entry_count:,} entries, {kib} KiB blocks ({first.block_count:,}), "
        f"{runs} run{'s' * (runs != 1)}, {first.filter_policy}",
        [row for row in rows if row.repetition == 0],
        (
            "hit_ratio",
            *_RATES,
            Shown("measured\n% (95 % interval)", measured_rate),
            *_READS,
            "cold_us_mean",
            "cold_us_p99",
            "warm_us_mean",
            "warm_us_p99",
            Shown("bytes by OS\n/ ours", _os_check),
        ),
        left=0,
        brief=False,
    )


def of_strategies(rows: Sequence[Row]) -> Table:
    """Filters without a store."""
    return table_of(
        f"Filters of {rows[0].entry_count} keys alone, by hash strategy",
        [row for row in rows if row.repetition == 0],
        (
            "hash_strategy",
            Shown("p asked, %", _requested),
            Shown("exact, %", "error_rate_exact", percent),
            Shown("measured, % (95 % interval)", measured_rate),
            Shown(
                "measured / exact",
                lambda row: (row.error_rate_measured or 0.0) / (row.error_rate_exact or 1.0),
                ".2f",
            ),
        ),
        brief=False,
    )
