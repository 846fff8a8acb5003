"""The story of ``allocation``: what the formulas promise, and what is read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from bench.experiments.allocation.charts import NAME, charts
from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.tables import by_bits, by_levels, by_ratio, policies, tables
from bench.experiments.allocation.tasks import BITS, LEVELS, SIZE_RATIO
from bench.experiments.allocation.trees import STYLES
from bench.harness.experiment import Results
from bench.harness.intervals import FEWEST_EVENTS, ratio_interval
from bench.harness.pictures import copy_beside, link
from bench.harness.story import Story
from reports.document import provenance

TOLERANCE: Final = 0.15
"""The largest accepted deviation of counted reads from the formula, besides what chance explains."""

_SIGMAS: Final = 5.0


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and chart, all computed from ``rows``."""
    return Story(
        [
            _agreement(rows),
            _monkey(rows),
            _along(rows, "number of levels", "level_count", by_levels),
            _along(rows, "size ratio", "size_ratio", by_ratio),
            *_hits(rows),
        ],
        tables(rows),
        charts(rows),
        failures(rows),
        policies(rows),
        _headline(rows),
    )


def _headline(rows: Sequence[Row]) -> str:
    factors = _factors(rows)
    if not factors:
        return ""
    monkey, factor, (low, high) = factors[0]
    return (
        f"With {BITS:g} bits per key Monkey's rates read {factor:.2f} times fewer blocks for absent keys "
        f"than uniform ones ({monkey.style}; 95 % interval {low:.2f} to {high:.2f})."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The trees whose reads are not those of the formula."""
    return [
        f"{_name(row)}: {row.measured_reads:.4f} reads of an absent key, {row.formula_reads:.4f} by the "
        "formula"
        for row in rows
        if abs(row.wasted_reads - row.formula_reads * row.lookup_count)
        > TOLERANCE * row.formula_reads * row.lookup_count
        + _SIGMAS * row.wasted_reads**0.5
        + _SIGMAS
    ]


def _name(row: Row) -> str:
    return (
        f"{row.style}, T={row.size_ratio}, {row.level_count} levels, {row.allocation}, "
        f"{row.bits_per_key:g} bits"
    )


def _agreement(rows: Sequence[Row]) -> str:
    told = [row for row in rows if row.wasted_reads >= FEWEST_EVENTS]
    ratios = [row.measured_reads / row.formula_reads for row in told]
    return (
        f"Reads of absent keys by those of the formula: {min(ratios):.2f} to {max(ratios):.2f} in "
        f"{len(told)} trees with {FEWEST_EVENTS} reads or more."
    )


def _pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Uniform and Monkey in the same tree and memory."""
    alike = {_tree(row): row for row in rows if row.allocation == "uniform"}
    return [(alike[_tree(row)], row) for row in rows if row.allocation == "monkey"]


def _tree(row: Row) -> tuple[str, int, int, float]:
    return row.style, row.size_ratio, row.level_count, row.bits_per_key


def _factors(rows: Sequence[Row]) -> list[tuple[Row, float, tuple[float, float]]]:
    """Monkey's trees, by what its rates divide the reads, and the intervals, where they can be told."""
    return [
        (
            monkey,
            uniform.wasted_reads / monkey.wasted_reads,
            ratio_interval(uniform.wasted_reads, monkey.wasted_reads),
        )
        for uniform, monkey in _pairs(by_bits(rows))
        if uniform.bits_per_key == BITS
        and min(uniform.wasted_reads, monkey.wasted_reads) >= FEWEST_EVENTS
    ]


def _monkey(rows: Sequence[Row]) -> str:
    formula = {
        _tree(monkey): uniform.formula_reads / monkey.formula_reads
        for uniform, monkey in _pairs(rows)
    }
    parts = [
        f"{monkey.style} {factor:.2f} ({low:.2f}-{high:.2f}; by the formula "
        f"{formula[_tree(monkey)]:.2f})"
        for monkey, factor, (low, high) in _factors(rows)
    ]
    return (
        f"Monkey's rates divide the reads of absent keys, at {BITS:g} bits per key, T = {SIZE_RATIO}, "
        f"{LEVELS} levels, by: {'; '.join(parts)}. In parentheses 95 % intervals."
    )


def _along(
    rows: Sequence[Row], what: str, name: str, chosen: Callable[[Sequence[Row]], list[Row]]
) -> str:
    """How reads grow from the first to the last of an axis, for each kind of tree."""
    parts = []
    for style in STYLES:
        ends = []
        for allocation in ("uniform", "monkey"):
            here = [r for r in chosen(rows) if (r.style, r.allocation) == (style, allocation)]
            first, last = here[0], here[-1]
            ends.append(f"{allocation} {first.measured_reads:.3f} to {last.measured_reads:.3f}")
        parts.append(f"{style} {', '.join(ends)}")
    values = sorted({getattr(row, name) for row in chosen(rows)})
    return (
        f"Reads of an absent key with {BITS:g} bits per key, by {what}, {values[0]} to {values[-1]}: "
        f"{'; '.join(parts)}."
    )


def _hits(rows: Sequence[Row]) -> list[str]:
    parts = []
    for style in STYLES:
        here = {
            row.allocation: row
            for row in by_bits(rows)
            if row.style == style and row.bits_per_key == BITS
        }
        if "hits" not in here:
            return []
        hits, monkey = here["hits"], here["monkey"]
        parts.append(
            f"{style} {hits.filter_bits_per_key:.1f} bits per key, {hits.present_reads:.3f} reads of a "
            f"present key and {hits.measured_reads:.2f} of an absent one (Monkey "
            f"{monkey.filter_bits_per_key:.1f}, {monkey.present_reads:.3f} and "
            f"{monkey.measured_reads:.3f})"
        )
    return [
        f"No filters in the last level (RocksDB's optimize_filters_for_hits): {'; '.join(parts)}. "
        "It suits stores whose lookups find their keys, in trees with one run in the last level."
    ]


def section(results: Results[Row]) -> str:
    """The section of a document: the picture, the policies and the findings."""
    told = story(results.rows)
    assert told.first is not None
    parts = [
        link(NAME, "Data blocks read for an absent key, by filter memory, levels and size ratio"),
        f"Command: `{results.header['command']}`. {provenance(results.header)}",
        told.first.to_markdown(),
        "\n".join(f"- {finding}" for finding in told.findings),
    ]
    return "\n\n".join(parts) + "\n"


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the chart as a picture beside the document."""
    return copy_beside(given, NAME)
