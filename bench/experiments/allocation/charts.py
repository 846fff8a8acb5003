"""The chart of ``allocation``: reads of absent keys by memory, levels and size ratio."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.tables import by_bits, by_levels, by_ratio, interval
from bench.experiments.allocation.tasks import BITS, LEVELS, SIZE_RATIO
from bench.experiments.allocation.trees import STYLES
from bench.harness.charts import Chart, legend_below, plain_axis
from bench.harness.colours import series

NAME: Final = "allocation"
_AXES: Final = (
    ("filter memory, bits per key", "bits_per_key", by_bits),
    ("levels", "level_count", by_levels),
    ("size ratio T", "size_ratio", by_ratio),
)


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            NAME,
            "Reads of an absent key, by memory, levels and size ratio",
            "Data blocks read for a lookup of an absent key, with 95 % intervals: hollow marks with one "
            "rate for all runs, full ones with Monkey's rates in the same memory. Lines: the papers' "
            f"formula, the sum of all runs' rates. What does not vary: {BITS:g} bits per key, {LEVELS} "
            f"levels, T = {SIZE_RATIO}.",
            partial(_draw, rows),
            width=9.4,
            height=4.6,
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    panels = figure.subplots(1, len(_AXES), sharey=True)
    for axes, (label, name, chosen) in zip(panels, _AXES, strict=True):
        here = chosen(rows)
        for number, style in enumerate(STYLES):
            for allocation in ("uniform", "monkey"):
                points = [r for r in here if (r.style, r.allocation) == (style, allocation)]
                _curve(axes, sorted(points, key=lambda r: float(getattr(r, name))), name, number)
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.xaxis.set_major_locator(FixedLocator(sorted({getattr(row, name) for row in here})))
        axes.xaxis.set_minor_locator(NullLocator())
        plain_axis(axes.xaxis)
        plain_axis(axes.yaxis)
    panels[0].set_ylabel("data blocks read for an absent key")
    legend_below(figure, panels[0], 3)


def _curve(axes: Any, rows: Sequence[Row], name: str, number: int) -> None:
    is_uniform = rows[0].allocation == "uniform"
    look = series(number)
    places = [getattr(row, name) for row in rows]
    measured = [row.measured_reads for row in rows]
    ends = [interval(row) for row in rows]
    axes.plot(
        places,
        [row.formula_reads for row in rows],
        color=look["color"],
        linestyle="--" if is_uniform else "-",
        linewidth=1.1,
    )
    axes.errorbar(
        places,
        measured,
        (
            [value - low for value, (low, _) in zip(measured, ends, strict=True)],
            [high - value for value, (_, high) in zip(measured, ends, strict=True)],
        ),
        linestyle="none",
        elinewidth=0.9,
        markerfacecolor="white" if is_uniform else look["color"],
        label=f"{rows[0].style}, {rows[0].allocation}",
        **look,
    )
