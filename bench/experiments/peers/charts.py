"""The charts of ``peers``: ratios, and times of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from matplotlib.figure import Figure

from bench.experiments.peers.rows import Row
from bench.experiments.peers.tables import COLD_ROWS, ColdRow
from bench.harness import charts
from bench.harness.charts import Chart
from bench.harness.colours import (
    ASIDE,
    BAND,
    BLACK,
    ENGINES,
    GREEN,
    NOTE,
    THEORY,
    VERMILION,
    WHITE,
    named_series,
    series,
)
from bench.harness.ratios import Figures, Ratio, Spread

_COLOURS = {
    "ahead": GREEN,
    "level": BLACK,
    "behind": VERMILION,
    "no verdict": ASIDE,
}
_LABELS = {
    "ahead": "lsmkv ahead",
    "level": "level: the interval includes 1",
    "no verdict": "no verdict: too few repetitions",
    "behind": "lsmkv behind",
}


def ratios(found: Sequence[Ratio]) -> Chart:
    """Each phase's ratio with its interval, on both sides of 1."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lines = list(reversed(found))
        axes.axvline(1.0, label="equal", **THEORY)
        for verdict, colour in _COLOURS.items():
            chosen = [at for at, ratio in enumerate(lines) if ratio.verdict == verdict]
            if not chosen:
                continue
            charts.spread_bars(
                axes,
                chosen,
                [_bar(lines[at]) for at in chosen],
                across=True,
                fmt="o",
                color=colour,
                capsize=2,
                label=_LABELS[verdict],
            )
        for at, ratio in enumerate(lines):
            axes.annotate(
                ratio.peer,
                (_bar(ratio).most, at),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
                color=NOTE,
                bbox={"facecolor": WHITE, "edgecolor": "none", "pad": 0.5},
            )
        axes.set_yticks(range(len(lines)), [ratio.phase for ratio in lines])
        axes.set_ylim(-0.6, len(lines) - 0.4)
        least = min(_bar(ratio).least for ratio in found)
        most = max(_bar(ratio).most for ratio in found)
        axes.set_xlim(min(0.7, least * 0.8), max(1.4, most * 2))  # room for the peers' names
        _log_axis(axes)
        axes.set_xlabel("time of the best peer by that of lsmkv; right of 1, lsmkv is faster")
        figure.legend(loc="outside upper center", ncols=4)

    return Chart(
        "peers-ratios",
        "The best peer's time by lsmkv's",
        "The median over the repetitions, with its 95 % interval (with fewer than 6 repetitions: the "
        "least and the most, and there is no verdict). Beside each stands the peer: the one with the "
        "lowest median time in that phase.",
        draw,
        height=1.4 + 0.26 * len(found),
    )


def _bar(ratio: Ratio) -> Spread:
    """The median with its interval, or with the least and the most where it has none."""
    low, high = ratio.interval
    return Spread(ratio.ratio.median, low, high) if isfinite(high) else ratio.ratio


def times(figures: Figures[Any], engines: Sequence[str]) -> Chart:
    """Microseconds per operation of every engine, by phase."""
    phases = figures.phases

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        looks = named_series(engines, ENGINES)
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
                **looks[engine],
            )
        axes.set_yticks(range(len(phases)), list(reversed(phases)))
        for at in range(len(phases) - 1):
            axes.axhline(at + 0.5, color=BAND, linewidth=0.8)
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


def cold(rows: Sequence[Row], engines: Sequence[str]) -> list[Chart]:
    """What cold lookups read, of absent and of present keys, in both windows."""
    measured = {row.phase for row in rows}
    phases = [line for line in COLD_ROWS if line.phase in measured]
    keys = list(dict.fromkeys(line.keys for line in phases))
    if not keys:
        return []

    counting = [
        engine
        for engine in engines
        if any(row.engine == engine and row.data_block_reads is not None for row in rows)
    ]
    reads = [("os_read_bytes_timed", "bytes read for a lookup", list(engines))]
    if counting:
        reads.append(("data_block_reads", "data blocks read for a lookup", counting))

    def draw(figure: Figure) -> None:
        grid: Any = figure.subplots(
            len(reads),
            len(keys),
            squeeze=False,
            sharex="row",
            sharey="row",
            height_ratios=[1 + len(named) for *_, named in reads],
        )
        for panels, (column, what, named) in zip(grid, reads, strict=True):
            known = [row for row in rows if getattr(row, column) is not None]
            for axes, kind in zip(panels, keys, strict=True):
                lines = [line for line in phases if line.keys == kind]
                _draw_reads(axes, known, lines, named, column)
                axes.set_xlabel(what)
            _wide_log_axis(panels)
        for axes, kind in zip(grid[0], keys, strict=True):
            axes.set_title(f"{kind} keys")
        handles: dict[str, Any] = {}
        for axes in grid.flat:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2)

    return [
        Chart(
            "peers-cold",
            "What a cold lookup reads",
            "Medians over the repetitions, with the least and the most. Bytes by the operating system, "
            "through the page cache, with what is read ahead. Blocks by the engines' own counts, with "
            "direct reads; only lsmkv and RocksDB count them. A 0 at the left edge stands for nothing "
            "read.",
            draw,
            width=7.6,
            height=2.2 + 0.4 * len(engines) + 0.4 * len(counting),
        )
    ]


_WINDOWS = {"open + lookups": 0, "lookups": 1}


def _draw_reads(
    axes: Any, rows: Sequence[Row], lines: Sequence[ColdRow], engines: Sequence[str], column: str
) -> None:
    for line in lines:
        nth = _WINDOWS[line.window]
        figures = Figures(
            [row for row in rows if row.phase == line.phase],
            lambda row: getattr(row, column) / row.operations,
        )
        points = [
            (len(engines) - 1 - at + 0.15 - 0.3 * nth, spread)
            for at, engine in enumerate(engines)
            if (spread := figures.spread(line.phase, engine)) is not None
        ]
        for height, _ in (point for point in points if point[1].median <= 0):
            axes.annotate(
                "0",
                (0.02, height),
                xycoords=("axes fraction", "data"),
                va="center",
                color=series(nth)["color"],
            )
        shown = [point for point in points if point[1].median > 0]
        charts.spread_bars(
            axes,
            [height for height, _ in shown],
            [spread for _, spread in shown],
            across=True,
            linestyle="none",
            capsize=2,
            label=f"window: {line.window}",
            **series(nth),
        )
    axes.set_yticks(range(len(engines)), list(reversed(engines)))
    axes.set_ylim(-0.6, len(engines) - 0.4)
    axes.grid(axis="y", visible=False)


def _wide_log_axis(panels: Sequence[Any]) -> None:
    """A logarithmic axis for all panels, wide enough for plain labels."""
    points = [
        float(x)
        for axes in panels
        for container in axes.containers
        for x in container.lines[0].get_xdata()
    ]
    if points:
        panels[0].set_xlim(min(points) / 3, max(points) * 3)
        _log_axis(panels[0])


def _log_axis(axes: Any) -> None:
    axes.set_xscale("log")
    charts.plain_log_axis(axes.xaxis, axes.get_xlim(), few=1000)
