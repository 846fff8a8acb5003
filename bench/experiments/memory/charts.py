"""The charts of ``memory``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.experiments.memory.rows import Row
from bench.experiments.memory.tables import (
    CONTENDERS,
    LAW_NAMES,
    RESIDENCIES,
    RESIDENCY_NAMES,
    budgets,
    key_counts,
    memories,
    of_part,
    page_bytes,
    preset_rows,
    reads,
    run_counts,
    size,
    split_rows,
    swept_rows,
)
from bench.experiments.memory.tasks import LAWS, PRESENT_SHARES, PRESET, RESIDENCY
from bench.harness.charts import Chart, legend_below, plain_axis, spread_bars
from bench.harness.colours import COMPUTED, THEORY, VERMILION, series
from bench.harness.tables import percent
from lsmkv.options import KIB

SPLIT_NAME: Final = "memory-split"
RESIDENCY_NAME: Final = "memory-residency"
PICTURED: Final = (SPLIT_NAME, RESIDENCY_NAME)
"""The charts that documents show."""

_LOOK: Final[dict[str, Any]] = {"capsize": 2, "elinewidth": 0.9}


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The charts that the rows are enough for."""
    found = [
        Chart(
            SPLIT_NAME if runs == 1 else f"{SPLIT_NAME}-{runs}-runs",
            f"Filters or cache: {runs} {'run' if runs == 1 else 'runs'}",
            "Block reads per lookup, wasted and needed, against the memory for filters and block cache "
            "together; one line for each error rate of Bloom filters, the cache getting the rest. "
            "Medians, bars from least to most. A line begins where its filters fit; where a repetition "
            "read no block at all, a logarithmic axis has no mark.",
            partial(_draw_split, rows, runs),
            width=9.0,
            height=8.6,
        )
        for runs in run_counts(rows)
    ]
    swept = of_part(rows, RESIDENCY)
    for block_bytes in sorted({row.block_size_bytes for row in swept}):
        kib = block_bytes // KIB
        found.append(
            Chart(
                RESIDENCY_NAME if kib == 4 else f"{RESIDENCY_NAME}-{kib}-kib",
                f"Where cached filters turn: blocks of {kib} KiB",
                "Bytes of 4 KiB pages that a device reads per lookup, by the size of the block cache. "
                "Dotted: the cache is as large as all filters. Dash-dotted: from here on cached filters "
                "read less than none. Dashed: a chunk for each lookup whose chunk "
                "a cache of that size cannot hold, and a block for each false positive (uniform "
                "lookups of absent keys).",
                partial(_draw_residency, swept, block_bytes),
                width=9.0,
                height=6.6,
            )
        )
    preset = of_part(rows, PRESET)
    if preset:
        found.append(
            Chart(
                "memory-preset",
                "The preset small_memory() as a store grows",
                "Bytes of 4 KiB pages that a device reads per lookup, by the number of keys, with the "
                "preset's block cache. Dotted: the filters are as large as the cache.",
                partial(_draw_preset, preset),
                width=9.0,
                height=4.0,
            )
        )
    return found


def _draw_split(rows: Sequence[Row], runs: int, figure: Figure) -> None:
    grid = figure.subplots(len(PRESENT_SHARES), len(LAWS), sharex=True, sharey="row")
    bloom = [which for which in CONTENDERS if which.filters != "ribbon"]
    for line, share in zip(grid, PRESENT_SHARES, strict=True):
        for axes, law in zip(line, LAWS, strict=True):
            for count, which in enumerate(bloom):
                found = [
                    (budget, reads(here))
                    for budget in budgets(rows)
                    if (here := split_rows(rows, runs, law, share, budget, which))
                    and reads(here).least > 0
                ]
                if found:
                    places, spreads = zip(*found, strict=True)
                    label = "no filters" if which.rate is None else f"p = {which.name}"
                    spread_bars(
                        axes,
                        [100 * place for place in places],
                        spreads,
                        label=label,
                        **_LOOK,
                        **series(count),
                    )
            axes.set_xscale("log")
            axes.set_yscale("linear" if share else "log")
            if share:
                axes.set_ylim(bottom=0)
            axes.set_xticks([100 * budget for budget in budgets(rows)])
            plain_axis(axes.xaxis)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _decimal(value)))
            axes.minorticks_off()
            axes.set_title(f"{LAW_NAMES[law]}, {percent(share)} % present")
        line[0].set_ylabel("block reads per lookup")
    for axes in grid[-1]:
        axes.set_xlabel("filters + cache, % of the data")
    legend_below(figure, grid[-1][0], len(bloom))  # which has all lines


