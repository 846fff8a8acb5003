"""The charts of ``filters``: rates, sizes and times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.experiments.filters.rows import (
    Row,
    error_rates,
    key_counts,
    middle_rate,
    names,
    rows_of,
)
from bench.harness.charts import (
    Chart,
    legend_below,
    percent_axis,
    plain_axis,
    spread_bars,
)
from bench.harness.colours import GRID, THEORY, kind_looks, series

OPERATIONS: Final = (
    ("add", "add"),
    ("query_present", "ask for a present key"),
    ("query_absent", "ask for an absent key"),
)
OURS: Final = ("store", "package")
_KINDS: Final = {
    "blocked": "blocked-bloom",
    "binary-fuse-8": "binary-fuse",
    "binary-fuse-16": "binary-fuse",
    "counting-4": "counting",
    "counting-8": "counting",
    "rbloom": "bloom",
    "pybloom-live": "bloom",
}
MOST_BITS: Final = 160
"""The chart names points of more bits per key, but does not show them."""

_SHIFT: Final = 0.22  # between marks of one line
_ENOUGH: Final = 20  # false positives: intervals of fewer may leave the chart


def charts(rows: Sequence[Row]) -> list[Chart]:
    height = 0.3 * len(names(rows)) + 1.3
    return [
        Chart(
            "filters-rate",
            "False positives: measured rate by the rate in theory",
            "With 95 % intervals, by the number of keys in a filter; 1: the measured rate is the "
            "theory's. The rate in theory is that of independent probes for bloom/..., rbloom and "
            "pybloom-live, exact for the others.",
            partial(_draw_rates, rows),
            width=9.5,
            height=height,
        ),
        Chart(
            "filters-bits",
            "Size by error rate",
            "Bits per key against the exact rate (the measured one where probes are not "
            "independent), by the number of keys. Solid: the lower bound of any filter; dashed: "
            "1.44 times that, a Bloom filter's. Hollow marks: not of this package.",
            partial(_draw_bits, rows),
            width=10.5,
            height=6.0,
        ),
        Chart(
            "filters-time",
            f"Time per operation at {middle_rate(rows) * 100:g} % requested",
            "Median, least and most of the turns, the Python loop around the operation included.",
            partial(_draw_times, rows),
            width=9.5,
            height=height,
        ),
    ]


def _draw_rates(rows: Sequence[Row], figure: Figure) -> None:
    lines, rates = names(rows), error_rates(rows)
    axes = _panels(figure, rows, lines)
    for panel, key_count in zip(axes, key_counts(rows), strict=True):
        panel.axvline(1.0, **THEORY, label="theory")
        for nth, rate in enumerate(rates):
            here = [row for row in rows_of(rows, key_count, rate) if row.false_positive_count]
            shift = (nth - (len(rates) - 1) / 2) * _SHIFT
            spread_bars(
                panel,
                [lines.index(row.filter) + shift for row in here],
                [row.ratio for row in here],
                across=True,
                label=f"{rate * 100:g} % requested",
                **_look(nth),
            )
        panel.set_xscale("log")
        panel.set_xlim(*_ratio_limits(rows))
        _plain_ticks(panel, (0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50))
    _legend_below(figure, axes, "measured rate / rate in theory")


def _ratio_limits(rows: Sequence[Row]) -> tuple[float, float]:
    """The range of the ratios; intervals of a handful of false positives may leave it."""
    ratios = [row.ratio for row in rows if row.false_positive_count >= _ENOUGH]
    return (
        min([0.7, *(ratio.least for ratio in ratios)]) * 0.95,
        max([1.5, *(ratio.most for ratio in ratios)]) * 1.05,
    )


def _draw_bits(rows: Sequence[Row], figure: Figure) -> None:
    counts = key_counts(rows)
    axes = list(figure.subplots(1, len(counts), sharey=True, sharex=True, squeeze=False)[0])
    looks = contender_looks(names(rows))
    for panel, key_count in zip(axes, counts, strict=True):
        for name, look in looks.items():
            here = [row for row in rows_of(rows, key_count) if row.filter == name and row.rate > 0]
            points = sorted({(row.rate, row.bits_per_key) for row in here})
            panel.plot(
                [rate for rate, _ in points],
                [bits for _, bits in points],
                **look,
                markersize=6,
                linewidth=0.8,
                alpha=0.85,
                zorder=3 if here and here[0].group in OURS else 2.5,
                markerfacecolor="none" if here and here[0].group not in OURS else None,
                label=name,
            )
        _bound(panel, rows)
        panel.set_title(f"{key_count:,} keys")
        panel.set_xscale("log")
        panel.set_yscale("log", base=2)
        panel.set_ylim(2.5, MOST_BITS)
        plain_axis(panel.yaxis)
        percent_axis(panel.xaxis)
        _name_the_rest(panel, rows_of(rows, key_count))
    axes[0].invert_xaxis()  # all panels share the axis
    axes[0].set_ylabel("bits per key")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    axes[len(axes) // 2].set_xlabel("error rate, %, lower to the right")


def contender_looks(shown: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and mark of each contender: the colour is its kind's."""
    return dict(zip(shown, kind_looks([_kind(name) for name in shown]), strict=True))


