"""The story of ``wasted-reads``: failures, and the section of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.wasted_reads.charts import charts
from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.tables import (
    BASELINE,
    at_budget,
    budgets,
    fewer,
    named,
    tables,
)
from bench.experiments.wasted_reads.tasks import NO_FILTER
from bench.harness.story import Story

OURS: Final = "lsmkv, ribbon"
DOCUMENTED: Final = (6, 10, 16)
"""Budgets of the documentation's tables, in bits per key."""

_UNBUDGETED: Final = ("leveldb",)
"""Engines whose filters cannot be made to fit into a budget."""


def story(rows: Sequence[Row]) -> Story:
    return Story(
        tables(rows),
        charts(rows),
        failures(rows),
        headline=_headline(rows),
    )


def _headline(rows: Sequence[Row]) -> str:
    if not budgets(rows):
        return ""
    bits = typical_budget(rows)
    here = at_budget(rows, bits)
    ours, base = named(here, OURS), named(here, BASELINE)
    if ours is None:
        return ""
    times = fewer(ours, base)
    beside = f", {times} times fewer than {BASELINE}" if times != "-" else ""
    return (
        f"At {bits:g} bits per key {OURS}, wastes {ours.block_reads:,} reads in {ours.lookups:,} lookups"
        f"{beside}."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises."""
    found = []
    for row in rows:
        name = f"{row.name}, {row.budget_bits_per_key:g} bits per key"
        if row.found:
            found.append(f"{name}: {row.found} absent keys were found")
        expected = row.filters_asked if row.filters == NO_FILTER else row.filter_false_positives
        if expected is not None and not 0 <= row.block_reads - expected <= row.most_double_reads:
            found.append(
                f"{name}: {row.block_reads:,} reads, but {expected:,} searches to read for"
            )
        if row.outside_reads not in (None, row.block_reads):
            found.append(
                f"{name}: {row.block_reads:,} reads, but an outsider counts {row.outside_reads:,}"
            )
        if row.filters == NO_FILTER:
            continue
        over = row.filter_bits_per_key > row.budget_bits_per_key
        if over and row.engine not in _UNBUDGETED:
            found.append(f"{name}: {row.filter_bits_per_key:.3f} bits per key exceed the budget")
    return found


def typical_budget(rows: Sequence[Row]) -> float:
    """The budget nearest to 10 bits per key."""
    return min(budgets(rows), key=lambda bits: abs(bits - 10))
