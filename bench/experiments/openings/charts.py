"""The chart of ``openings``: the best error rate by lookups between two openings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from matplotlib.figure import Figure

from bench.experiments.openings.rows import Row
from bench.experiments.openings.tables import (
    BYTES,
    MIXED,
    bests,
    lookups_per_key,
    shapes,
    unit_name,
)
from bench.harness.charts import Chart, legend_below, percent_axis, plain_axis
from bench.harness.colours import series

NAME: Final = "openings"


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            NAME,
            "The best error rate by lookups between two openings",
            "The error rate of least cost, of those tried (no filters count as 100 %, the lowest is "
            "0.0001 %), against lookups of absent keys per key between two openings. Bars: all rates "
            "tried within 5 % of the least cost. Dashed: theory, p* = 1/(8 (ln 2)² L runs B). "
            "Resident filters.",
            partial(_draw, rows),
            width=9.0,
            height=5.0,
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    both = figure.subplots(1, 2, sharey=True)
    for axes, unit in zip(both, (BYTES, MIXED), strict=True):
        for count, of in enumerate(shapes(rows, "resident")):
            found = bests(rows, of, unit)
            # Bars of one number of lookups would hide each other.
            places = [each.lookups_per_key * 1.12 ** (count - 1.5) for each in found]
            reach = (
                [each.rate - each.least for each in found],
                [each.most - each.rate for each in found],
            )
            look = series(count)
            axes.errorbar(
                places,
                [each.rate for each in found],
                reach,
                capsize=2,
                elinewidth=0.9,
                linestyle="none",
                label=of.name,
                **look,
            )
            axes.plot(
                [each.lookups_per_key for each in found],
                [each.theory for each in found],
                color=look["color"],
                linestyle="--",
                linewidth=1.1,
                label=f"theory, {of.name}",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(0.0000005, 1.5)
        percent_axis(axes.yaxis)
        axes.set_xticks(lookups_per_key(rows))
        axes.tick_params(axis="x", rotation=60)
        axes.minorticks_off()
        plain_axis(axes.xaxis)
        axes.set_title(f"cost: {unit_name(rows, unit)}")
        axes.set_xlabel("lookups of absent keys per key, between two openings")
    both[0].set_ylabel("best error rate, % (100: no filters)")
    legend_below(figure, both[0], 4)
