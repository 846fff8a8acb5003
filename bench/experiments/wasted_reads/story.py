"""The story of ``wasted-reads``: failures, and the section of a document."""

from __future__ import annotations

from collections.abc import Sequence

from ...harness.intervals import FEWEST_EVENTS
from ...harness.story import Story
from .charts import charts
from .rows import Row
from .tables import at_budget, best_two, budgets, key_sets, tables
from .tasks import NO_FILTER


def story(rows: Sequence[Row]) -> Story:
    return Story(tables(rows), charts(rows), failures(rows), headline=_headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    """In how many sets of keys and budgets lsmkv wastes the fewest reads."""
    pairs = [best_two(at_budget(each, bits)) for each in key_sets(rows) for bits in budgets(each)]
    told = [
        (ours, others) for ours, others in pairs if max(ours or 0, others or 0) >= FEWEST_EVENTS
    ]
    won = sum(others is None or (ours is not None and ours <= others) for ours, others in told)
    if not told:
        return ""
    return (
        f"In {won} of {len(told)} budgets of sets of keys no store wastes fewer reads than lsmkv."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises."""
    found = []
    for row in rows:
        name = f"{row.name}, {row.keys}, {row.value_bytes} bytes, {row.budget_bits_per_key:g} bits a key"
        if row.block_reads is None:
            continue
        if row.found:
            found.append(f"{name}: {row.found} absent keys were found")
        expected = row.lookups if row.filters == NO_FILTER else row.passed
        if expected is not None and not 0 <= row.block_reads - expected <= row.most_double_reads:
            found.append(f"{name}: {row.block_reads:,} reads, {expected:,} searches to read for")
        if row.outside_reads not in (None, row.block_reads):
            found.append(
                f"{name}: {row.block_reads:,} reads, but an outsider counts {row.outside_reads:,}"
            )
        if row.filters != NO_FILTER and row.bits_per_key > row.budget_bits_per_key:
            found.append(f"{name}: {row.bits_per_key:.3f} bits a key exceed the budget")
    return found
