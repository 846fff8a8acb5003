"""The charts of ``compaction``: trade-off, writes, space, runs, and reads against theory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.experiments.compaction.rows import Row
from bench.experiments.compaction.summary import (
    ALLOCATIONS,
    DEFAULT,
    MAIN_LOAD,
    STYLES,
    Summary,
    of_load,
)
from bench.harness.charts import Chart, plain_log_axis, spread_bars
from bench.harness.colours import BAND, NOTE, THEORY, WHITE, series
from bench.harness.ratios import Spread

_SHIFT = {"leveled": -0.18, "tiered": 0.0, "lazy-leveled": 0.18}


def charts(summaries: Sequence[Summary]) -> list[Chart]:
    """Every chart that the summaries have data for."""
    main = of_load(summaries, MAIN_LOAD)
    found = []
    if main:
        found = [_trade_off(main), _writes(main), _space(main), _runs(main)]
    return [*found, _against_theory(summaries)]


def _trade_off(main: Sequence[Summary]) -> Chart:
    rates = sorted({each.config.error_rate for each in main}, reverse=True)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(rates), squeeze=False)[0]
        for axis, rate in zip(axes, rates, strict=True):
            for number, style in enumerate(STYLES):
                for allocation in ALLOCATIONS:
                    points = _by_size_ratio(main, style, rate, allocation)
                    _curve(axis, points, series(number), hollow=allocation == "monkey")
            axis.set(title=f"p = {rate * 100:g} %", xlabel="write amplification", yscale="log")
            axis.set_xlim(left=0)
            axis.margins(x=0.12, y=0.12)
            plain_log_axis(axis.yaxis, axis.get_ylim(), few=50)
        axes[0].set_ylabel("blocks read per absent lookup")
        figure.legend(handles=_legend(), loc="outside lower center", ncols=5)

    return Chart(
        "compaction-trade-off",
        "Writing against reading",
        "Each point is a size ratio (its number): what is written per byte handed over, and the blocks "
        "that a lookup of an absent key reads, averaged over the cycle. Lower left is better. Hollow, "
        "dotted: filters allocated by Monkey.",
        draw,
        width=3.2 * max(2, len(rates)) + 0.6,
        height=4.2,
    )


def _by_size_ratio(
    main: Sequence[Summary], style: str, rate: float, allocation: str
) -> list[Summary]:
    found = [
        each
        for each in main
        if (each.config.style, each.config.error_rate, each.config.allocation)
        == (style, rate, allocation)
    ]
    return sorted(found, key=lambda each: each.config.size_ratio)


def _curve(axis: Any, points: Sequence[Summary], look: dict[str, Any], *, hollow: bool) -> None:
    across = [each.row.write_amplification for each in points]
    up = [each.row.absent_reads_expected_mean for each in points]
    face = WHITE if hollow else look["color"]
    axis.plot(across, up, linestyle=":" if hollow else "-", markerfacecolor=face, **look)
    for each, x, y in zip(points, across, up, strict=True):
        axis.annotate(
            str(each.config.size_ratio),
            (x, y),
            textcoords="offset points",
            xytext=(4, 4),
            fontsize=7,
            color=look["color"],
        )


def _legend() -> list[Line2D]:
    styles = [Line2D([], [], label=style, **series(number)) for number, style in enumerate(STYLES)]
    plain: dict[str, Any] = {"color": NOTE, "marker": "o"}
    return [
        *styles,
        Line2D([], [], label="uniform p", **plain),
        Line2D([], [], label="Monkey", linestyle=":", markerfacecolor=WHITE, **plain),
    ]


def _nearest_default_rate(main: Sequence[Summary]) -> float:
    rates = {each.config.error_rate for each in main}
    return min(rates, key=lambda rate: abs(rate - DEFAULT.error_rate))


def _writes(main: Sequence[Summary]) -> Chart:
    rate = _nearest_default_rate(main)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(STYLES), sharey=True)
        for number, (axis, style) in enumerate(zip(axes, STYLES, strict=True)):
            points = _by_size_ratio(main, style, rate, "uniform")
            ratios = [each.config.size_ratio for each in points]
            spreads = [
                Spread(
                    row.write_amplification,
                    row.write_amplification_min,
                    row.write_amplification_max,
                )
                for row in (each.row for each in points)
            ]
            expected = [each.row.write_amplification_expected for each in points]
            axis.plot(ratios, expected, label="theory", marker="_", markersize=14, **THEORY)
            spread_bars(axis, ratios, spreads, capsize=2, label="measured", **series(number))
            axis.set(title=style, xlabel="size ratio T", xticks=ratios)
            axis.set_ylim(bottom=0)
            axis.legend(loc="upper left")
        axes[0].set_ylabel("write amplification")

    return Chart(
        "compaction-writes",
        "Write amplification by size ratio",
        f"Bytes written per byte handed over (p = {rate * 100:g} %, uniform); bars span windows of an "
        "eighth of the load and all key spaces. Theory: 1 + L T/2, 1 + L, 1 + (L - 1) + T/2 for as "
        "many levels L as the tree had, all full.",
        draw,
        width=7.4,
        height=3.4,
    )


def _space(main: Sequence[Summary]) -> Chart:
    rate = _nearest_default_rate(main)

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        ratios = sorted({each.config.size_ratio for each in main})
        for number, style in enumerate(STYLES):
            points = _by_size_ratio(main, style, rate, "uniform")
            across = [ratios.index(each.config.size_ratio) + _SHIFT[style] for each in points]
            spreads = [
                Spread(
                    row.space_amplification_mean,
                    row.space_amplification_min,
                    row.space_amplification_max,
                )
                for row in (each.row for each in points)
            ]
            spread_bars(
                axis, across, spreads, linestyle="", capsize=3, label=style, **series(number)
            )
        axis.axhline(1.0, **THEORY, label="live bytes alone")
        axis.set(
            xticks=range(len(ratios)),
            xticklabels=[str(ratio) for ratio in ratios],
            xlabel="size ratio T",
            ylabel="space amplification",
        )
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper left")

    return Chart(
        "compaction-space",
        "Space amplification by size ratio",
        f"Bytes of table files per live byte (p = {rate * 100:g} %, uniform): mean, least and most "
        "over the second half of the load and all key spaces. Dashed: nothing stored twice, nothing "
        "besides keys and values.",
        draw,
        height=3.4,
    )


def _runs(main: Sequence[Summary]) -> Chart:
    rate = _nearest_default_rate(main)
    ratio = max(each.config.size_ratio for each in main)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(len(STYLES), 1, sharex=True, sharey=True)
        for number, (axis, style) in enumerate(zip(axes, STYLES, strict=True)):
            row = _largest_key_space(main, style, ratio, rate)
            if row is None:
                continue
            counts = [int(count) for count in row.run_counts.split()]
            axis.step(
                range(1, len(counts) + 1), counts, linewidth=0.9, color=series(number)["color"]
            )
            axis.axvspan(len(counts) // 2, len(counts), color=BAND, zorder=0)
            axis.set(title=style, ylabel="sorted runs")
            axis.set_xlim(0, len(counts))
        axes[0].set_ylim(bottom=0)  # shared, and fixed by this: only once all are drawn
        axes[-1].set_xlabel("write buffers loaded")

    return Chart(
        "compaction-runs",
        "Sorted runs over the load",
        f"After every write buffer, T = {ratio}, p = {rate * 100:g} %, the largest key space. Grey: "
        "the half that is measured. A lookup may have to ask a filter of every run, and a scan has "
        "to read from every run.",
        draw,
        height=5.4,
    )


def _largest_key_space(main: Sequence[Summary], style: str, ratio: int, rate: float) -> Row | None:
    rows = [
        row
        for each in _by_size_ratio(main, style, rate, "uniform")
        if each.config.size_ratio == ratio
        for row in each.rows
    ]
    return max(rows, key=lambda row: row.key_space_count, default=None)


def _against_theory(summaries: Sequence[Summary]) -> Chart:
    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        rows = [row for each in summaries for row in each.rows]
        expected = [row.absent_reads_expected_mean for row in rows]
        ends = (min(expected) * 0.7, max(expected) * 1.4)
        axis.plot(ends, ends, label="equal", **THEORY)
        for number, style in enumerate(STYLES):
            own = [row for row in rows if row.style == style]
            axis.plot(
                [row.absent_reads_expected_mean for row in own],
                [row.absent_reads_mean for row in own],
                linestyle="",
                label=style,
                alpha=0.8,
                **series(number),
            )
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="expected: sum of the exact rates of the filters met",
            ylabel="measured blocks per absent lookup",
        )
        plain_log_axis(axis.xaxis, ends, few=50)
        plain_log_axis(axis.yaxis, ends, few=50)
        axis.legend(loc="upper left")

    return Chart(
        "compaction-absent-reads",
        "Wasted reads: measured against the filters' exact rates",
        "One point for each configuration and key space. Points at the lower left stand for few false "
        "positives, and scatter.",
        draw,
        width=5.0,
        height=4.4,
    )
