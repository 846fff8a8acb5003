"""Charts of one style, saved as PNG and SVG; :mod:`bench.harness.colours` has their colours.

An SVG has both forms, light and dark, and shows the reader's.  On paper, and where a viewer knows no
dark form, it is light.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib

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


def save(chart: Chart, directory: str) -> list[str]:
    """Write ``NAME.png`` and ``NAME.svg``, and return their paths."""
    paths = [os.path.join(directory, f"{chart.name}.{kind}") for kind in ("png", "svg")]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(chart.width, chart.height), layout="constrained")
        chart.draw(figure)
        figure.savefig(paths[0])
        figure.savefig(paths[1], metadata={"Date": None})
    with open(paths[1], encoding="utf-8") as file:
        drawing = file.read()
    with open(paths[1], "w", encoding="utf-8") as file:
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
