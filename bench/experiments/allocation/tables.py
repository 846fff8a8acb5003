"""The tables of ``allocation``, and which rows each needs."""

from __future__ import annotations

from collections.abc import Sequence

from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.tasks import BITS, LEVELS, SIZE_RATIO
from bench.harness.intervals import FEWEST_EVENTS, rate_interval
from bench.harness.tables import Shown, Table, table_of


def by_bits(rows: Sequence[Row]) -> list[Row]:
    """The trees of the usual levels and size ratio, by filter memory."""
    return [row for row in rows if (row.level_count, row.size_ratio) == (LEVELS, SIZE_RATIO)]


def by_levels(rows: Sequence[Row]) -> list[Row]:
    found = [row for row in rows if (row.size_ratio, row.bits_per_key) == (SIZE_RATIO, BITS)]
    return sorted(found, key=lambda row: row.level_count)


def by_ratio(rows: Sequence[Row]) -> list[Row]:
    found = [row for row in rows if (row.level_count, row.bits_per_key) == (LEVELS, BITS)]
    return sorted(found, key=lambda row: row.size_ratio)


def interval(row: Row) -> tuple[float, float]:
    """The 95 % interval of the measured reads; runs without filters are read for certain."""
    certain, asked = row.unfiltered_reads, row.filters_asked
    low, high = rate_interval(row.wasted_reads - certain, asked)
    return (certain + low * asked) / row.lookup_count, (certain + high * asked) / row.lookup_count


def by_formula(row: Row) -> str:
    if row.wasted_reads < FEWEST_EVENTS:
        return "-"
    return f"{row.measured_reads / row.formula_reads:.2f}"


def _measured(row: Row) -> str:
    low, high = interval(row)
    return f"{row.measured_reads:.4f} ({low:.4f}-{high:.4f})"


def policies(rows: Sequence[Row]) -> Table:
    """The allocations beside each other, in the usual trees with the usual memory."""
    here = [row for row in by_bits(rows) if row.bits_per_key == BITS]
    return table_of(
        f"Policies: {SIZE_RATIO} times the keys in each of {LEVELS} levels, {BITS:g} bits per key of one "
        "rate for all",
        here,
        (
            "style",
            "allocation",
            Shown("runs", "run_count"),
            "filter_bits_per_key",
            "formula_reads",
            Shown("reads of an absent key (95 % interval)", _measured),
            Shown("measured\n/ formula", by_formula),
            "present_reads",
        ),
        "uniform: one rate for all runs; monkey: rates as the runs' sizes, in the same memory; hits: the "
        "uniform rate, and no filters in the last level (RocksDB's optimize_filters_for_hits).",
        left=2,
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    axes = (
        ("filter memory", by_bits(rows)),
        ("number of levels", by_levels(rows)),
        ("size ratio", by_ratio(rows)),
    )
    return [_of_axis(name, here) for name, here in axes]


def _of_axis(name: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Reads of an absent key by {name}",
        [row for row in rows if row.allocation != "hits"],
        (
            "style",
            "allocation",
            "size_ratio",
            "level_count",
            Shown("runs", "run_count"),
            "filter_bits_per_key",
            "formula_reads",
            Shown("very many\nlevels", "endless_reads", ".4f"),
            Shown("measured (95 % interval)", _measured),
            Shown("measured\n/ formula", by_formula),
        ),
        "very many levels: Dostoevsky's closed form for Monkey's rates, which a tree of few levels is "
        "below.",
        left=2,
        brief=False,
    )
