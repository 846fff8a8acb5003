"""The charts of ``saved-io``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy
from matplotlib.figure import Figure

from bench.experiments.saved_io import theory
from bench.experiments.saved_io.datasets import ALONE, DIGITS
from bench.experiments.saved_io.rows import Row
from bench.harness.charts import THEORY, Chart, legend_below, percent_axis, plain_axis, series
from lsmkv.options import KIB

_RATES: Final = numpy.logspace(-4, numpy.log10(0.5), 80)
LOOKUPS_PER_KEY: Final = (0.002, 0.02, 0.2, 2.0)
"""Lookups per key between two openings, which share the load of the filters."""


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The charts that the rows are enough for."""
    rates = Chart(
        "error-rates",
        "False-positive rate: asked for, in theory, and measured",
        "Left, in stores: measured rates with 95 % intervals against the rates asked for. Right, "
        "filters of one block's keys: measured over exact rate for several ways to derive the "
        "probes from the key; 1: the measured rate is the theory's.",
        partial(_draw_rates, rows),
        width=8.2,
    )
    stores = [row for row in rows if row.is_store and row.repetition == 0]
    if not stores:
        return [rates]
    shown = DIGITS if any(row.dataset == DIGITS for row in stores) else stores[0].dataset
    policy = stores[0].filter_policy
    stores = [row for row in stores if row.filter_policy == policy]
    filtered = [row for row in stores if row.error_rate_requested is not None]
    return [
        Chart(
            "reads-saved",
            "Disk reads saved against the false-positive rate",
            "Share of data-block reads that filters save, by how many lookups find their key; "
            "points are counts, dashed lines theory, (1 - p) of the searches that a filter can spare. "
            "A present key needs its one read whatever the filter.",
            partial(_draw_saved, [row for row in filtered if row.dataset == shown]),
            width=7.6,
        ),
        Chart(
            "reads-left",
            "Disk reads left for an absent key",
            "Data-block reads for each lookup of an absent key, by block size and number of runs; "
            "dashed: p times the number of runs. The leftmost point of each line is without filters.",
            partial(_draw_left, [row for row in stores if not row.hit_ratio]),
        ),
        rates,
        Chart(
            "memory",
            "What memory buys",
            "Share of absent lookups' reads that are left, against the size of the filters; dashed: "
            "the least rate of any Bloom filter of that size, 0.6185 to the power of bits per key.",
            partial(_draw_memory, [row for row in filtered if not row.hit_ratio]),
        ),
        Chart(
            "cold-latency",
            "Cold latency against the false-positive rate",
            "Mean time of a lookup whose every read goes to the device (direct reads, block cache "
            "off); the hollow marks at the right are without filters.",
            partial(_draw_latency, [row for row in stores if row.dataset == shown]),
        ),
        Chart(
            "knee",
            "Where a lower rate stops paying",
            "Bytes read for an absent lookup, filters' own load included, against the size of the "
            "filters: the fewer lookups follow an opening, the sooner larger filters cost more than "
            "they save. Marks: the best of the measured rates.",
            partial(_draw_knee, [row for row in filtered if not row.hit_ratio]),
        ),
    ]


Key = Callable[[Row], Any]


def _groups(rows: Sequence[Row], key: Key) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _shape(row: Row) -> str:
    runs = f"{row.run_count} run{'s' * (row.run_count != 1)}"
    return f"{row.dataset}, {(row.block_size_bytes or 0) // KIB} KiB, {runs}"


def _rate_ticks(axes: Any) -> None:
    axes.set_xscale("log")
    axes.set_xticks([0.0001, 0.001, 0.01, 0.1, 0.5])
    axes.minorticks_off()
    percent_axis(axes.xaxis)
    axes.set_xlabel("false-positive rate p of the filters as built, %")


def _draw_saved(rows: Sequence[Row], figure: Figure) -> None:
    smallest = min(row.block_size_bytes or 0 for row in rows)
    panels = _groups(
        [row for row in rows if row.block_size_bytes == smallest], lambda row: row.run_count
    )
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (runs, found) in zip(grid, panels.items(), strict=True):
        for number, (hit_ratio, group) in enumerate(_groups(found, lambda r: r.hit_ratio).items()):
            expected = [theory.saved_share(p, hit_ratio, runs) for p in _RATES]
            axes.plot(_RATES, expected, **THEORY)
            axes.plot(
                [row.error_rate_exact for row in group],
                [row.reads_saved_gross_share for row in group],
                linestyle="none",
                label=f"{hit_ratio * 100:g} % present",
                **series(number),
            )
        _rate_ticks(axes)
        axes.set_title(f"{smallest // KIB} KiB blocks, {runs} run{'s' * (runs != 1)}")
        axes.set_ylim(-0.03, 1.03)
        percent_axis(axes.yaxis)
    grid[0].set_ylabel("data-block reads saved, %")
    legend_below(figure, grid[0], 5)


