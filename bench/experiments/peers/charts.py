"""The charts of ``peers``: ratios, and times of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from bench.harness import charts
from bench.harness.charts import Chart
from bench.harness.ratios import Figures, Ratio

_COLOURS = {"ahead": charts.COLOURS[2], "level": charts.COLOURS[6], "behind": charts.COLOURS[1]}
_LABELS = {
    "ahead": "lsmkv ahead in every repetition",
    "level": "now this way, now that",
    "behind": "lsmkv behind in every repetition",
}


def ratios(found: Sequence[Ratio]) -> Chart:
    """Each phase's ratio with its spread, on both sides of 1."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lines = list(reversed(found))
        axes.axvline(1.0, **charts.THEORY)
        for verdict, colour in _COLOURS.items():
            chosen = [at for at, ratio in enumerate(lines) if ratio.verdict == verdict]
            if not chosen:
                continue
            charts.spread_bars(
                axes,
                chosen,
                [lines[at].ratio for at in chosen],
                across=True,
                fmt="o",
                color=colour,
                capsize=2,
                label=_LABELS[verdict],
            )
        for at, ratio in enumerate(lines):
            axes.annotate(
                ratio.peer,
                (ratio.ratio.most, at),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
                color="#444444",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )
        axes.set_yticks(range(len(lines)), [ratio.phase for ratio in lines])
        axes.set_ylim(-0.6, len(lines) - 0.4)
        least = min(ratio.ratio.least for ratio in found)
        most = max(ratio.ratio.most for ratio in found)
        axes.set_xlim(min(0.7, least * 0.8), max(1.4, most * 2))  # room for the peers' names
        _log_axis(axes)
        axes.set_xlabel("time of the best peer by that of lsmkv; right of 1, lsmkv is faster")
        figure.legend(loc="outside upper center", ncols=3)

    return Chart(
        "peers-ratios",
        "The best peer's time by lsmkv's",
        "The median over the repetitions, with the least and the most. Beside each stands the peer: the "
        "one with the lowest median time in that phase.",
        draw,
        height=1.4 + 0.26 * len(found),
    )


def times(figures: Figures[Any], engines: Sequence[str]) -> Chart:
    """Microseconds per operation of every engine, by phase."""
    phases = figures.phases

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for nth, engine in enumerate(engines):
            shift = (nth - (len(engines) - 1) / 2) * 0.14
            points = [
                (len(phases) - 1 - at - shift, spread)
                for at, phase in enumerate(phases)
                if (spread := figures.spread(phase, engine)) is not None
            ]
            charts.spread_bars(
                axes,
                [height for height, _ in points],
                [spread for _, spread in points],
                across=True,
                linestyle="none",
                elinewidth=0.9,
                label=engine,
                **charts.series(nth),
            )
        axes.set_yticks(range(len(phases)), list(reversed(phases)))
        for at in range(len(phases) - 1):
            axes.axhline(at + 0.5, color="#eeeeee", linewidth=0.8)
        axes.grid(axis="y", visible=False)
        axes.set_ylim(-0.6, len(phases) - 0.4)
        _log_axis(axes)
        axes.set_xlabel("microseconds per operation")
        figure.legend(loc="outside upper center", ncols=min(6, len(engines)))

    return Chart(
        "peers-times",
        "Microseconds per operation, by phase",
        "The median over the repetitions, with the least and the most, on a logarithmic scale.",
        draw,
        height=1.4 + 0.36 * len(phases),
    )


def _log_axis(axes: Any) -> None:
    axes.set_xscale("log")
    charts.plain_log_axis(axes.xaxis, axes.get_xlim(), few=1000)
