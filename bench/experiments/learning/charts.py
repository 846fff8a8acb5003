"""The chart of ``learning``: reads in vain by the size of the block cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure

from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import pairs, reads
from bench.harness.charts import Chart, plain_axis, series


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            "learning-cache",
            "When a block cache makes learning pointless",
            "Blocks read for absent keys, per thousand lookups of such keys, by the size of the block "
            "cache. Where the lines meet, popular blocks are in the cache anyway.",
            partial(_draw, rows),
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    found = pairs(rows)
    for number, label in enumerate(("without learning", "with learning")):
        points = [
            (100 * pair[number][0].cache_share, 1000 * reads(pair[number]) / _lookups(pair[number]))
            for pair in found
        ]
        axes.plot(*zip(*points, strict=True), label=label, **series(number))
    axes.set_xscale("symlog", linthresh=2)
    plain_axis(axes.xaxis)
    axes.set_xlabel("block cache, % of all blocks")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("reads in vain per 1,000 absent lookups")
    axes.legend()


def _lookups(rows: Sequence[Row]) -> int:
    return sum(row.lookup_count for row in rows)
