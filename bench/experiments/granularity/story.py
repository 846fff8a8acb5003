"""The story of ``granularity``: findings and failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from bench.experiments.granularity.charts import charts
from bench.experiments.granularity.groups import (
    BLOCK_BLOOM,
    BLOCK_RIBBON,
    KINDS,
    TABLE_BLOOM,
    TABLE_FUSE,
    TABLE_KINDS,
    TABLE_RIBBON,
    at_budget,
    budgets,
    contender,
    fence_search_ns,
    index_share,
    kind,
    reads_at,
    series,
    styles,
    textbook_reads,
    typical_budget,
)
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.tables import tables
from bench.experiments.granularity.verdict import (
    ORDERS,
    filter_read_bytes,
    filter_reads,
    verdicts,
)
from bench.harness.intervals import ratio_interval
from bench.harness.story import Story
from lsmkv.options import FilterAllocation

BUDGET_TOLERANCE: Final = 0.05
"""The largest accepted deviation of filter memory from its budget."""

_ALLOCATIONS: Final[dict[FilterAllocation, str]] = {"uniform": "uniform", "monkey": "Monkey"}


def story(rows: list[Row]) -> Story:
    """Findings, tables and charts; failures where counts contradict each other."""
    findings = [_intervals(rows)]
    if budgets(rows):
        findings = [
            *verdicts(rows),
            *(_least_reads(rows, style) for style in styles(rows)),
            _small_filters(rows),
            *(_monkey(rows, style) for style in styles(rows)),
            _monkey_memory(rows),
            *(_fuse(rows, style) for style in styles(rows)),
            *(_ribbon(rows, style) for style in styles(rows)),
            *(_index_search(rows, style) for style in styles(rows)),
            _bare(rows),
            _cached(rows),
            _best_per_table(rows),
            _disk(rows),
            *findings,
        ]
    return Story(findings, tables(rows), charts(rows), failures(rows))


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises."""
    found = []
    for style in styles(rows):
        shapes = {row.shape for row in rows if row.style == style}
        if len(shapes) > 1:
            found.append(f"{style} trees have different shapes: {' and '.join(sorted(shapes))}")
    for row in rows:
        name = f"{row.style}, {contender(row)}"
        if row.wrong_answers:
            found.append(f"{name}: {row.wrong_answers} wrong answers")
        if row.miscounted:
            found.append(f"{name}: counters are off by {row.miscounted} from the key ranges")
        budget = row.budget_bits_per_key
        if budget is not None and contender(row).meets_any_budget:
            off = abs(row.filter_bits_per_key / budget - 1)
            if off > BUDGET_TOLERANCE:
                found.append(f"{name}: {off:.1%} off its budget of {budget:g} bits per key")
    return found


def _least_reads(rows: Sequence[Row], style: str) -> str:
    parts = []
    for bits in budgets(rows):
        here = [row for row in rows if row.style == style and row.budget_bits_per_key == bits]
        best = min(here, key=lambda row: reads_at(row, bits))
        least = {
            granularity: min(reads_at(row, bits) for row in here if row.granularity == granularity)
            for granularity in ("block", "table")
        }
        apart = abs(least["block"] / least["table"] - 1)
        parts.append(
            f"at {bits:g} bits {contender(best)} ({reads_at(best, bits):.2g}; "
            f"block and table {apart:.1%} apart)"
        )
    runs = next(row.runs for row in rows if row.style == style)
    return (
        f"Fewest data blocks read for an absent key, {style}, {runs} runs, by the exact rates, corrected "
        f"for unused budget by the slope of each kind of filter: {'; '.join(parts)}."
    )


def _small_filters(rows: Sequence[Row]) -> str:
    bits, style = typical_budget(rows), styles(rows)[0]
    block = at_budget(rows, style, BLOCK_BLOOM, "uniform", bits)
    table = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
    more = block.false_positive_rate_exact / table.false_positive_rate_exact - 1
    reads = block.absent_block_reads_expected / table.absent_block_reads_expected - 1
    return (
        f"Small filters are wrong more often: at {bits:g} bits per key the exact rate is "
        f"{block.false_positive_rate_exact:.3%} for {block.block_keys} keys and "
        f"{table.false_positive_rate_exact:.3%} for a table's, {more:+.1%}. That is {reads:+.1%} in "
        "block reads, as either way a key between two blocks costs none."
    )


