"""The chart of ``budget``: reads of absent keys by filter memory, beside theory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from matplotlib.figure import Figure

from bench.experiments.budget.rows import Row
from bench.experiments.budget.tables import formula_reads, pairs
from bench.experiments.budget.tasks import SHARES
from bench.harness.charts import Chart, legend_below, plain_axis
from bench.harness.colours import series

NAME: Final = "filter-budget"


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            NAME,
            "Reads of an absent key, with a budget and with Monkey's rates",
            "Data blocks read for a lookup of an absent key, in one run, by filter memory: hollow marks "
            "with Monkey's rates, full ones with a budget of the same size, after as many lookups as "
            "keys. Lines: theory, dashed with one rate, solid with the best two. Each panel has another "
            "share of the lookups in a tenth of the key range.",
            partial(_draw, rows),
            width=9.4,
            height=4.2,
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    panels = figure.subplots(1, len(SHARES), sharey=True)
    for axes, share in zip(panels, SHARES, strict=True):
        found = pairs([row for row in rows if row.hot_share == share])
        for number, some in enumerate(zip(*found, strict=True)):
            look = series(number)
            bits = [row.built_bits_per_key for row in some]
            axes.plot(
                bits,
                [formula_reads(row) for row in some],
                color=look["color"],
                linestyle="-" if number else "--",
                linewidth=1.1,
            )
            axes.plot(
                bits,
                [row.reads for row in some],
                linestyle="none",
                markerfacecolor=look["color"] if number else "white",
                label=some[0].allocation,
                **{key: value for key, value in look.items() if key != "linestyle"},
            )
        axes.set_yscale("log")
        axes.set_title(f"{share:.0%} of the lookups in a tenth", fontsize=9)
        axes.set_xlabel("filter memory, bits per key")
        plain_axis(axes.yaxis)
    panels[0].set_ylabel("data blocks read for an absent key")
    legend_below(figure, panels[0], 2)
