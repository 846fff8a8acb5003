"""The story of ``adaptive``: what filters waste while a workload shifts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import mean
from typing import Final

from bench.experiments.adaptive.charts import NAME, charts
from bench.experiments.adaptive.rows import Row
from bench.experiments.adaptive.tasks import BUDGET, HOWS, LOADS, MONKEY, POINTS
from bench.harness.experiment import Results, section
from bench.harness.intervals import FEWEST_EVENTS, rate_interval, ratio_interval
from bench.harness.pictures import copy_beside, link
from bench.harness.story import Story
from bench.harness.tables import Table

MOST_MEMORY: Final = 1.05
"""The most that filters may take, by Monkey's."""

_EDGE: Final = 2
"""Points after a shift, and points at the end of a phase."""


def story(rows: Sequence[Row]) -> Story:
    """Table and chart, all computed from ``rows``."""
    return Story([], charts(rows), failures(rows), _summary(rows), _headline(rows))


def of_filters(rows: Sequence[Row], load: str, how: str) -> list[Row]:
    return [row for row in rows if (row.load, row.how) == (load, how)]


def wasted(rows: Sequence[Row]) -> int:
    return sum(row.wasted_reads for row in rows)


def memory_share(rows: Sequence[Row], load: str, how: str) -> float:
    """Memory by that of Monkey's filters."""
    here, monkey = of_filters(rows, load, how), of_filters(rows, load, MONKEY)
    return mean(row.memory_bytes for row in here) / mean(row.memory_bytes for row in monkey)


def failures(rows: Sequence[Row]) -> list[str]:
    """Counts that contradict each other, and filters that take too much."""
    found = [
        f"{row.load}, {row.how}, repetition {row.repetition}, phase {row.phase}: {row.wasted_reads} "
        f"wasted reads where filters let {row.passed} pass"
        for row in rows
        if row.wasted_reads != row.passed
    ]
    found += [
        f"{row.load}, {row.how}, repetition {row.repetition}, phase {row.phase}: {row.last_reads} reads "
        f"wasted, by a second count {row.recounted}"
        for row in rows
        if row.recounted != row.last_reads
    ]
    return found + [
        f"{load}, {how}: {share:.3f} of the memory of Monkey's"
        for load in LOADS
        for how in HOWS
        if (share := memory_share(rows, load, how)) > MOST_MEMORY
    ]


def after_shift(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.phase and row.point < _EDGE]


def at_end(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.point >= POINTS - _EDGE]


def _share(rows: Sequence[Row], load: str) -> tuple[float, float, float] | None:
    """Reads that a budget wastes by those of Monkey, and the interval; None of too few."""
    budget, monkey = (wasted(of_filters(rows, load, how)) for how in (BUDGET, MONKEY))
    if min(budget, monkey) < FEWEST_EVENTS:
        return None
    return budget / monkey, *ratio_interval(budget, monkey)


def _headline(rows: Sequence[Row]) -> str:
    late, early = _share(at_end(rows), LOADS[0]), _share(after_shift(rows), LOADS[0])
    if late is None or early is None:
        return ""
    return (
        f"In the same memory a budget wastes {late[0]:.2f} of Monkey's reads at the end of a phase, and "
        f"{early[0]:.2f} after the hot keys moved."
    )


def _summary(rows: Sequence[Row]) -> Table:
    cells = []
    for load in LOADS:
        for how in HOWS:
            here = of_filters(rows, load, how)
            entries = sum(row.entry_count for row in here)
            cells.append(
                [
                    load,
                    how,
                    f"{8 * sum(row.memory_bytes for row in here) / entries:.2f}",
                    f"{memory_share(rows, load, how):.3f}",
                    _per_10000(here),
                    _per_10000(after_shift(here)),
                    _per_10000(at_end(here)),
                ]
            )
    return Table(
        "Wasted reads per 10,000 lookups of absent keys, of which 9,000 are in a tenth of the key range",
        [
            *("lookups", "filters", "bits/key", "memory,\nby Monkey"),
            *("all (95 % interval)", "after a shift", "end of a phase"),
        ],
        cells,
        f"Filters of the same memory. After a shift: the first {_EDGE} of {POINTS} points of a phase, "
        f"without the first phase; end: the last {_EDGE}. Intervals take reads for independent, which "
        "those of popular keys are not.",
        left=2,
    )


def _per_10000(rows: Sequence[Row]) -> str:
    lookups = sum(row.lookup_count for row in rows)
    low, high = rate_interval(min(wasted(rows), lookups), lookups)
    return f"{10_000 * wasted(rows) / lookups:,.0f} ({10_000 * low:,.0f}-{10_000 * high:,.0f})"


def document(results: Results[Row]) -> str:
    """The section of a document: the picture, then as every experiment."""
    shown = link(NAME, "Wasted reads over time, while the hot tenth of the keys moves")
    return f"{shown}\n\n{section(results.header, story(results.rows))}"


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the chart as a picture beside the document."""
    return copy_beside(given, NAME)
