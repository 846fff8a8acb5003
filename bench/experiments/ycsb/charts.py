"""The charts of ``ycsb``: throughput, and the zipfian generator against its law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from matplotlib.figure import Figure

from bench.experiments.ycsb.rows import Cells
from bench.harness.charts import Chart, legend_below, plain_log_axis
from bench.harness.colours import ENGINES, NOTE, THEORY, named_series, series
from bench.harness.ratios import spread
from bench.workloads.distributions import (
    SCRAMBLED_ITEMS,
    SCRAMBLED_ZETA,
    ZIPFIAN_CONSTANT,
    Numbers,
    Reals,
    Zipfian,
    generator,
    scrambled,
)

_DRAWS = 1_000_000
_COLUMNS = 4


def charts(timed: Cells, engines: Sequence[str], workloads: Sequence[str]) -> list[Chart]:
    records = max(rows[0].records for rows in timed.values())
    lines = -(-len(workloads) // _COLUMNS)
    return [
        Chart(
            "ycsb-throughput",
            "Operations per second by workload",
            "Medians of the repetitions, with the least and the most. Each workload has a scale of "
            "its own, from zero.",
            lambda figure: _draw_throughput(figure, timed, engines, workloads),
            width=8.0,
            height=0.6 + 2.1 * lines,
        ),
        Chart(
            "ycsb-zipfian",
            f"The zipfian generator over {records:,} records",
            f"{_DRAWS:,} draws; ranks from 10 on are averaged in bands. Gray's method against the law "
            "1 / (i^0.99 ζ(n)); and how often the i-th most popular key is asked for once the ranks "
            "of ten billion are hashed onto the records, as YCSB does: the head is that of "
            "ten billion, and the tail is flat, for every key gets a part of the far ranks.",
            lambda figure: _draw_zipfian(figure, records),
        ),
    ]


def _draw_throughput(
    figure: Figure, timed: Cells, engines: Sequence[str], workloads: Sequence[str]
) -> None:
    lines = -(-len(workloads) // _COLUMNS)
    columns = min(_COLUMNS, len(workloads))
    grid: Any = figure.subplots(lines, columns, squeeze=False)
    axes = [axis for line in grid for axis in line]
    looks = named_series(engines, ENGINES)
    for axis, workload in zip(axes, workloads, strict=False):
        for number, engine in enumerate(engines):
            found = spread(row.operations_per_s / 1e3 for row in timed[workload, engine])
            axis.bar(
                number,
                found.median,
                width=0.8,
                color=looks[engine]["color"],
                yerr=[[found.median - found.least], [found.most - found.median]],
                error_kw={"elinewidth": 0.9, "capsize": 2.5, "ecolor": NOTE},
                label=engine,
            )
        axis.set_title(workload)
        axis.set_xticks([])
        axis.grid(axis="x", visible=False)
        axis.set_ylim(bottom=0)
    for axis in axes[len(workloads) :]:
        axis.set_axis_off()
    for line in grid:
        line[0].set_ylabel("thousand operations/s")
    legend_below(figure, axes[0], len(engines))


def _draw_zipfian(figure: Figure, records: int) -> None:
    axis: Any = figure.subplots()
    law = Zipfian.over(records)
    ranks = numpy.arange(1, records + 1)
    axis.plot(ranks, ranks**-ZIPFIAN_CONSTANT / law.zeta, label="law, of these records", **THEORY)
    drawn = law.ranks(_DRAWS, generator("zipfian chart"))
    _plot(axis, numpy.bincount(drawn, minlength=records), 0, "Gray's method, of these records")
    head = numpy.arange(1, min(records, 100) + 1)
    axis.plot(
        head,
        head**-ZIPFIAN_CONSTANT / SCRAMBLED_ZETA,
        label=f"law, of {SCRAMBLED_ITEMS:,}",
        **{**THEORY, "linestyle": ":"},
    )
    asked = scrambled(records, _DRAWS, generator("scrambled chart"))
    popular = numpy.sort(numpy.bincount(asked, minlength=records))[::-1]
    _plot(axis, popular, 1, "scrambled, most popular first")
    axis.set_xscale("log")
    axis.set_yscale("log")
    plain_log_axis(axis.xaxis, axis.get_xlim(), few=50)
    plain_log_axis(axis.yaxis, axis.get_ylim(), few=50)
    axis.set_xlabel("rank i")
    axis.set_ylabel("part of the draws")
    axis.legend()


def _plot(axis: Any, counts: Numbers, number: int, label: str) -> None:
    """Frequencies by rank: each of the first ten, then the means of ever wider bands."""
    places, heights = _banded(counts)
    axis.plot(places, heights, label=label, linestyle="none", markersize=4, **series(number))


def _banded(counts: Numbers) -> tuple[Reals, Reals]:
    """Ranks (the geometric middle of each band) and the mean frequency there."""
    edges = numpy.unique(
        numpy.concatenate(
            (
                numpy.arange(min(10, len(counts))),
                numpy.geomspace(min(10, len(counts)), len(counts), 40).astype(int),
            )
        )
    )
    sums = numpy.add.reduceat(counts, edges[:-1])
    widths = numpy.diff(edges)
    places = numpy.sqrt((edges[:-1] + 1.0) * edges[1:])
    shown = sums > 0
    return places[shown], (sums / widths / counts.sum())[shown]
