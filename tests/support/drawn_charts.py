"""What makes a drawn chart hard to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.harness.charts import Chart

DASHES = {"--", ":", "-."}


def faults(charts: Iterable[Chart]) -> list[str]:
    """Ticks with powers of ten, bars on a logarithmic axis, dashed lines that no legend names."""
    return [f"{chart.name}: {fault}" for chart in charts for fault in _faults(_drawn(chart))]


def _drawn(chart: Chart) -> Figure:
    figure = Figure(figsize=(chart.width, chart.height), layout="constrained")
    chart.draw(figure)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]  # ticks have their labels only then
    return figure


def _faults(figure: Figure) -> Iterator[str]:
    named = set(_named_dashes(figure))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            powers = [tick.get_text() for tick in axis.get_ticklabels() if "$" in tick.get_text()]
            if powers and axes.axison:
                yield f"ticks {powers}"
        if _has_bars_on_a_logarithm(axes):
            yield "bars on a logarithmic axis"
        unnamed = {_dash(line) for line in axes.lines} & DASHES - named
        if unnamed:
            yield f"lines {sorted(unnamed)} in no legend"


def _named_dashes(figure: Figure) -> Iterator[str]:
    own = [axes.get_legend() for axes in figure.axes]
    legends = [*figure.legends, *(each for each in own if each is not None)]
    for legend in legends:
        yield from (_dash(each) for each in legend.legend_handles if isinstance(each, Line2D))
    names = {text.get_text() for legend in legends for text in legend.get_texts()}
    for axes in figure.axes:  # a legend shows points with error bars by their bars
        for bars in axes.containers:
            if isinstance(bars, ErrorbarContainer) and bars.get_label() in names and bars.lines[0]:
                yield _dash(bars.lines[0])


def _dash(line: Line2D) -> str:
    return str(line.get_linestyle())


def _has_bars_on_a_logarithm(axes: Axes) -> bool:
    for bars in axes.containers:
        if isinstance(bars, BarContainer):
            scale = axes.get_xscale() if bars.orientation == "horizontal" else axes.get_yscale()
            if scale == "log":
                return True
    return False