def _draw_left(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for number, (shape, group) in enumerate(_groups(rows, _shape).items()):
        ordered = sorted(group, key=lambda row: -(row.error_rate_exact or 1.0))
        points = [
            (row.error_rate_exact or 1.0, (row.data_block_reads or 0) / row.lookup_count)
            for row in ordered
        ]
        shown = [(rate, reads) for rate, reads in points if reads]
        axes.plot(*zip(*shown, strict=True), linestyle="none", label=shape, **series(number))
    for runs in sorted({row.run_count or 1 for row in rows}):
        rates = numpy.append(_RATES, 1.0)
        axes.plot(rates, [theory.reads_per_lookup(p, 0.0, runs) for p in rates], **THEORY)
    _rate_ticks(axes)
    axes.set_xticks([0.0001, 0.001, 0.01, 0.1, 1])
    axes.set_xlabel("false-positive rate p of the filters as built, % (100: no filter)")
    axes.invert_xaxis()
    axes.set_yscale("log")
    plain_axis(axes.yaxis)
    axes.set_ylabel("data-block reads per absent lookup")
    axes.legend()


def _draw_rates(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    stores = [
        row for row in rows if row.is_store and not row.hit_ratio and row.error_rate_requested
    ]
    for number, (shape, group) in enumerate(_groups(stores, _shape).items()):
        _with_intervals(left, group, number, shape, relative=False)
    left.plot(_RATES, _RATES, **THEORY)
    left.set_yscale("log")
    percent_axis(left.yaxis)
    left.set_ylabel("measured, %")
    left.set_title("in stores")
    alone = [row for row in rows if row.dataset == ALONE and row.repetition == 0]
    for number, (strategy, group) in enumerate(
        _groups(alone, lambda row: row.hash_strategy).items()
    ):
        _with_intervals(right, group, number, strategy, relative=True)
    right.axhline(1.0, **THEORY)
    right.set_yscale("log")
    right.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    right.set_ylabel("measured / exact")
    size = f" of {alone[0].entry_count} keys" if alone else ""
    right.set_title(f"filters{size}, by hash strategy")
    for axes in (left, right):
        _rate_ticks(axes)
        axes.set_xlabel("false-positive rate asked for, %")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")


def _with_intervals(
    axes: Any, group: Sequence[Row], number: int, label: str, relative: bool
) -> None:
    rates, middles, below, above = [], [], [], []
    for row in group:
        if not row.error_rate_measured or not row.error_rate_exact:
            continue
        scale = row.error_rate_exact if relative else 1.0
        # Side by side, so that intervals of several series can be told apart.
        rates.append((row.error_rate_requested or 1.0) * 1.05 ** (number - 2))
        middles.append(row.error_rate_measured / scale)
        below.append((row.error_rate_measured - (row.error_rate_low or 0.0)) / scale)
        above.append(((row.error_rate_high or 1.0) - row.error_rate_measured) / scale)
    axes.errorbar(
        rates, middles, (below, above), linestyle="none", capsize=2, label=label, **series(number)
    )


def _draw_memory(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for number, (shape, group) in enumerate(_groups(rows, _shape).items()):
        shown = [
            (row.filter_bits_per_key, (row.data_block_reads or 0) / unfiltered)
            for row in group
            if (unfiltered := row.data_block_reads_unfiltered) and row.data_block_reads
        ]
        axes.plot(*zip(*shown, strict=True), linestyle="none", label=shape, **series(number))
    bits = numpy.linspace(1, 20, 50)
    axes.plot(bits, 0.6185**bits, **THEORY)
    axes.set_yscale("log")
    percent_axis(axes.yaxis)
    axes.set_xlabel("filter size, bits per key")
    axes.set_ylabel("reads of absent lookups left, %")
    axes.legend()


def _draw_latency(rows: Sequence[Row], figure: Figure) -> None:
    smallest = min(row.block_size_bytes or 0 for row in rows)
    most_runs = max(row.run_count or 0 for row in rows)
    shown = [row for row in rows if row.block_size_bytes == smallest and row.run_count == most_runs]
    axes = figure.subplots()
    for number, (hit_ratio, group) in enumerate(_groups(shown, lambda r: r.hit_ratio).items()):
        timed: list[Any] = [row for row in group if row.cold_us_mean and row.error_rate_exact]
        axes.plot(
            [row.error_rate_exact for row in timed],
            [row.cold_us_mean for row in timed],
            label=f"{hit_ratio * 100:g} % present",
            **series(number),
        )
        for row in group:
            if row.error_rate_requested is None and row.cold_us_mean:
                axes.plot(1.0, row.cold_us_mean, fillstyle="none", **series(number))
    _rate_ticks(axes)
    axes.set_xticks([0.0001, 0.001, 0.01, 0.1, 1])
    axes.set_xlabel("false-positive rate p of the filters as built, % (100: no filter)")
    axes.set_yscale("log")
    plain_axis(axes.yaxis)
    axes.set_ylabel("mean cold lookup, microseconds")
    axes.set_title(f"{smallest // KIB} KiB blocks, {most_runs} runs")
    axes.legend()


def _draw_knee(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    group = knee_rows(rows)
    for number, per_key in enumerate(LOOKUPS_PER_KEY):
        points = [(row.filter_bits_per_key, cost(row, per_key)) for row in group]
        best = min(points, key=lambda point: point[1])
        axes.plot(*zip(*points, strict=True), label=f"{per_key:g}", **series(number))
        axes.plot(*best, "o", color="#000000", fillstyle="none", markersize=10)
    axes.set_yscale("log")
    axes.set_xlabel("filter size, bits per key")
    plain_axis(axes.yaxis)
    axes.set_ylabel("bytes read per absent lookup")
    axes.set_title(_shape(group[0]))
    axes.legend(title="lookups per key\nbetween two openings")


def knee_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the first shape, for the knee."""
    shape = _shape(rows[0])
    return sorted(
        (row for row in rows if _shape(row) == shape), key=lambda row: row.filter_bits_per_key
    )


def cost(row: Row, lookups_per_key: float) -> float:
    """Bytes read for a lookup, with its share of the filters."""
    return theory.cost_bytes(
        (row.data_block_read_bytes or 0) / row.lookup_count,
        row.filter_read_bytes or 0,
        lookups_per_key * row.entry_count,
    )
