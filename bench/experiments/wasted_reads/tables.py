"""The tables of ``wasted-reads``: one for each budget, and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.tasks import NO_FILTER
from bench.harness.intervals import FEWEST_EVENTS, ratio_interval
from bench.harness.tables import Shown, Table, percent, table_of

BASELINE: Final = "rocksdb, bloom"
"""What the others are compared with."""

NOTE: Final = (
    "filter bytes: as written, one copy; lsmkv holds that in memory, and its files have each filter "
    "twice, in its block and in the table's section of filters. wasted reads: data blocks read by "
    "the lookups, which are all of absent keys. told by an outsider: read calls of the store's files "
    "during the same lookups, counted between the process and its C library. measured: false "
    "positives by filters asked; exact: what theory expects of filters of the sizes of lsmkv's, of "
    "which the very bits of a store are a sample. rate by bound: measured rate by 2^(-bits per key), "
    "which no filter can be below. RocksDB's Bloom / this: how many times fewer wasted reads than "
    "RocksDB's Bloom filter, with the 95 % interval. Intervals take these filters as given: other "
    "filters of such sizes differ by a little more than they say. Wasted reads are not just the measured "
    "rate times the lookups: lsmkv reads nothing for a key that lies between two blocks, and RocksDB "
    "reads two blocks for some of these. lower bound: what filters of exactly the "
    "budget cannot fall below. LevelDB exceeds the budget: it has whole bits per key, and offsets "
    "in its filter blocks. RocksDB has one filter per table, which for ribbon filters is closer to "
    "the bound than one per block. rocksdict has no method that sets ribbon filters; RocksDB's "
    "SetOptions takes them by name."
)


def budgets(rows: Sequence[Row]) -> list[float]:
    return sorted({row.budget_bits_per_key for row in rows if row.filters != NO_FILTER})


def at_budget(rows: Sequence[Row], bits: float) -> list[Row]:
    return [row for row in rows if row.filters != NO_FILTER and row.budget_bits_per_key == bits]


def named(rows: Sequence[Row], name: str) -> Row | None:
    return next((row for row in rows if row.name == name), None)


def fewer(row: Row, base: Row | None) -> str:
    """How many times fewer wasted reads than ``base``, with the interval; "-" if it cannot be told."""
    if base is None or row is base or min(row.block_reads, base.block_reads) < FEWEST_EVENTS:
        return "-"
    low, high = ratio_interval(base.block_reads, row.block_reads)
    return f"{base.block_reads / row.block_reads:.2f} ({low:.2f}-{high:.2f})"


def tables(rows: Sequence[Row]) -> list[Table]:
    found = [_table(at_budget(rows, bits), bits) for bits in budgets(rows)]
    controls = [row for row in rows if row.filters == NO_FILTER]
    return [*found, *([_controls(controls)] if controls else [])]


def _by_bound(row: Row) -> str:
    told = row.block_reads >= FEWEST_EVENTS
    return f"{row.error_rate_measured / row.bound:.2f}" if told else "-"


def _measured(row: Row) -> str:
    return (
        f"{percent(row.error_rate_measured)} "
        f"({percent(row.error_rate_low)}-{percent(row.error_rate_high)})"
    )


def _table(rows: Sequence[Row], bits: float) -> Table:
    base = named(rows, BASELINE)
    table = table_of(
        f"{bits:g} bits per key: {rows[0].lookups:,} lookups of absent keys in "
        f"{rows[0].entries:,} entries",
        rows,
        (
            Shown("store, filters", "name"),
            "filter_bytes",
            "filter_bits_per_key",
            "block_reads",
            "outside_reads",
            Shown("measured, %\n(95 % interval)", _measured),
            "error_rate_exact",
            Shown("rate by\nbound", _by_bound),
            Shown("RocksDB's Bloom\n/ this", lambda row: fewer(row, base)),
        ),
        NOTE,
        empty="-",
    )
    bound = 2.0**-bits
    reads = bound * rows[0].lookups
    last = [
        "lower bound", f"{bits * rows[0].entries / 8:,.0f}", f"{bits:.2f}", f"{reads:,.0f}",
        "-",
        percent(bound), "-", "1.00",
        f"{base.block_reads / reads:.2f}" if base and base.block_reads >= FEWEST_EVENTS else "-",
    ]  # fmt: skip
    return Table(table.title, table.headings, [*table.cells, last], table.note, table.left)


def _controls(rows: Sequence[Row]) -> Table:
    return table_of(
        "Without filters: every lookup that an index does not answer must read a block",
        rows,
        (
            Shown("store", "engine"),
            Shown("lookups", "lookups", ","),
            Shown("to be read", "filters_asked", ","),
            Shown("read", "block_reads", ","),
            "outside_reads",
        ),
        "RocksDB reads two blocks for some keys that lie between these.",
        empty="-",
        brief=False,
    )
