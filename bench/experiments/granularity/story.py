"""The story of ``granularity``: findings, failures, and the section of a document."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Final

from bench.experiments.granularity.charts import FIRST, charts
from bench.experiments.granularity.groups import (
    BLOCK_BLOOM,
    BLOCK_RIBBON,
    BLOOM_KINDS,
    KINDS,
    PARTITION_BLOOM,
    TABLE_BLOOM,
    TABLE_KINDS,
    TABLE_RIBBON,
    at_budget,
    budgets,
    contender,
    fence_search_ns,
    index_share,
    kind,
    reads_at,
    styles,
    textbook_reads,
    typical_budget,
)
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.tables import summary, tables
from bench.experiments.granularity.verdict import (
    ORDERS,
    filter_read_bytes,
    filter_reads,
    rocksdb_by_ours,
    rocksdb_read_bytes,
    verdicts,
)
from bench.harness.experiment import Results
from bench.harness.intervals import FEWEST_EVENTS, ratio_interval
from bench.harness.pictures import copy_beside, link
from bench.harness.story import Story
from lsmkv.options import KIB, FilterAllocation
from reports.document import provenance

BUDGET_TOLERANCE: Final = 0.05
"""The largest accepted deviation of filter memory from its budget."""

CHUNK_TOLERANCE: Final = 0.05
"""The largest accepted deviation of the wasted reads of chunks from those per table, by exact rates."""

ROCKSDB_FACTOR: Final = 3.0
"""The largest accepted factor between RocksDB's bytes of partitions read and those here."""

ROCKSDB_CACHE_BYTES: Final = 128 * KIB
"""From this cache on they are compared: in a smaller one RocksDB's other blocks take the room."""

_ROCKSDB_READS: Final = 100  # fewer are too few to compare

_ALLOCATIONS: Final[dict[FilterAllocation, str]] = {"uniform": "uniform", "monkey": "Monkey"}


