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
    """Findings, table and chart, all computed from ``rows``."""
    findings = [_beside_monkey(rows, load) for load in LOADS]
    return Story(findings, [], charts(rows), failures(rows), _summary(rows), _headline(rows))


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
        f"blocks read in vain where filters let {row.passed} pass"
        for row in rows
        if row.wasted_reads != row.passed
    ]
    found += [
        f"{row.load}, {row.how}, repetition {row.repetition}, phase {row.phase}: {row.last_reads} blocks "
        f"read in vain, by a second count {row.recounted}"
        for row in rows
        if row.recounted != row.last_reads
    ]
    return found + [
        f"{load}, {how}: {share:.3f} of the memory of Monkey's"
        for load in LOADS
        for how in HOWS
        if (share := memory_share(rows, load, how)) > MOST_MEMORY
    ]


def _ratio(rows: Sequence[Row], load: str) -> tuple[float, tuple[float, float]] | None:
    """How many times fewer reads a budget wastes than Monkey, and the interval."""
    counts = [wasted(of_filters(rows, load, how)) for how in (MONKEY, BUDGET)]
    if min(counts) < FEWEST_EVENTS:
        return None
    return counts[0] / counts[1], ratio_interval(*counts)


def _headline(rows: Sequence[Row]) -> str:
    found = _ratio(rows, LOADS[0])
    if found is None:
        return ""
    ratio, (low, high) = found
    return (
        f"While the hot tenth of the keys moves, a budget wastes {ratio:.2f} times fewer reads than "
        f"Monkey (95 % interval {low:.2f} to {high:.2f})."
    )


def _beside_monkey(rows: Sequence[Row], load: str) -> str:
    here = [row for row in rows if row.load == load]
    by_repetition = [
        wasted([row for row in of_filters(here, load, MONKEY) if row.repetition == number])
        / max(
            1, wasted([row for row in of_filters(here, load, BUDGET) if row.repetition == number])
        )
        for number in sorted({row.repetition for row in here})
    ]
    parts = [f"{how} {wasted(of_filters(here, load, how)):,}" for how in HOWS]
    lookups = sum(row.lookup_count for row in of_filters(here, load, HOWS[0]))
    return (
        f"{load.capitalize()}: wasted reads of {lookups:,} lookups: {', '.join(parts)}. Monkey's by "
        f"those of a budget: {min(by_repetition):.2f} to {max(by_repetition):.2f} in single "
        "repetitions."
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
                    _per_10000([row for row in here if row.phase and row.point < _EDGE]),
                    _per_10000([row for row in here if row.point >= POINTS - _EDGE]),
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
