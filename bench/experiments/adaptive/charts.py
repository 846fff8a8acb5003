"""The chart of ``adaptive``: wasted reads over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Final

from matplotlib.figure import Figure

from bench.experiments.adaptive.rows import Row
from bench.experiments.adaptive.tasks import HOWS, LOADS, PHASES, POINTS
from bench.harness.charts import Chart, legend_below
from bench.harness.colours import ASIDE, series

NAME: Final = "adaptive"


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            NAME,
            "Wasted reads while the hot tenth of the keys moves",
            "Data blocks read for absent keys, per 10,000 lookups, over time; the hot tenth moves at "
            "the dotted lines. Filters have the same memory. Lines are medians of the repetitions, and "
            "bands go from the least to the most.",
            partial(_draw, rows),
            width=8.6,
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    panels = figure.subplots(1, len(LOADS))
    for axes, load in zip(panels, LOADS, strict=True):
        places = range(PHASES * POINTS)
        for number, how in enumerate(HOWS):
            here = [row for row in rows if (row.load, row.how) == (load, how)]
            found = [
                [row.per_10000 for row in here if row.phase * POINTS + row.point == place]
                for place in places
            ]
            lookups = [here[0].lookup_count * (place + 1) / 1000 for place in places]
            look = series(number)
            axes.plot(lookups, [median(some) for some in found], label=how, **look)
            ends = [min(some) for some in found], [max(some) for some in found]
            axes.fill_between(lookups, *ends, color=look["color"], alpha=0.15, linewidth=0)
        for phase in range(1, PHASES):
            shift = lookups[phase * POINTS - 1] + lookups[0] / 2
            axes.axvline(shift, color=ASIDE, linestyle=":", linewidth=1)
        axes.set_title(load)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("lookups, thousands")
    panels[0].set_ylabel("wasted reads per 10,000 lookups")
    legend_below(figure, panels[0], len(HOWS))