def story(rows: list[Row]) -> Story:
    """Findings, tables and charts; failures where counts contradict each other."""
    findings = [_intervals(rows)]
    first = None
    if budgets(rows):
        first = summary(rows, styles(rows)[0])
        findings = [
            *_counted(rows),
            _searches(rows),
            *verdicts(rows),
            *(_least_reads(rows, style) for style in styles(rows)),
            _monkey_memory(rows),
            *(_ribbon(rows, style) for style in styles(rows)),
            *(_index_search(rows, style) for style in styles(rows)),
            _bare(rows),
            _best_per_table(rows),
            _disk(rows),
            *findings,
        ]
    return Story(findings, tables(rows), charts(rows), failures(rows), first, _headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    if not budgets(rows):
        return ""
    bits, style = typical_budget(rows), styles(rows)[0]
    block, table = (
        reads_at(at_budget(rows, style, wanted, "uniform", bits), bits)
        for wanted in (BLOCK_BLOOM, TABLE_BLOOM)
    )
    return (
        f"At {bits:g} bits per key an absent key reads {block:.4f} blocks with filters per block, "
        f"{table:.4f} with filters per table ({style}, exact rates)."
    )


def _counted(rows: Sequence[Row]) -> list[str]:
    """The first findings, which consist of counts."""
    return [
        _alike(rows),
        *(_loaded(rows, style) for style in styles(rows)),
        *_rocksdb(rows),
        _small_filters(rows),
        *(_monkey(rows, style) for style in styles(rows)),
    ]


def section(results: Results[Row]) -> str:
    """The section of a document: tables of counts, the picture, and findings without times."""
    rows = results.rows
    found = [summary(rows, style).to_markdown() for style in styles(rows)]
    note = summary(rows, styles(rows)[0]).note
    return (
        "\n\n".join(
            [
                f"Command: `{results.header['command']}`. {provenance(results.header)}",
                *(
                    f"{name} is not installed, and was not asked."
                    for name in results.header["missing"]
                ),
                *(table.removesuffix(note).rstrip() for table in found),
                note,
                link(FIRST, "Filter bytes read for an absent key, cached"),
                "\n".join(f"- {finding}" for finding in _counted(rows)),
            ]
        )
        + "\n"
    )


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the first chart as a picture beside the document."""
    return copy_beside(given, FIRST)


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
        found += _chunk_failures(row, rows) + _rocksdb_failures(row)
    return found


def _chunk_failures(row: Row, rows: Sequence[Row]) -> list[str]:
    """Filters of chunks must be as good as those per table."""
    budget = row.budget_bits_per_key
    if contender(row).chunk_bytes is None or budget is None:
        return []
    table = at_budget(rows, row.style, TABLE_BLOOM, row.allocation, budget)  # type: ignore[arg-type]
    apart = abs(reads_at(row, budget) / reads_at(table, budget) - 1)
    if apart <= CHUNK_TOLERANCE:
        return []
    return [
        f"{row.style}, {contender(row)}, {budget:g} bits: wasted reads {apart:.1%} from those per table"
    ]


def _rocksdb_failures(row: Row) -> list[str]:
    """RocksDB must read about as many bytes of partitions as are read here."""
    cache_bytes = row.filter_bytes * row.cached_share
    if kind(row) != PARTITION_BLOOM or cache_bytes < ROCKSDB_CACHE_BYTES:
        return []
    found = []
    for order, words in ORDERS.items():
        ours, theirs = filter_read_bytes(row, order), rocksdb_read_bytes(row, order)
        if theirs is None or filter_reads(row, order) * row.cached_lookups < _ROCKSDB_READS:
            continue
        if not 1 / ROCKSDB_FACTOR <= theirs / ours <= ROCKSDB_FACTOR:
            found.append(
                f"{row.style}, {contender(row)}, {words}: RocksDB reads {theirs:,.0f} bytes of filters "
                f"for a lookup, {ours:,.0f} are read here"
            )
    return found


def _alike(rows: Sequence[Row]) -> str:
    """How little the granularity matters to wasted reads."""
    bits, parts = typical_budget(rows), []
    for style in styles(rows):
        here = [at_budget(rows, style, wanted, "uniform", bits) for wanted in BLOOM_KINDS]
        reads = [reads_at(row, bits) for row in here]
        worst = here[reads.index(max(reads))]
        parts.append(
            f"{style} {min(reads):.4f} to {max(reads):.4f}, {max(reads) / min(reads) - 1:.1%} apart, "
            f"most {kind(worst)}"
        )
    return (
        f"Bloom filters of the same memory, whatever one covers, waste about the same reads of an "
        f"absent key, by their exact rates: {'; '.join(parts)} ({bits:g} bits per key, uniform)."
    )


def _searches(rows: Sequence[Row]) -> str:
    """Searches of indexes, by what one filter covers."""
    bits, parts = typical_budget(rows), []
    for style in styles(rows):
        figures = []
        for wanted in BLOOM_KINDS:
            row = at_budget(rows, style, wanted, "uniform", bits)
            figures.append(
                f"{row.granularity} {row.absent_fence_searches_per_lookup:.2f} and "
                f"{row.absent_chunk_searches_per_lookup:.2f}"
            )
        parts.append(f"{style} {', '.join(figures)}")
    return (
        "Searches of an index of blocks, and of a shorter one of filters, for an absent key: "
        f"{'; '.join(parts)} ({bits:g} bits per key, uniform)."
    )


def _loaded(rows: Sequence[Row], style: str) -> str:
    bits, parts = typical_budget(rows), []
    here = [at_budget(rows, style, wanted, "uniform", bits) for wanted in BLOOM_KINDS]
    for row in here:
        figures = ", ".join(
            f"{text} {filter_read_bytes(row, order):,.0f} in {filter_reads(row, order):.2f} reads"
            for order, text in ORDERS.items()
        )
        most = f"at most {row.largest_filter_read_bytes:,} at once"
        parts.append(f"{row.granularity} ({most}) {figures}")
    table = here[-1]
    largest, cache = table.largest_filter_read_bytes, table.filter_bytes * table.cached_share
    fits = "fits, and drives others out" if largest <= cache else "does not fit, and is not kept"
    return (
        f"Filter bytes read for an absent key, {style}, {bits:g} bits, through a cache of "
        f"{cache:,.0f} bytes, {table.cached_share:.0%} of the filters: {'; '.join(parts)}. The largest "
        f"table's filter, {largest / table.filter_bytes:.0%} of all, {fits}."
    )


def _rocksdb(rows: Sequence[Row]) -> list[str]:
    bits, parts = typical_budget(rows), []
    for style in styles(rows):
        row = at_budget(rows, style, PARTITION_BLOOM, "uniform", bits)
        ratios = []
        for order, words in ORDERS.items():
            if (ratio := rocksdb_by_ours(row, order)) is not None:
                ratios.append(f"{ratio:.2f} ({words})")
        if ratios:
            parts.append(
                f"{style} {', '.join(ratios)}, at {row.rocksdb_filter_bits_per_key:.2f} bits per key"
            )
    if not parts:
        return []
    return [
        "RocksDB's own bytes of filter partitions read, in tables of the same keys and a cache of the "
        f"same size, by those here: {'; '.join(parts)}."
    ]


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


def _reads(row: Row) -> int:
    """Data blocks read by all lookups of absent keys."""
    return round(row.absent_block_reads_per_lookup * row.absent_lookups)


def _counted_ratio(more: Row, fewer: Row) -> str:
    """How many times the reads one counts of the other's, with the interval; or their numbers."""
    if min(_reads(more), _reads(fewer)) < FEWEST_EVENTS:
        return f"{_reads(more):,} and {_reads(fewer):,} counted, too few for a ratio"
    ratio = more.absent_block_reads_per_lookup / fewer.absent_block_reads_per_lookup
    low, high = ratio_interval(_reads(more), _reads(fewer))
    return f"{ratio:.2f} counted, {low:.2f}-{high:.2f}"


def _monkey(rows: Sequence[Row], style: str) -> str:
    parts = []
    for bits in budgets(rows):
        alike = at_budget(rows, style, TABLE_BLOOM, "uniform", bits)
        monkey = at_budget(rows, style, TABLE_BLOOM, "monkey", bits)
        factor = reads_at(alike, bits) / reads_at(monkey, bits)
        measured = _counted_ratio(alike, monkey)
        ideal = textbook_reads(alike.run_entries, bits, "uniform") / textbook_reads(
            alike.run_entries, bits, "monkey"
        )
        parts.append(f"{factor:.2f} at {bits:g} bits ({measured}; {ideal:.2f} in theory)")
    return (
        f"Monkey divides the reads of absent keys, {style}, one Bloom filter per table, equal memory, "
        f"by {', '.join(parts)}. Ranges: 95 % intervals of the counted factors."
    )


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
            parts.append(
                f"{reads_at(bloom, at) / ribbon.absent_block_reads_expected:.2f} {words} at "
                f"{at:.2f} bits ({_counted_ratio(bloom, ribbon)}, Bloom's at "
                f"{bloom.filter_bits_per_key:.2f})"
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
        f"Best kind of filter per table near {bits:g} bits, uniform (ribbon "
        f"at its own sizes): {'; '.join(parts)}."
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
        f"{len(counted)} rows; rows of one tree share their absent keys, which do not repeat."
    )
