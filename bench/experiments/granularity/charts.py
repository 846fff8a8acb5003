"""The charts of ``granularity``: cached filters, reads by memory, and parts of a lookup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.experiments.granularity.groups import (
    KINDS,
    STORED_KINDS,
    at_budget,
    budgets,
    fence_search_ns,
    filter_probe_ns,
    kind,
    reads_interval,
    series,
    styles,
    textbook_reads,
    typical_budget,
)
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.verdict import ORDERS, filter_read_bytes, rocksdb_read_bytes
from bench.harness.charts import Chart, legend_below, plain_log_axis
from bench.harness.colours import (
    ASIDE,
    BLACK,
    BLUE,
    COLOURS,
    MARKERS,
    REST,
    THEORY,
    VERMILION,
    kind_looks,
)
from lsmkv.options import FilterAllocation

FIRST: Final = "granularity-cached"
"""The name of the chart that comes first."""

_ALLOCATIONS: Final[dict[FilterAllocation, str]] = {"uniform": "uniform rates", "monkey": "Monkey"}


def charts(rows: Sequence[Row]) -> list[Chart]:
    if not budgets(rows):
        return []
    bits = typical_budget(rows)
    return [
        Chart(
            FIRST,
            "Filter bytes read for an absent key when filters are read on demand",
            f"About {bits:g} bits per key, uniform rates; block cache {rows[0].cached_share:.0%} of "
            "the size of the filters. Further left is better. Per block, lsmkv reads its filters in "
            "pieces of up to 4 KiB; all others are read one whole filter at a time. Where nothing "
            "was read there is no mark. Crosses: RocksDB's own counts, in the rows of its two ways.",
            lambda figure: _draw_cached(figure, rows, bits),
            width=8.4,
            height=4.2,
        ),
        Chart(
            "granularity-reads",
            "Wasted reads of an absent key, by filter memory",
            "Data blocks counted without a block cache. Bars: 95 % intervals of all filters asked. "
            "Dashed: the sum of the runs' textbook rates. Marks of Bloom filters lie upon each other. "
            "Where nothing was read there is no mark.",
            lambda figure: _draw_reads(figure, rows),
            width=8.4,
            height=7.6,
        ),
        Chart(
            "granularity-parts",
            "A warm lookup of an absent key, and what searching indexes takes of it",
            f"The store's own filters. Median at about {bits:g} bits per key, uniform rates; whiskers "
            "end at the 95th percentile. Index searches and filter probes: their number times what "
            "one takes by itself; the rest is the walk over the runs. Parts that pass the whisker's "
            "start were timed on a machine that was not quiet.",
            lambda figure: _draw_parts(figure, rows, bits),
            width=8.4,
            height=3.6,
        ),
    ]


def _panels(
    figure: Figure, rows: Sequence[Row], *, same_scale: bool = False
) -> list[tuple[str, Any]]:
    """An axis for each tree, side by side."""
    names = styles(rows)
    axes = figure.subplots(1, len(names), sharex=same_scale, sharey=True, squeeze=False)[0]
    for name, axis in zip(names, axes, strict=True):
        runs = next(row.runs for row in rows if row.style == name)
        axis.set_title(f"{name}, {runs} runs")
    return list(zip(names, axes, strict=True))


def _draw_reads(figure: Figure, rows: Sequence[Row]) -> None:
    names = styles(rows)
    axes = figure.subplots(len(_ALLOCATIONS), len(names), sharex=True, sharey=True, squeeze=False)
    low, high = budgets(rows)[0] - 0.5, budgets(rows)[-1] + 0.5
    steps = [low + (high - low) * part / 40 for part in range(41)]
    looks = kind_looks([wanted.rpartition(", ")[2] for wanted in KINDS])
    for across, style in enumerate(names):
        first = next(row for row in rows if row.style == style)
        for down, (allocation, words) in enumerate(_ALLOCATIONS.items()):
            axis = axes[down][across]
            axis.set_title(f"{style}, {first.runs} runs, {words}")
            theory = [textbook_reads(first.run_entries, bits, allocation) for bits in steps]
            axis.plot(steps, theory, **THEORY, label="textbook rates, Bloom")
            for wanted, look in zip(KINDS, looks, strict=True):
                _draw_series(axis, series(rows, style, wanted, allocation), look)
            axis.set_yscale("log")
            plain_log_axis(axis.yaxis, axis.get_ylim(), 200)
    for axis in axes[-1]:
        axis.set_xlabel("filter bits per key, as built")
    for line in axes:
        line[0].set_ylabel("wasted reads per absent key")
    legend_below(figure, axes[0][0], 3)


def _draw_series(axis: Any, rows: Sequence[Row], look: dict[str, Any]) -> None:
    seen = [row for row in rows if row.absent_block_reads_per_lookup]
    if not seen:
        return
    places = [row.absent_block_reads_per_lookup for row in seen]
    ends = [reads_interval(row) for row in seen]
    axis.errorbar(
        [row.filter_bits_per_key for row in seen],
        places,
        yerr=(
            [place - low for place, (low, _) in zip(places, ends, strict=True)],
            [high - place for place, (_, high) in zip(places, ends, strict=True)],
        ),
        label=kind(seen[0]),
        linestyle="none",
        elinewidth=0.9,
        **look,
    )


def _draw_parts(figure: Figure, rows: Sequence[Row], bits: float) -> None:
    for style, axis in _panels(figure, rows):
        bare = next(row for row in rows if row.style == style and kind(row) == "no filters")
        here = [at_budget(rows, style, wanted, "uniform", bits) for wanted in STORED_KINDS]
        names = ["no filters", *STORED_KINDS]
        search_us = fence_search_ns(rows, style) / 1e3
        left = [0.0] * len(here)
        parts = (
            (
                "index searches",
                VERMILION,
                [row.absent_fence_searches_per_lookup * search_us for row in here],
            ),
            (
                "filter probes",
                BLUE,
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
        axis.barh(range(1, len(names)), rest, left=left, color=REST, label="rest")
        axis.barh(
            [0], [bare.absent_warm_us_p50], color=ASIDE, label="no filters, all blocks cached"
        )
        for at, row in enumerate([bare, *here]):
            axis.plot(
                [row.absent_warm_us_p50, row.absent_warm_us_p95],
                [at, at],
                color=BLACK,
                linewidth=0.9,
                marker="|",
            )
        axis.set_yticks(range(len(names)), names)
        axis.set_xlabel("µs per lookup")
        axis.grid(axis="y", visible=False)
    figure.axes[0].invert_yaxis()
    legend_below(figure, figure.axes[0], 4)


def _draw_cached(figure: Figure, rows: Sequence[Row], bits: float) -> None:
    for style, axis in _panels(figure, rows, same_scale=True):
        here = [at_budget(rows, style, wanted, "uniform", bits) for wanted in KINDS]
        for number, (order, words) in enumerate(ORDERS.items()):
            apart = (number - 1) * 0.18
            for which, mark in ((filter_read_bytes, MARKERS[number]), (rocksdb_read_bytes, "x")):
                seen = [(at, which(row, order)) for at, row in enumerate(here)]
                axis.plot(
                    [read_bytes for _, read_bytes in seen if read_bytes],
                    [at + apart for at, read_bytes in seen if read_bytes],
                    linestyle="none",
                    color=BLACK if mark == "x" else COLOURS[number],
                    marker=mark,
                    markersize=6,
                    label=words if mark != "x" else None,
                )
        axis.set_yticks(range(len(here)), [kind(row).replace(" (", "\n(") for row in here])
        axis.set_xscale("log")
        axis.set_xlabel("filter bytes read per lookup")
    figure.axes[0].invert_yaxis()
    for axis in figure.axes:
        plain_log_axis(axis.xaxis, axis.get_xlim(), 50)
        axis.tick_params(axis="x", labelsize=7.5)
    handles, _ = figure.axes[0].get_legend_handles_labels()
    if any(row.rocksdb_filter_bits_per_key is not None for row in rows):
        own = Line2D([], [], color=BLACK, marker="x", linestyle="none", label="RocksDB itself")
        handles.append(own)
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
