"""The plots of ``python -m bench filters``: rates, sizes and times."""

from __future__ import annotations

import math
import os
from typing import Final

import matplotlib

matplotlib.use("Agg")  # files only: no display is asked for

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.filter_report import Report, Row

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73")
"""Of the error rates, from the highest; Okabe and Ito's, which the colour-blind can tell apart."""

MARKERS: Final = "osD^vP*X<>hpd"
OPERATIONS: Final = (
    ("add", "add"),
    ("query_present", "ask for a present key"),
    ("query_absent", "ask for an absent key"),
)
MOST_BITS: Final = 160
"""Bits per key above which a point is only named."""

DPI: Final = 130


def draw(report: Report, directory: str) -> list[str]:
    """Write the plots as PNG; their paths."""
    plots = {
        "filters-rate.png": rate_figure(report),
        "filters-bits.png": bits_figure(report),
        "filters-time.png": time_figure(report),
    }
    paths = []
    for name, figure in plots.items():
        paths.append(os.path.join(directory, name))
        figure.savefig(paths[-1], dpi=DPI)
    return paths


def rate_figure(report: Report) -> Figure:
    """Measured over exact rate, with intervals: a panel for each number of keys."""
    names = report.names
    figure, axes = _panels(report, names)
    rates = report.error_rates
    for panel, key_count in zip(axes, report.key_counts, strict=True):
        panel.axvline(1.0, color="0.35", linewidth=1)
        for nth, rate in enumerate(rates):
            rows = [row for row in report.of(key_count, rate) if row.false_positive_count]
            shift = (nth - (len(rates) - 1) / 2) * 0.22
            middle = [row.ratio[0] for row in rows]
            panel.errorbar(
                middle,
                [names.index(row.filter) + shift for row in rows],
                xerr=[
                    [row.ratio[0] - row.ratio[1] for row in rows],
                    [row.ratio[2] - row.ratio[0] for row in rows],
                ],
                fmt="o",
                markersize=4,
                linewidth=1.4,
                color=COLOURS[nth % len(COLOURS)],
                label=f"{rate * 100:g} % requested",
            )
        panel.set_xscale("log")
        panel.set_xlim(*_ratio_limits(report))
        _plain_ticks(panel, (0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50))
        panel.grid(axis="x", color="0.93")
    axes[0].legend(loc="lower right", fontsize=8)
    figure.suptitle("False positives: measured rate by the rate in theory, 95 % intervals")
    figure.supxlabel(
        "measured rate / exact rate (of independent probes for bloom/..., rbloom, pybloom-live)",
        fontsize=9,
    )
    return figure


def _ratio_limits(report: Report) -> tuple[float, float]:
    """The range of the ratios; intervals of a handful of false positives may leave it."""
    rows = [row for row in report.rows if row.false_positive_count >= 20]
    ends = [row.ratio for row in rows] or [(1.0, 1.0, 1.0)]
    return min(0.7, *[low for _, low, _ in ends]) * 0.95, max(
        1.5, *[high for _, _, high in ends]
    ) * 1.05


def bits_figure(report: Report) -> Figure:
    """Bits per key against the rate, with the lower bound and a Bloom filter's 1.44 of it."""
    panels = report.key_counts
    figure = Figure(figsize=(4.6 * len(panels) + 2.4, 7.2), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, sharex=True, squeeze=False)[0]
    for panel, key_count in zip(axes, panels, strict=True):
        for nth, name in enumerate(report.names):
            rows = [row for row in report.of(key_count) if row.filter == name]
            points = sorted({(_rate(row), row.bits_per_key) for row in rows if _rate(row) > 0})
            panel.plot(
                [rate for rate, _ in points],
                [bits for _, bits in points],
                marker=MARKERS[nth % len(MARKERS)],
                markersize=7,
                linewidth=0.8,
                alpha=0.85,
                color=matplotlib.colormaps["tab20"](nth % 20),
                markerfacecolor="none" if rows and rows[0].group != "package" else None,
                label=name,
            )
        _bound(panel, report)
        panel.set_title(f"{key_count:,} keys")
        panel.set_xscale("log")
        panel.set_yscale("log", base=2)
        panel.set_ylim(2.5, MOST_BITS)
        panel.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        beyond = [row for row in report.of(key_count) if row.bits_per_key > MOST_BITS]
        panel.text(
            0.98,
            0.98,
            "\n".join(
                f"not shown: {row.filter}, {row.bits_per_key:,.0f} bits at {_rate(row) * 100:.2g} %"
                for row in beyond
            ),
            transform=panel.transAxes,
            ha="right",
            va="top",
            fontsize=8,
        )
        panel.xaxis.set_major_formatter(ticker.FuncFormatter(lambda rate, _: f"{rate * 100:g} %"))
        panel.grid(color="0.92")
    axes[0].invert_xaxis()  # all panels share the axis
    axes[0].set_ylabel("bits per key")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8)
    figure.suptitle("Size by error rate (exact, or measured where probes are not independent)")
    figure.supxlabel("error rate, lower to the right", fontsize=9)
    return figure