def _monkey(rows: Sequence[Row], style: str) -> str:
    parts = []
    for bits in budgets(rows):
        alike = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
        monkey = at_budget(rows, style, TABLE_BLOOM, "monkey", bits)
        factor = reads_at(alike, bits) / reads_at(monkey, bits)
        measured = "no read seen"
        if monkey.absent_block_reads_per_lookup:
            ratio = alike.absent_block_reads_per_lookup / monkey.absent_block_reads_per_lookup
            low, high = _counted_interval(alike, monkey)
            measured = f"{ratio:.2f} counted, 95 % interval {low:.2f} to {high:.2f}"
        ideal = textbook_reads(alike.run_entries, bits, "uniform") / textbook_reads(
            alike.run_entries, bits, "monkey"
        )
        parts.append(f"{factor:.2f} at {bits:g} bits ({measured}; {ideal:.2f} in theory)")
    return (
        f"Monkey divides the reads of absent keys, {style}, one Bloom filter per table, equal memory, "
        f"by {', '.join(parts)}."
    )


def _counted_interval(row: Row, other: Row) -> tuple[float, float]:
    """The interval of how many times fewer blocks ``other`` read; the same keys were asked in both."""
    reads, fewer = (
        round(each.absent_block_reads_per_lookup * each.absent_lookups) for each in (row, other)
    )
    repeated = max(1.0, row.absent_lookups / row.entries)
    return ratio_interval(reads, fewer, repeated, repeated)


def _monkey_memory(rows: Sequence[Row]) -> str:
    parts = []
    bits = typical_budget(rows)
    for style in styles(rows):
        row = at_budget(rows, style, TABLE_BLOOM, "monkey", bits)
        alike = row.same_rate_uniform_bits_per_key or math.nan
        more = row.filter_bits_per_key / alike - 1
        parts.append(
            f"{style} {row.filter_bits_per_key:.2f} bits per key where uniform rates take "
            f"{alike:.2f} ({more:+.1%})"
        )
    return (
        "The same error_rate is not the same memory: a table keeps the rate that the smaller tree at "
        f"its writing gave it, so Monkey, as delivered, takes for {'; '.join(parts)}. "
        "The comparisons here correct for it by a higher error_rate."
    )


def _fuse(rows: Sequence[Row], style: str) -> str:
    parts = []
    for allocation, words in _ALLOCATIONS.items():
        for fuse in series(rows, style, TABLE_FUSE, allocation):
            bits = fuse.filter_bits_per_key
            bloom = min(
                series(rows, style, TABLE_BLOOM, allocation),
                key=lambda row: abs(row.filter_bits_per_key - bits),
            )
            ratio = fuse.absent_block_reads_expected / reads_at(bloom, bits)
            parts.append(f"{ratio:.2f} at {bits:.1f} bits, {words}")
    return (
        f"Binary fuse filters per table, {style}: reads of absent keys by those of Bloom filters of the "
        f"same memory and allocation (the nearest budget, by Bloom's slope) are {'; '.join(parts)}."
    )


def _ribbon(rows: Sequence[Row], style: str) -> str:
    parts = []
    for words, ribbon_kind, bloom_kind in (
        ("per block", BLOCK_RIBBON, BLOCK_BLOOM),
        ("per table", TABLE_RIBBON, TABLE_BLOOM),
    ):
        for bits in budgets(rows):
            ribbon = at_budget(rows, style, ribbon_kind, "uniform", bits)
            bloom = at_budget(rows, style, bloom_kind, "uniform", bits)
            at = ribbon.filter_bits_per_key
            counted = "none counted"
            if ribbon.absent_block_reads_per_lookup:
                ratio = bloom.absent_block_reads_per_lookup / ribbon.absent_block_reads_per_lookup
                counted = f"{ratio:.2f} counted, Bloom's at {bloom.filter_bits_per_key:.2f}"
            parts.append(
                f"{reads_at(bloom, at) / ribbon.absent_block_reads_expected:.2f} {words} at "
                f"{at:.2f} bits ({counted})"
            )
    return (
        f"Ribbon filters, {style}, uniform: Bloom filters of the same memory (the same budget, by "
        f"Bloom's slope) read so many times the blocks for an absent key: {'; '.join(parts)}."
    )


