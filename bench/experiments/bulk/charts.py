"""The chart of ``bulk``: seconds of each way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure

from bench.experiments.bulk.rows import Row
from bench.experiments.bulk.tables import ways
from bench.harness.charts import Chart, plain_axis
from bench.harness.colours import series
from bench.harness.ratios import spread


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            "bulk",
            "Seconds to load",
            "Seconds until the store is settled, without making the pairs: medians, least and most.",
            partial(_draw, rows),
            width=7.2,
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    names = ways(rows)
    for place, way in enumerate(names):
        found = spread([row.seconds for row in rows if row.way == way])
        ends = [[found.median - found.least], [found.most - found.median]]
        colour = series(1 if way.startswith("rocksdb") else 0)["color"]
        axes.barh(place, found.median, xerr=ends, color=colour, capsize=3)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    plain_axis(axes.xaxis)
