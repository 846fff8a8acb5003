"""The charts of ``granularity``: reads by memory, parts of a lookup, and cached filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from bench.experiments.granularity.groups import (
    KINDS,
    at_budget,
    budgets,
    fence_search_ns,
    filter_probe_ns,
    kind,
    series,
    styles,
    textbook_reads,
    typical_budget,
)
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.verdict import ORDERS, filter_read_bytes
from bench.harness.charts import COLOURS, THEORY, Chart, legend_below
from bench.harness.charts import series as look
from lsmkv.options import FilterAllocation

_ALLOCATIONS: tuple[FilterAllocation, ...] = ("uniform", "monkey")


def charts(rows: Sequence[Row]) -> list[Chart]:
    if not budgets(rows):
        return []
    bits = typical_budget(rows)
    return [
        Chart(
            "granularity-reads",
            "Data blocks read for an absent key, by filter memory",
            "Counted without a block cache. Filled: uniform rates; hollow: Monkey's. Dashed: the "
            "sum of the runs' textbook rates, uniform above and ideal Monkey below. "
            "Where nothing was read there is no mark.",
            lambda figure: _draw_reads(figure, rows),
            width=8.4,
            height=4.2,
        ),
        Chart(
            "granularity-parts",
            "A warm lookup of an absent key, and what searching indexes takes of it",
            f"Median at about {bits:g} bits per key, uniform; whiskers end at the 95th percentile. "
            "Index searches and filter probes: their number times what one takes by itself; the "
            "rest is the walk over the runs. Parts that pass the whisker's start were timed on a machine "
            "that was not quiet. Dark grey: the same tree without filters, all blocks cached.",
            lambda figure: _draw_parts(figure, rows, bits),
            width=8.4,
            height=3.6,
        ),
        Chart(
            "granularity-cached",
            "Filter bytes read for an absent key when filters are fetched on demand",
            f"About {bits:g} bits per key, uniform; block cache {rows[0].cached_share:.0%} of the "
            "size of the filters. Per block, filters come in chunks of up to 4 KiB; per table, whole.",
            lambda figure: _draw_cached(figure, rows, bits),
            width=8.4,
            height=3.8,
        ),
    ]


def _panels(figure: Figure, rows: Sequence[Row]) -> list[tuple[str, Any]]:
    """An axis for each tree, side by side."""
    names = styles(rows)
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for name, axis in zip(names, axes, strict=True):
        runs = next(row.runs for row in rows if row.style == name)
        axis.set_title(f"{name}, {runs} runs")
    return list(zip(names, axes, strict=True))


def _draw_reads(figure: Figure, rows: Sequence[Row]) -> None:
    for style, axis in _panels(figure, rows):
        first = next(row for row in rows if row.style == style)
        steps = [
            budgets(rows)[0] + (budgets(rows)[-1] - budgets(rows)[0]) * part / 40
            for part in range(41)
        ]
        for allocation in _ALLOCATIONS:
            theory = [textbook_reads(first.run_entries, bits, allocation) for bits in steps]
            axis.plot(steps, theory, **THEORY)
        for number, wanted in enumerate(KINDS):
            for allocation in _ALLOCATIONS:
                seen = [
                    row
                    for row in series(rows, style, wanted, allocation)
                    if row.absent_block_reads_per_lookup
                ]
                hollow = {"markerfacecolor": "white"} if allocation == "monkey" else {}
                label = f"{wanted}{', Monkey' if allocation == 'monkey' else ''}"
                axis.plot(
                    [row.filter_bits_per_key for row in seen],
                    [row.absent_block_reads_per_lookup for row in seen],
                    label=label,
                    linestyle="none",
                    **look(number),
                    **hollow,
                )
        axis.set_yscale("log")
        axis.set_xlabel("filter bits per key, as built")
    figure.axes[0].set_ylabel("data blocks read per absent key")
    legend_below(figure, figure.axes[0], 4)


def _draw_parts(figure: Figure, rows: Sequence[Row], bits: float) -> None:
    for style, axis in _panels(figure, rows):
        bare = next(row for row in rows if row.style == style and kind(row) == "no filters")
        here = [at_budget(rows, style, wanted, "uniform", bits) for wanted in KINDS]
        names = ["no filters", *KINDS]
        search_us = fence_search_ns(rows, style) / 1e3
        left = [0.0] * len(here)
        parts = (
            (
                "index searches",
                COLOURS[1],
                [row.absent_fence_searches_per_lookup * search_us for row in here],
            ),
            (
                "filter probes",
                COLOURS[0],
                [
                    row.absent_filter_probes_per_lookup * filter_probe_ns(rows, row) / 1e3
                    for row in here
                ],
            ),
        )
        for label, colour, widths in parts:
            axis.barh(range(1, len(names)), widths, left=left, color=colour, label=label)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        rest = [
            max(0.0, row.absent_warm_us_p50 - done) for row, done in zip(here, left, strict=True)
        ]
        axis.barh(range(1, len(names)), rest, left=left, color="#cccccc", label="rest")
        axis.barh([0], [bare.absent_warm_us_p50], color="#999999", label="no filters")
        for at, row in enumerate([bare, *here]):
            axis.plot(
                [row.absent_warm_us_p50, row.absent_warm_us_p95],
                [at, at],
                color="black",
                linewidth=0.9,
                marker="|",
            )
        axis.set_yticks(range(len(names)), names)
        axis.set_xlabel("µs per lookup")
        axis.grid(axis="y", visible=False)
    figure.axes[0].invert_yaxis()
    legend_below(figure, figure.axes[0], 4)


def _draw_cached(figure: Figure, rows: Sequence[Row], bits: float) -> None:
    width = 0.8 / len(KINDS)
    for style, axis in _panels(figure, rows):
        for number, wanted in enumerate(KINDS):
            row = at_budget(rows, style, wanted, "uniform", bits)
            axis.bar(
                [at + (number - (len(KINDS) - 1) / 2) * width for at in range(len(ORDERS))],
                [filter_read_bytes(row, order) for order in ORDERS],
                width,
                color=COLOURS[number],
                label=f"{wanted} ({row.filter_bits_per_key:.1f} bits)",
            )
        axis.set_xticks(range(len(ORDERS)), list(ORDERS.values()))
        axis.set_yscale("log")
        axis.set_ylim(bottom=10)
        axis.grid(axis="x", visible=False)
        axis.legend(fontsize=6.5, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    figure.axes[0].set_ylabel("filter bytes read per lookup")
