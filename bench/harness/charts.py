"""Charts of one style, saved as PNG and SVG; :mod:`bench.harness.colours` has their colours.

Only drawing needs matplotlib, so counting does without.

An SVG has both forms, light and dark, and shows the reader's.  On paper, and where a viewer knows no
dark form, it is light.  A second SVG is for phones: its panels stand one below the other.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from .colours import ASIDE, BLACK, DARK, GRID

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOW_TO_DRAW: Final = "For pictures: pip install 'lsmkv[bench-charts]', and run it again."

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
_TICKS_LEVEL: Final = 8  # of an axis; more are written at an angle
_LATER: Final = 0.75  # height of each further panel, by that of the chart


Point = tuple[float, float] | tuple[float, float, float, float]
"""Place and value, or place, value, and the ends of its interval or spread."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points of one look (:func:`bench.harness.colours.series`); intervals are bars, or a band."""

    label: str | None
    points: Sequence[Point]
    look: Mapping[str, Any]
    is_band: bool = False


def marks(label: str | None, points: Sequence[Point], look: Mapping[str, Any]) -> Line:
    """Points that no line joins."""
    return Line(label, points, {**look, "linestyle": "none"})


def curve(label: str | None, points: Sequence[Point], look: Mapping[str, Any], style: str) -> Line:
    """A computed line without marks."""
    return Line(label, points, {"color": look["color"], "linestyle": style, "linewidth": 1.1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes.

    Attributes:
        names: places of the points are numbers of these, from the top, and values go across.
        log, percent: the axes that are so: "x", "y" or "xy".
        ticks: of the horizontal axis, with their texts or without.
        x_ends, y_ends: limits of the axes; by default the least y of a linear axis is 0.
        edges: vertical lines, with labels.
        is_reversed: the horizontal axis falls.
    """

    lines: Sequence[Line]
    title: str = ""
    x: str = ""
    y: str = ""
    names: Sequence[str] = ()
    log: str = ""
    percent: str = ""
    ticks: Sequence[float] | Mapping[float, str] = ()
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    edges: Sequence[tuple[float, str]] = ()
    is_reversed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of a report.

    Attributes:
        name: the name of its files, without extension.
        caption: how to read it.
        panels: in reading order; the first of a line has the name of the vertical axes.
        columns: panels side by side; 0: all.
        legend: texts side by side below all panels.
        same_x, same_y: which panels share an axis, in matplotlib's words.
        width, height: inches.
        is_published: documents show it, above their tables.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 0
    legend: int = 4
    same_x: bool | Literal["row", "col"] = False
    same_y: bool | Literal["row", "col"] = True
    width: float = 6.4
    height: float = 4.0
    is_published: bool = False


def _draw(chart: Chart, figure: Figure, *, is_narrow: bool) -> None:
    columns = chart.columns or len(chart.panels)
    across = 1 if is_narrow else columns
    count = len(chart.panels)
    grid: Any = figure.subplots(-(-count // across), across, squeeze=False)
    axes, labels = list(grid.flat)[:count], dict[str, Any]()
    for number, (one, panel) in enumerate(zip(axes, chart.panels, strict=True)):
        for letter, shared in (("x", chart.same_x), ("y", chart.same_y)):
            first = {True: 0, "row": number - number % columns, "col": number % columns}
            if (of := first.get(shared, number)) != number:
                getattr(one, f"share{letter}")(axes[of])
        _draw_panel(one, panel)
        if is_narrow:  # the vertical axis was named to the left
            one.set_ylabel(panel.y or chart.panels[number - number % columns].y)
        elif number % columns and chart.same_y in (True, "row"):
            one.tick_params(labelleft=False)
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            labels.setdefault(label, handle)
    for one in list(grid.flat)[count:]:
        one.set_axis_off()
    is_long = any(len(label) > _NARROW_LETTERS for label in labels)
    figure.legend(
        labels.values(),
        labels.keys(),
        loc="outside upper center" if is_narrow else "outside lower center",
        ncols=min(chart.legend, 1 if is_long else 2) if is_narrow else chart.legend,
    )


def _draw_panel(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    for line in panel.lines:
        _draw_line(axes, line, across=bool(panel.names))
    for place, label in panel.edges:
        axes.axvline(place, color=ASIDE, linestyle=":", linewidth=1.1, label=label or None)
    if panel.names:
        axes.set_yticks(range(len(panel.names)), panel.names)
        axes.set_ylim(len(panel.names) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
    for letter, axis, ends in (("x", axes.xaxis, panel.x_ends), ("y", axes.yaxis, panel.y_ends)):
        if panel.names and letter == "y":
            continue
        if letter in panel.log:
            getattr(axes, f"set_{letter}scale")("log")
        elif letter == "y" and ends is None:
            axes.set_ylim(bottom=0)
        if ends is not None:
            getattr(axes, f"set_{letter}lim")(*ends)
        if letter in panel.log:
            low, high = sorted(getattr(axes, f"get_{letter}lim")())
            axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high < 50 * low else (1,)))
            axis.set_minor_formatter(NullFormatter())
        factor = 100 if letter in panel.percent else 1
        axis.set_major_formatter(
            FuncFormatter(lambda value, _, by=factor: plain_number(value * by))
        )
    if panel.ticks:
        axes.set_xticks(list(panel.ticks), minor=False)
        if isinstance(panel.ticks, Mapping):
            axes.set_xticklabels(list(panel.ticks.values()))
        axes.xaxis.set_minor_locator(NullLocator())
        if len(panel.ticks) > _TICKS_LEVEL:
            axes.tick_params(axis="x", rotation=60)
    if panel.is_reversed:
        axes.invert_xaxis()
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)


def _draw_line(axes: Any, line: Line, *, across: bool) -> None:
    if not line.points:
        return
    places, values, *ends = zip(*line.points, strict=True)
    look: dict[str, Any] = {**line.look, "label": line.label}
    if line.is_band or not ends:
        axes.plot(*((values, places) if across else (places, values)), **look)
        if ends:
            axes.fill_between(places, *ends, color=look["color"], alpha=0.15, linewidth=0)
        return
    low, high = ends
    reach = (
        [value - least for value, least in zip(values, low, strict=True)],
        [most - value for value, most in zip(values, high, strict=True)],
    )
    bars = {"capsize": 2, "elinewidth": 0.9}
    if across:
        axes.errorbar(values, places, xerr=reach, **look, **bars)
    else:
        axes.errorbar(places, values, yerr=reach, **look, **bars)


def plain_number(value: float) -> str:
    """A number without a power of ten.

    >>> plain_number(0.00001), plain_number(2_500_000), plain_number(0.5)
    ('0.00001', '2,500,000', '0.5')
    """
    text = f"{value:,.10f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def save(chart: Chart, directory: str) -> list[str]:
    """Write ``NAME.png``, ``NAME.svg`` and ``NAME-narrow.svg``, and return their paths."""
    import matplotlib
    from matplotlib.figure import Figure  # makes files, never windows

    paths = [
        os.path.join(directory, f"{chart.name}{end}") for end in (".png", ".svg", "-narrow.svg")
    ]
    with matplotlib.rc_context(_STYLE):
        columns = chart.columns or len(chart.panels)
        tall = chart.height * (1 + _LATER * (columns - 1))
        for is_narrow, size in (
            (False, (chart.width, chart.height)),
            (True, (_NARROW_WIDTH, tall)),
        ):
            figure = Figure(figsize=size, layout="constrained")
            _draw(chart, figure, is_narrow=is_narrow)
            for path in paths[2:] if is_narrow else paths[:2]:
                figure.savefig(path, metadata={} if path.endswith("png") else {"Date": None})
    for path in paths[1:]:
        with open(path, encoding="utf-8") as file:
            drawing = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(with_dark_form(drawing))
    return paths


def with_dark_form(drawing: str) -> str:
    """An SVG with rules that colour it, and by its root what has no colour, on a dark screen."""
    rules = [f"svg {{ fill: {DARK[BLACK]} }}"]
    for light, dark in DARK.items():
        rules += [
            f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
            for what in ("fill", "stroke")
        ]
    style = "@media screen and (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"
    place = drawing.index(">", drawing.index("<svg")) + 1
    return f"{drawing[:place]}\n <style>\n{style}\n </style>{drawing[place:]}"
