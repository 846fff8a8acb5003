"""Selects rows, and compares them at equal memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lsmkv.options import FilterAllocation

from ...harness.intervals import rate_interval
from .contenders import Contender
from .rows import Row

LN2_SQUARED: Final = math.log(2.0) ** 2
_RIBBON_NATS_PER_BIT: Final = math.log(2.0) / 1.07  # a column halves the rate, for 1.05 to 1.1 bits
TYPICAL_BITS: Final = 10.0

BLOCK_BLOOM: Final = Contender("block", "bloom", "uniform").kind
BLOCK_RIBBON: Final = Contender("block", "ribbon", "uniform").kind
PARTITION_BLOOM: Final = Contender("partition", "bloom", "uniform").kind
CHUNK_BLOOM: Final = Contender("chunk", "bloom", "uniform").kind
TABLE_BLOOM: Final = Contender("table", "bloom", "uniform").kind
TABLE_RIBBON: Final = Contender("table", "ribbon", "uniform").kind
TABLE_KINDS: Final = (TABLE_BLOOM, TABLE_RIBBON)
BLOOM_KINDS: Final = (BLOCK_BLOOM, PARTITION_BLOOM, CHUNK_BLOOM, TABLE_BLOOM)
"""The same kind of filter at each granularity, the finest first."""

KINDS: Final = (BLOCK_BLOOM, BLOCK_RIBBON, PARTITION_BLOOM, CHUNK_BLOOM, *TABLE_KINDS)


def contender(row: Row) -> Contender:
    return Contender(row.granularity, row.policy, row.allocation)  # type: ignore[arg-type]


def kind(row: Row) -> str:
    """Its granularity and kind of filter."""
    return contender(row).kind


def styles(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.style for row in rows))


def budgets(rows: Sequence[Row]) -> list[float]:
    return sorted({row.budget_bits_per_key for row in rows if row.budget_bits_per_key is not None})


def typical_budget(rows: Sequence[Row]) -> float:
    """The budget nearest to 10 bits per key."""
    return min(budgets(rows), key=lambda bits: abs(bits - TYPICAL_BITS))


def series(rows: Sequence[Row], style: str, wanted: str, allocation: FilterAllocation) -> list[Row]:
    """The rows of one contender on one tree, by ascending memory."""
    found = [
        row for row in rows if (row.style, kind(row), row.allocation) == (style, wanted, allocation)
    ]
    return sorted(found, key=lambda row: row.filter_bits_per_key)


def at_budget(
    rows: Sequence[Row], style: str, wanted: str, allocation: FilterAllocation, bits: float
) -> Row:
    """The row of one contender at a budget, or the nearest: ribbons per table have whole columns."""
    return min(
        series(rows, style, wanted, allocation),
        key=lambda row: (row.budget_bits_per_key != bits, abs(row.filter_bits_per_key - bits)),
    )


def reads_interval(row: Row) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of wasted reads per lookup; filters are taken as given."""
    low, high = rate_interval(row.absent_block_reads, row.filter_probes)
    asked = row.filter_probes / row.absent_lookups
    return low * asked, high * asked


def reads_at(row: Row, bits: float) -> float:
    """Expected reads of an absent key, scaled to ``bits`` per key: for small differences."""
    nats = _RIBBON_NATS_PER_BIT if row.policy == "ribbon" else LN2_SQUARED
    return row.absent_block_reads_expected * math.exp((row.filter_bits_per_key - bits) * nats)
