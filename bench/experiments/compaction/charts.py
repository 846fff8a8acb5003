"""The chart of ``compaction``: writing against reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...harness.charts import Chart, Line, Panel
from ...harness.colours import WHITE, series
from . import summary


def charts(summaries: Sequence[summary.Summary]) -> list[Chart]:
    """One chart, of the main load, if that was measured."""
    main = summary.of_load(summaries, summary.MAIN_LOAD)
    if not main:
        return []
    rates = sorted({each.config.error_rate for each in main}, reverse=True)
    return [
        Chart(
            "compaction-trade-off",
            "Writing against reading",
            "Each point is a size ratio, ascending along the line: what is written per byte handed over, "
            "and the blocks that a lookup of an absent key reads, averaged over the cycle. Lower left is "
            "better. Hollow, dotted: filters allocated by Monkey.",
            [
                Panel(
                    lines=list(_lines([each for each in main if each.config.error_rate == rate])),
                    title=f"p = {rate * 100:g} %",
                    x="write amplification",
                    y="" if number else "blocks read per absent lookup",
                    log="y",
                )
                for number, rate in enumerate(rates)
            ],
            legend=3,
            same_y=False,
            width=3.2 * max(2, len(rates)) + 0.6,
            height=4.2,
        )
    ]


def _lines(main: Sequence[summary.Summary]) -> Iterator[Line]:
    for number, style in enumerate(summary.STYLES):
        for allocation in summary.ALLOCATIONS:
            found = [
                each
                for each in main
                if (each.config.style, each.config.allocation) == (style, allocation)
            ]
            found.sort(key=lambda each: each.config.size_ratio)
            points = [
                (each.row.write_amplification, each.row.absent_reads_expected_mean)
                for each in found
            ]
            look = series(number)
            if allocation == "monkey":
                look |= {"linestyle": ":", "markerfacecolor": WHITE}
            yield Line(f"{style}, {allocation}", points, look)
