"""The story of ``allocation``: what the formulas promise, and what is read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from bench.experiments.allocation.charts import NAME, charts
from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.tables import by_bits, policies, tables
from bench.experiments.allocation.tasks import BITS
from bench.harness.experiment import Results
from bench.harness.intervals import FEWEST_EVENTS, ratio_interval
from bench.harness.pictures import copy_beside, link
from bench.harness.story import Story
from reports.document import provenance

TOLERANCE: Final = 0.15
"""The largest accepted deviation of counted reads from the formula, besides what chance explains."""

_SIGMAS: Final = 5.0


def story(rows: Sequence[Row]) -> Story:
    """Tables and chart, all computed from ``rows``."""
    return Story(
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


def section(results: Results[Row]) -> str:
    """The section of a document: the picture and the policies."""
    told = story(results.rows)
    assert told.first is not None
    parts = [
        link(NAME, "Data blocks read for an absent key, by filter memory, levels and size ratio"),
        f"Command: `{results.header['command']}`. {provenance(results.header)}",
        told.first.to_markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the chart as a picture beside the document."""
    return copy_beside(given, NAME)