def _rate(row: Row) -> float:
    return row.error_rate_measured if row.error_rate_basis == "ideal" else row.error_rate_exact


def _bound(panel: Axes, report: Report) -> None:
    rates = [_rate(row) for row in report.rows if _rate(row) > 0]
    least, most = min(rates), min(0.5, max(rates))
    xs = [least * (most / least) ** (i / 60) for i in range(61)]
    for factor, style in ((1.0, "-"), (1.44, "--")):
        panel.plot(
            xs,
            [-factor * math.log2(x) for x in xs],
            style,
            color="black",
            linewidth=1.1,
            label=f"{factor:.2f} log2(1/p)",
        )


def time_figure(report: Report) -> Figure:
    """Nanoseconds per operation at the middle rate: medians with least and most."""
    rates = report.error_rates
    rate = rates[len(rates) // 2]
    names = [name for name in report.names if any(row.filter == name for row in _at(report, rate))]
    figure, axes = _panels(report, names)
    for panel, key_count in zip(axes, report.key_counts, strict=True):
        rows = report.of(key_count, rate)
        for nth, (operation, label) in enumerate(OPERATIONS):
            medians = [float(getattr(row, f"{operation}_ns_median")) for row in rows]
            least = [float(getattr(row, f"{operation}_ns_min")) for row in rows]
            most = [float(getattr(row, f"{operation}_ns_max")) for row in rows]
            panel.errorbar(
                medians,
                [names.index(row.filter) + (nth - 1) * 0.22 for row in rows],
                xerr=[
                    [at - end for at, end in zip(medians, least, strict=True)],
                    [end - at for at, end in zip(medians, most, strict=True)],
                ],
                fmt="o",
                markersize=4,
                linewidth=1.2,
                color=COLOURS[nth],
                label=label,
            )
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(ticker.FuncFormatter(lambda ns, _: f"{ns:,.0f}"))
        panel.grid(axis="x", which="both", color="0.93")
    axes[0].legend(loc="upper left", fontsize=8)
    figure.suptitle(f"Time per operation at {rate * 100:g} % requested: median, least and most")
    figure.supxlabel("nanoseconds, loop included, on a logarithmic scale", fontsize=9)
    return figure


def _at(report: Report, rate: float) -> list[Row]:
    return [row for row in report.rows if row.error_rate_requested == rate]


def _panels(report: Report, names: list[str]) -> tuple[Figure, list[Axes]]:
    """A panel for each number of keys, with a line for each filter."""
    count = len(report.key_counts)
    figure = Figure(figsize=(4.2 * count + 2.0, 0.4 * len(names) + 2.0), layout="constrained")
    axes = list(figure.subplots(1, count, sharey=True, sharex=True, squeeze=False)[0])
    for panel, key_count in zip(axes, report.key_counts, strict=True):
        panel.set_title(f"{key_count:,} keys")
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        for y in range(1, len(names)):
            panel.axhline(y - 0.5, color="0.88", linewidth=0.8)
    return figure, axes


def _plain_ticks(panel: Axes, ticks: tuple[float, ...]) -> None:
    low, high = panel.get_xlim()
    panel.set_xticks([tick for tick in ticks if low <= tick <= high])
    panel.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    panel.xaxis.set_minor_locator(ticker.NullLocator())