def _decimal(value: float) -> str:
    """A number without an exponent, however small."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _draw_residency(rows: Sequence[Row], block_bytes: int, figure: Figure) -> None:
    shares = (0.0, 1.0)
    grid = figure.subplots(len(shares), len(LAWS), sharex=True, sharey="row")
    sizes = memories(rows)
    here = [row for row in rows if row.block_size_bytes == block_bytes]
    filters = next(row for row in here if row.granularity == "block")
    for line, share in zip(grid, shares, strict=True):
        for axes, law in zip(line, LAWS, strict=True):
            for count, kind in enumerate(RESIDENCIES):
                found = [
                    (place, page_bytes(each))
                    for place, memory in enumerate(sizes)
                    if (each := swept_rows(rows, block_bytes, share, law, kind, memory))
                ]
                places, spreads = zip(*found, strict=True)
                spread_bars(
                    axes, places, spreads, label=RESIDENCY_NAMES[kind], **_LOOK, **series(count)
                )
            if law == "uniform" and not share:
                axes.plot(*_expected(filters, here, sizes), label="cached, theory", **THEORY)
            fits = _place(sizes, filters.filter_bytes)
            axes.axvline(fits, color=COMPUTED, linestyle=":", label="cache as large as all filters")
            for place in break_evens(here, block_bytes, share, law):
                axes.axvline(
                    place, color=VERMILION, linestyle="-.", label="break-even", linewidth=1
                )
            axes.set_ylim(bottom=0)
            axes.set_xticks(range(len(sizes)), [size(each) for each in sizes], rotation=60)
            plain_axis(axes.yaxis)
            axes.set_title(f"{LAW_NAMES[law]}, {'present' if share else 'absent'} keys")
        line[0].set_ylabel("bytes read per lookup")
    for axes in grid[-1]:
        axes.set_xlabel("block cache")
    legend_below(figure, grid[0][0], 3)


def break_evens(rows: Sequence[Row], block_bytes: int, share: float, law: str) -> list[float]:
    """The place from which on cached filters read less than none, between those of the caches tried.

    Empty if there is no such place.
    """
    sizes = memories(rows)
    excess = [
        page_bytes(swept_rows(rows, block_bytes, share, law, "cached", memory)).median
        - page_bytes(swept_rows(rows, block_bytes, share, law, "off", memory)).median
        for memory in sizes
    ]
    for place in range(len(sizes) - 1, 0, -1):
        before, after = excess[place - 1], excess[place]
        if before > 0.0 >= after:
            return [place - 1 + before / (before - after)]
    return []


def _expected(
    first: Row, rows: Sequence[Row], sizes: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Bytes of uniform lookups of absent keys with cached filters, by place."""
    empty = [
        row
        for row in rows
        if not row.memory_bytes and row.law == "uniform" and not row.present_share
    ]
    chunk, block = (
        page_bytes([row for row in empty if row.residency == kind and row.granularity == "block"])
        for kind in ("cached", "off")
    )
    passed = first.error_rate_exact or first.error_rate
    places, found = [], []
    for place, memory in enumerate(sizes):
        missed = 1.0 - min(1.0, memory / first.filter_bytes)
        places.append(float(place))
        found.append(missed * (chunk.median - passed * block.median) + passed * block.median)
    return places, found


def _place(sizes: Sequence[int], size_bytes: int) -> float:
    """Where a number of bytes lies between the places of ``sizes``, by its logarithm."""
    above = next((place for place, each in enumerate(sizes) if each >= size_bytes), len(sizes) - 1)
    low, high = sizes[max(0, above - 1)], sizes[above]
    if not low or low == high:
        return above
    return above - 1 + math.log(size_bytes / low) / math.log(high / low)


def _draw_preset(rows: Sequence[Row], figure: Figure) -> None:
    both = figure.subplots(1, 2)
    for axes, share in zip(both, (0.0, 1.0), strict=True):
        for count, kind in enumerate(("off", "cached", "resident")):
            spreads = [
                page_bytes(preset_rows(rows, keys, "uniform", share, kind))
                for keys in key_counts(rows)
            ]
            spread_bars(axes, key_counts(rows), spreads, label=kind, **_LOOK, **series(count))
        first = rows[0]
        edge = first.key_count * first.memory_bytes / first.filter_bytes
        axes.axvline(edge, color=COMPUTED, linestyle=":", label="filters fill the cache")
        axes.set_xscale("log")
        axes.set_xticks(key_counts(rows))
        axes.tick_params(axis="x", rotation=60)
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        plain_axis(axes.yaxis)
        axes.set_title(f"uniform, {'present' if share else 'absent'} keys")
        axes.set_xlabel("keys")
    both[0].set_ylabel("bytes read per lookup")
    legend_below(figure, both[0], 4)