def _index_search(rows: Sequence[Row], style: str) -> str:
    bits = typical_budget(rows)
    block = at_budget(rows, style, BLOCK_BLOOM, "uniform", bits)
    table = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
    return (
        f"Index searches, {style}, {bits:g} bits, uniform: {block.absent_fence_searches_per_lookup:.2f} "
        f"for an absent key per block, {table.absent_fence_searches_per_lookup:.3f} per table. At "
        f"{fence_search_ns(rows, style):.0f} ns each by itself, that is "
        f"{index_share(rows, block):.0%} and {index_share(rows, table):.1%} of the median warm lookup "
        f"({block.absent_warm_us_p50:.1f} and {table.absent_warm_us_p50:.1f} µs). Of the "
        f"{block.lsmkv_build} build: the other has other times and shares; the number of searches stays."
    )


def _bare(rows: Sequence[Row]) -> str:
    bits, parts = typical_budget(rows), []
    for style in styles(rows):
        bare = next(row for row in rows if row.style == style and kind(row) == "no filters")
        block = at_budget(rows, style, BLOCK_BLOOM, "uniform", bits)
        table = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
        parts.append(
            f"{style} {bare.absent_warm_us_p50:.1f} µs without filters, "
            f"{block.absent_warm_us_p50:.1f} with those per block, {table.absent_warm_us_p50:.1f} "
            "per table"
        )
    return (
        "With every block cached a filter saves only the search in the block. The median absent "
        f"lookup then takes: {'; '.join(parts)} ({bits:g} bits, {rows[0].lsmkv_build} build)."
    )


def _cached(rows: Sequence[Row]) -> str:
    bits, parts = typical_budget(rows), []
    for style in styles(rows):
        block = at_budget(rows, style, BLOCK_BLOOM, "uniform", bits)
        table = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
        cache = table.filter_bytes * table.cached_share
        figures = ", ".join(
            f"{text} {_ratio(filter_read_bytes(table, order), filter_read_bytes(block, order))} "
            f"({filter_reads(block, order):.2f} and {filter_reads(table, order):.2f} reads)"
            for order, text in ORDERS.items()
        )
        parts.append(
            f"{style}, cache {cache:,.0f} bytes, one read at most {block.largest_filter_read_bytes:,} "
            f"per block and {table.largest_filter_read_bytes:,} per table: {figures}"
        )
    return (
        f"Filters fetched on demand, {bits:g} bits: bytes read for filters per table, as a multiple of "
        "those per block (and reads for an absent lookup per block and per table): "
        f"{'; '.join(parts)}."
    )


def _ratio(value: float, other: float) -> str:
    return f"{value / other:.1f}" if other else "(per block none)"


def _best_per_table(rows: Sequence[Row]) -> str:
    bits, parts = typical_budget(rows), []
    for style in styles(rows):
        here = [at_budget(rows, style, name, "uniform", bits) for name in TABLE_KINDS]
        picks = (
            ("reads of absent keys", min(here, key=lambda row: reads_at(row, bits))),
            ("warm absent lookups", min(here, key=lambda row: row.absent_warm_us_p50)),
            ("warm present lookups", min(here, key=lambda row: row.present_warm_us_p50)),
            ("building", min(here, key=lambda row: row.filter_build_ns_per_key)),
        )
        found = ", ".join(f"{what} {best.policy}" for what, best in picks)
        parts.append(f"{style}: {found}")
    return (
        f"Best kind of filter per table near {bits:g} bits, uniform (binary-fuse and ribbon "
        f"at their own sizes): {'; '.join(parts)}."
    )


def _disk(rows: Sequence[Row]) -> str:
    bits, style = typical_budget(rows), styles(rows)[0]
    block = at_budget(rows, style, BLOCK_BLOOM, "uniform", bits)
    table = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
    return (
        f"On disk filters per block take {block.filter_disk_bytes_per_key:.2f} bytes a key and those per "
        f"table {table.filter_disk_bytes_per_key:.2f} ({bits:g} bits): each block embeds a copy of its "
        f"own. That is {block.filter_disk_bytes / block.store_bytes:.1%} and "
        f"{table.filter_disk_bytes / table.store_bytes:.1%} of the store, and "
        f"{block.present_read_bytes_per_lookup:,.0f} and {table.present_read_bytes_per_lookup:,.0f} "
        f"bytes read for a present key. The index takes {table.index_bytes / table.entries:.2f} bytes a "
        "key in memory, beside the filters, either way."
    )


def _intervals(rows: Sequence[Row]) -> str:
    counted = [row for row in rows if kind(row) in KINDS]
    held = sum(
        row.false_positive_rate_low <= row.false_positive_rate_exact <= row.false_positive_rate_high
        for row in counted
    )
    return (
        f"The exact rate lies in the 95 % interval of the measured one in {held} of "
        f"{len(counted)} rows; rows of one tree share their absent keys."
    )
