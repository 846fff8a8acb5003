"""Charts of one style, saved as PNG and SVG; :mod:`bench.harness.colours` has their colours.

An SVG has both forms, light and dark, and shows the reader's.  On paper, and where a viewer knows no
dark form, it is light.  A second SVG is for phones: its panels stand one below the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib
import numpy

matplotlib.use("Agg")  # files, never windows

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.harness.colours import BLACK, DARK, GRID
from bench.harness.ratios import Spread

_STYLE: Final[Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
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

_NARROW_WIDTH: Final = 3.6  # inches, about a phone
_NARROW_LETTERS: Final = 26  # of a legend's texts, for two columns of them
_LATER: Final = 0.75  # height of each further panel, by that of the chart


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of a report.

    Attributes:
        name: the name of its files, without extension.
        caption: how to read it.
        draw: draws it into an empty figure.
        width, height: inches.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Figure], None]
    width: float = 6.4
    height: float = 4.0


def plain_number(value: float) -> str:
    """A number without a power of ten.

    >>> plain_number(0.00001), plain_number(2_500_000), plain_number(0.5)
    ('0.00001', '2,500,000', '0.5')
    """
    text = f"{value:,.10f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def plain_axis(axis: Any) -> None:
    """Label an axis with plain numbers, a logarithmic one too."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))


def plain_log_axis(axis: Any, ends: tuple[float, float], few: float) -> None:
    """Label a logarithmic axis without powers of ten.

    It has labels at 1, 2 and 5 if it spans less than ``few``.
    """
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if ends[1] < few * ends[0] else (1,)))
    plain_axis(axis)
    axis.set_minor_formatter(NullFormatter())


def percent_axis(axis: Any) -> None:
    """Label an axis of rates in per cent."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value * 100)))


def spread_bars(
    axes: Any,
    places: Sequence[float],
    spreads: Sequence[Spread],
    *,
    across: bool = False,
    **look: Any,
) -> None:
    """Medians, with bars from least to most."""
    medians = [spread.median for spread in spreads]
    reach = (
        [spread.median - spread.least for spread in spreads],
        [spread.most - spread.median for spread in spreads],
    )
    if across:
        axes.errorbar(medians, places, xerr=reach, **look)
    else:
        axes.errorbar(places, medians, yerr=reach, **look)


def legend_below(figure: Figure, axes: Any, columns: int) -> None:
    """The legend of one panel, below all panels."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


class NarrowFigure(Figure):
    """A figure for a phone: what a chart draws side by side stands one below the other."""

    columns = 1  # that would stand side by side

    def subplots(self, nrows: int = 1, ncols: int = 1, **given: Any) -> Any:
        self.columns = ncols
        squeeze = given.pop("squeeze", True)
        sharing = {axis: given.pop(f"share{axis}", False) for axis in "xy"}
        if ratios := given.pop("height_ratios", None):
            given["height_ratios"] = [ratio for ratio in ratios for _ in range(ncols)]
        grid = super().subplots(nrows * ncols, 1, squeeze=False, **given).reshape(nrows, ncols)
        for (row, column), axes in numpy.ndenumerate(grid):
            for axis, shared in sharing.items():
                first = grid[row if shared == "row" else 0, column if shared == "col" else 0]
                if shared not in (False, "none") and first is not axes:
                    getattr(axes, f"share{axis}")(first)
        if not squeeze:
            return grid
        return grid.item() if grid.size == 1 else grid.squeeze()

    def legend(self, *entries: Any, **given: Any) -> Any:
        given |= {"loc": "outside upper center", "ncols": min(2, given.get("ncols", 1))}
        drawn = super().legend(*entries, **given)
        if max(len(text.get_text()) for text in drawn.get_texts()) <= _NARROW_LETTERS:
            return drawn
        drawn.remove()
        return super().legend(*entries, **(given | {"ncols": 1}))

    def name_axes(self) -> None:
        """Repeat the name of a vertical axis, which stood to the left of several panels."""
        for at, axes in enumerate(self.axes):
            first = self.axes[at - at % self.columns]
            axes.set_ylabel(axes.get_ylabel() or first.get_ylabel())


def save(chart: Chart, directory: str) -> list[str]:
    """Write ``NAME.png``, ``NAME.svg`` and ``NAME-narrow.svg``, and return their paths."""
    paths = [
        os.path.join(directory, f"{chart.name}{end}") for end in (".png", ".svg", "-narrow.svg")
    ]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(chart.width, chart.height), layout="constrained")
        chart.draw(figure)
        figure.savefig(paths[0])
        figure.savefig(paths[1], metadata={"Date": None})
        narrow = NarrowFigure(layout="constrained")
        chart.draw(narrow)
        narrow.name_axes()
        narrow.set_size_inches(_NARROW_WIDTH, chart.height * (1 + _LATER * (narrow.columns - 1)))
        narrow.savefig(paths[2], metadata={"Date": None})
    for path in paths[1:]:
        with open(path, encoding="utf-8") as file:
            drawing = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(with_dark_form(drawing))
    return paths


def with_dark_form(drawing: str) -> str:
    """An SVG of matplotlib's with the rules that colour it on a dark screen.

    What is drawn black has no colour of its own in the file, and inherits that of the root.
    """
    rules = [f"svg {{ fill: {DARK[BLACK]} }}"]
    for light, dark in DARK.items():
        rules += [
            f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
            for what in ("fill", "stroke")
        ]
    style = "@media screen and (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"
    place = drawing.index(">", drawing.index("<svg")) + 1
    return f"{drawing[:place]}\n <style>\n{style}\n </style>{drawing[place:]}"