def _kind(name: str) -> str:
    """The kind of a contender.

    >>> _kind("store/ribbon"), _kind("bloom/leveldb"), _kind("counting-4")
    ('ribbon', 'bloom', 'counting')
    """
    plain = name.removeprefix("store/").partition("/")[0]
    return _KINDS.get(plain, plain)


def _name_the_rest(panel: Axes, rows: Sequence[Row]) -> None:
    beyond = [row for row in rows if row.bits_per_key > MOST_BITS]
    text = "\n".join(
        f"not shown: {row.filter}, {row.bits_per_key:,.0f} bits at {row.rate * 100:.2g} %"
        for row in beyond
    )
    panel.text(0.98, 0.02, text, transform=panel.transAxes, ha="right", va="bottom", fontsize=7)


def _bound(panel: Axes, rows: Sequence[Row]) -> None:
    rates = [row.rate for row in rows if row.rate > 0]
    least, most = min(rates), min(0.5, max(rates))
    xs = [least * (most / least) ** (i / 60) for i in range(61)]
    for factor, style in ((1.0, "-"), (1.44, "--")):
        panel.plot(
            xs,
            [-factor * math.log2(x) for x in xs],
            **(THEORY | {"linestyle": style}),
            label=f"{factor:.2f} log2(1/p)",
        )


def _draw_times(rows: Sequence[Row], figure: Figure) -> None:
    timed = [row for row in rows if row.error_rate_requested == middle_rate(rows)]
    lines = names(timed)
    axes = _panels(figure, timed, lines)
    for panel, key_count in zip(axes, key_counts(timed), strict=True):
        here = rows_of(timed, key_count)
        for nth, (operation, label) in enumerate(OPERATIONS):
            spread_bars(
                panel,
                [lines.index(row.filter) + (nth - 1) * _SHIFT for row in here],
                [row.time_us(operation) for row in here],
                across=True,
                label=label,
                **_look(nth),
            )
        panel.set_xscale("log")
        plain_axis(panel.xaxis)
    _legend_below(figure, axes, "microseconds")


def _look(number: int) -> dict[str, Any]:
    return {**series(number), "linestyle": "none", "markersize": 3.5, "elinewidth": 1.2}


def _panels(figure: Figure, rows: Sequence[Row], lines: Sequence[str]) -> list[Axes]:
    """Panels by number of keys, with a line for each filter."""
    counts = key_counts(rows)
    axes = list(figure.subplots(1, len(counts), sharey=True, sharex=True, squeeze=False)[0])
    for panel, key_count in zip(axes, counts, strict=True):
        panel.set_title(f"{key_count:,} keys")
        panel.set_yticks(range(len(lines)), lines)
        panel.set_ylim(len(lines) - 0.5, -0.5)
        panel.grid(visible=False, axis="y")
        for y in range(1, len(lines)):
            panel.axhline(y - 0.5, color=GRID, linewidth=0.8)
    return axes


def _legend_below(figure: Figure, axes: Sequence[Axes], label: str) -> None:
    """One label for all panels' axes, and one legend below."""
    axes[len(axes) // 2].set_xlabel(label)
    legend_below(figure, axes[0], len(axes[0].get_legend_handles_labels()[1]))


def _plain_ticks(panel: Axes, ticks: Sequence[float]) -> None:
    low, high = panel.get_xlim()
    panel.set_xticks([tick for tick in ticks if low <= tick <= high])
    plain_axis(panel.xaxis)
    panel.xaxis.set_minor_locator(ticker.NullLocator())
