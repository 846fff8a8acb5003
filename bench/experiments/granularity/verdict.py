"""When filters per table are right, and when filters per block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.granularity.groups import (
    BLOCK_BLOOM,
    TABLE_BLOOM,
    at_budget,
    styles,
    typical_budget,
)
from bench.experiments.granularity.rows import Row
from bench.harness.intervals import FEWEST_EVENTS

ORDERS: Final = {
    "uniform": "random keys",
    "hot": "hot keys",
    "near": "neighbours",
}
"""The orders of lookups with cached filters, by their part of column names."""

_EVEN: Final = 0.05  # closer than this is called even

_HEADS: Final = {
    "table": "Per table is right where these decide",
    "block": "Per block is right where these decide",
    "even": "Either will do where these decide, less than 5 % apart",
}


def filter_read_bytes(row: Row, order: str) -> float:
    """Bytes of filters read for a lookup with cached filters."""
    return float(getattr(row, f"cached_{order}_filter_read_bytes_per_lookup"))


def rocksdb_read_bytes(row: Row, order: str) -> float | None:
    """The same as RocksDB counts it; None where it was not asked."""
    found: float | None = getattr(row, f"rocksdb_{order}_filter_read_bytes_per_lookup")
    return found


def rocksdb_reads(row: Row, order: str) -> float | None:
    found: float | None = getattr(row, f"rocksdb_{order}_filter_reads_per_lookup")
    return found


def filter_reads(row: Row, order: str) -> float:
    """Reads of filters for a lookup with cached filters."""
    return float(getattr(row, f"cached_{order}_filter_reads_per_lookup"))


def rocksdb_by_ours(row: Row, order: str) -> float | None:
    """RocksDB's bytes by those here; None where either counted too few reads for a ratio."""
    theirs, read = rocksdb_read_bytes(row, order), rocksdb_reads(row, order)
    if theirs is None or read is None:
        return None
    if min(read, filter_reads(row, order)) * row.cached_lookups < FEWEST_EVENTS:
        return None
    return theirs / filter_read_bytes(row, order)


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Measures won by either granularity, and even ones, with figures.

    Bloom filters both, uniform, at the budget nearest to 10 bits per key.
    """
    bits = typical_budget(rows)
    won: dict[str, dict[str, list[str]]] = {winner: {} for winner in _HEADS}
    for style in styles(rows):
        block = at_budget(rows, style, BLOCK_BLOOM, "uniform", bits)
        table = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
        for what, unit, per_block, per_table in _measures(block, table):
            figures = (
                f"{style} {_figure(per_block)}{unit} per block, {_figure(per_table)} per table"
            )
            won[_winner(per_block, per_table)].setdefault(what, []).append(figures)
    return [
        f"{_HEADS[winner]} (one kind, Bloom; {bits:g} bits per key; uniform): "
        + "; ".join(f"{what} ({', '.join(figures)})" for what, figures in measures.items())
        + "."
        for winner, measures in won.items()
        if measures
    ]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _winner(per_block: float, per_table: float) -> str:
    if abs(per_block - per_table) <= _EVEN * max(per_block, per_table):
        return "even"
    return "block" if per_block < per_table else "table"


def _measures(block: Row, table: Row) -> list[tuple[str, str, float, float]]:
    """Name, unit and both values of each measure; less is better."""
    warm = f"with filters in memory, {block.lsmkv_build} build"
    measures = [
        (
            f"warm absent lookups {warm}",
            " µs",
            block.absent_warm_us_p50,
            table.absent_warm_us_p50,
        ),
        (
            f"warm present lookups {warm}",
            " µs",
            block.present_warm_us_p50,
            table.present_warm_us_p50,
        ),
        (
            "data blocks read for an absent key",
            "",
            block.absent_block_reads_expected,
            table.absent_block_reads_expected,
        ),
        (
            "filter bytes on disk a key",
            "",
            block.filter_disk_bytes_per_key,
            table.filter_disk_bytes_per_key,
        ),
    ]
    share = f"a cache of {block.cached_share:.0%} of the filters"
    measures += [
        (
            f"filter bytes read for absent {text} through {share}",
            "",
            filter_read_bytes(block, order),
            filter_read_bytes(table, order),
        )
        for order, text in ORDERS.items()
    ]
    return measures
