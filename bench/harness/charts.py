"""Charts that can stand in a paper: one look for all, saved as PNG and SVG.

Colours are Okabe and Ito's, which readers with any colour vision can tell apart; series differ in
marker too, so that they survive a black-and-white printer.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")  # files, never windows

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

COLOURS: Final = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#F0E442",
)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
THEORY: Final[dict[str, Any]] = {"color": "#555555", "linestyle": "--", "linewidth": 1.1}
"""How a line that was computed, not measured, is drawn."""

_STYLE: Final[Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "lsmkv",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of a report.

    Attributes:
        name: of its files, without the extension.
        title: what it shows.
        caption: how to read it, in a sentence or two.
        draw: draws it into an empty figure.
        width, height: in inches.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Figure], None]
    width: float = 6.4
    height: float = 4.0


def series(number: int) -> dict[str, Any]:
    """Colour and marker of the series of that number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def plain_axis(axis: Any) -> None:
    """Label an axis, a logarithmic one above all, with numbers as people write them."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def percent_axis(axis: Any) -> None:
    """Label an axis of rates with per cents that have no needless zeros."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:g}"))


@contextmanager
def _figure(chart: Chart) -> Iterator[Figure]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(chart.width, chart.height), layout="constrained")
        chart.draw(figure)
        yield figure


def save(chart: Chart, directory: str) -> list[str]:
    """Write ``NAME.png`` and ``NAME.svg``, and return their paths."""
    paths = [os.path.join(directory, f"{chart.name}.{kind}") for kind in ("png", "svg")]
    with _figure(chart) as figure:
        figure.savefig(paths[0])
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def svg(chart: Chart) -> bytes:
    """The chart as SVG."""
    buffer = io.BytesIO()
    with _figure(chart) as figure:
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
