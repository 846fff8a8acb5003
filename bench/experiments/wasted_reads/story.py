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
from bench.harness.story import Story, checked

OURS: Final = "lsmkv, ribbon"
_UNBUDGETED: Final = ("leveldb",)
"""Engines whose filters cannot be made to fit into a budget."""


def story(rows: Sequence[Row]) -> Story:
    return Story(
        [*tables(rows), *checked(_told(rows), _intervals(rows))],
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


def _told(rows: Sequence[Row]) -> tuple[str, str]:
    what = "read calls counted outside the process are the blocks read, to the last one"
    told = [row for row in rows if row.outside_reads is not None]
    if not told:
        return what, "not counted: there is no C compiler"
    agreeing = sum(row.outside_reads == row.block_reads for row in told)
    return what, f"{agreeing} of {len(told)} stores"


def _intervals(rows: Sequence[Row]) -> tuple[str, str] | None:
    judged = [row for row in rows if row.error_rate_exact is not None]
    if not judged:
        return None
    held = sum(
        row.error_rate_low <= (row.error_rate_exact or 0.0) <= row.error_rate_high for row in judged
    )
    what = "the exact rate lies in the 95 % interval of the measured one"
    return what, f"{held} of {len(judged)} rows of lsmkv"
