"""The charts of ``saved-io``.  The error rate p falls to the right in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from bench.experiments.saved_io import theory
from bench.experiments.saved_io.datasets import ALONE, DIGITS
from bench.experiments.saved_io.rows import DRAWN, Row
from bench.experiments.saved_io.tables import shape_name
from bench.harness.charts import Chart, legend_below, percent_axis, plain_log_axis
from bench.harness.colours import ASIDE, THEORY, looks, series
from lsmkv.options import KIB

READS_LEFT: Final = "reads-left"
"""The name of the first chart."""

_LEAST_RATE: Final = 1e-4
_RATES: Final = numpy.logspace(numpy.log10(_LEAST_RATE), numpy.log10(0.5), 80)
_TICKS: Final = (0.5, 0.1, 0.01, 0.001, 0.0001)
_NO_FILTER: Final = 1.6  # its place on the axis, left of 50 %
_BOUND: Final[dict[str, Any]] = {"color": ASIDE, "linestyle": ":", "linewidth": 1.3}
_NONE_SEEN: Final = " A hollow triangle: none seen, and the upper end of the interval."


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The charts that the rows are enough for."""
    rates = Chart(
        "error-rates",
        "False-positive rate: measured over exact",
        f"{_rates_shown(rows)} Bars: 95 % intervals; 1 is the theory." + _NONE_SEEN,
        partial(_draw_rates, rows),
        width=8.6,
        height=4.6,
    )
    stores = [row for row in rows if row.is_store and not row.repetition]
    if not stores:
        return [rates]
    shown = DIGITS if any(row.dataset == DIGITS for row in stores) else stores[0].dataset
    policies = len({row.filter_policy for row in stores})
    filtered = [row for row in stores if row.error_rate_requested is not None]
    absent = [row for row in _few(stores) if not row.hit_ratio]
    found = [rates]
    if absent:
        found.insert(
            0,
            Chart(
                READS_LEFT,
                "Disk reads left for an absent key",
                "Data blocks read for a lookup of an absent key, with 95 % intervals; at the left, "
                "without filters. Of each data set the smallest blocks are shown; the tables have all. "
                "Dashed: p times the blocks that would be searched, which is each run but for keys "
                "between two blocks. Series are shifted sideways a little." + _NONE_SEEN,
                partial(_by_policy, absent, _draw_left),
                width=7.2 if policies == 1 else 4.4 * policies,
                height=4.6,
            ),
        )
        found.append(
            Chart(
                "memory",
                "What memory buys",
                "Share of absent lookups' reads that is left, against the size of the filters, with "
                "95 % intervals. No filter can be below the lower line, and the command fails if an "
                "interval is." + _NONE_SEEN,
                partial(
                    _by_policy,
                    [row for row in absent if row.error_rate_requested is not None],
                    _draw_memory,
                ),
                width=6.4 if policies == 1 else 4.4 * policies,
                height=4.6,
            )
        )
    for policy, group in _groups(filtered, lambda row: row.filter_policy).items():
        here = [row for row in group if row.dataset == shown]
        found.insert(
            len(found) - 1,
            Chart(
                "reads-left-by-hits" if policies == 1 else f"reads-left-by-hits-{policy}",
                f"Share of the disk reads that filters leave, {policy}",
                "Data blocks read with filters by those read without, by how many lookups find their "
                "key. A present key needs its one read whatever the filter; filters spare reads of "
                "other runs. Bars: 95 % intervals; dashed: theory, as above.",
                partial(_draw_shares, here),
                width=7.6,
            ),
        )
    timed = [row for row in stores if row.dataset == shown and row.cold_us_mean]
    if timed:
        found.append(
            Chart(
                "cold-latency",
                "Cold latency",
                "Mean time of a lookup whose every read goes to the device (direct reads, block cache "
                "off); at the left, without filters. One pass: device and machine decide.",
                partial(_by_policy, timed, _draw_latency),
                width=6.4 if policies == 1 else 4.4 * policies,
            )
        )
    return found


def _rates_shown(rows: Sequence[Row]) -> str:
    stores = "the stores with the smallest blocks of each data set"
    alone = "filters of one block's keys, for several ways to derive the probes from the key"
    has_stores = any(row.is_store for row in rows)
    if has_stores and any(row.dataset == ALONE for row in rows):
        return f"Left, {stores}. Right, {alone}."
    shown = stores if has_stores else alone
    return f"{shown[0].upper()}{shown[1:]}."


Key = Callable[[Row], Any]


def _groups(rows: Sequence[Row], key: Key) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _looks(groups: dict[Any, list[Row]]) -> list[dict[str, Any]]:
    """Colour and mark of each group, by its filter policy if it has that alone."""
    return looks([group[0].filter_policy for group in groups.values()])


def _few(rows: Sequence[Row]) -> list[Row]:
    """The rows of the smallest blocks of each data set: larger ones would lie over them."""
    smallest = {
        dataset: min(row.block_size_bytes or 0 for row in found)
        for dataset, found in _groups(rows, lambda row: row.dataset).items()
    }
    return [row for row in rows if row.block_size_bytes == smallest[row.dataset]]


def _gap_share(row: Row) -> float:
    """The share of searches whose key falls between two blocks: one for each block's keys."""
    return (row.block_count or 0) / row.entry_count


def _rate_axis(axes: Any, *, with_none: bool = False, built: bool = True) -> None:
    """p falls to the right; ``with_none`` has a place for stores without filters."""
    axes.set_xscale("log")
    axes.set_xlim(_NO_FILTER * 1.5 if with_none else 0.75, _LEAST_RATE / 1.5)
    ticks = [_NO_FILTER, *_TICKS] if with_none else list(_TICKS)
    axes.set_xticks(ticks, ["no\nfilter"] * with_none + [f"{tick * 100:g}" for tick in _TICKS])
    axes.minorticks_off()
    which = "of the filters as built" if built else "asked for"
    axes.set_xlabel(f"false-positive rate p {which}, %")


def _points(
    axes: Any,
    places: Sequence[float],
    spans: Sequence[tuple[float, float, float]],
    look: dict[str, Any],
    label: str,
) -> None:
    """Points with their intervals (low, middle, high) on a logarithmic axis.

    Where nothing was seen there is no point, but a hollow triangle at the upper end.
    """
    seen = [(x, span) for x, span in zip(places, spans, strict=True) if span[1]]
    axes.errorbar(
        [x for x, _ in seen],
        [middle for _, (_, middle, _) in seen],
        (
            [middle - low for _, (low, middle, _) in seen],
            [high - middle for _, (_, middle, high) in seen],
        ),
        linestyle="none",
        capsize=2,
        elinewidth=0.9,
        label=label,
        **look,
    )
    for x, (_, middle, high) in zip(places, spans, strict=True):
        if not middle:
            axes.plot(x, high, marker="v", fillstyle="none", color=look["color"])


def _apart(rate: float, number: int, count: int) -> float:
    """A place beside ``rate``, so that the intervals of several series can be told apart."""
    return float(rate * 1.07 ** (number - (count - 1) / 2))


def _interval_of_reads(row: Row, whole: float) -> tuple[float, float, float]:
    """Block reads by ``whole``, with the ends of the interval.

    Reads that filters cannot spare have no interval.
    """
    trials = row.filter_trials or 0
    needed = (row.data_block_reads or 0) - row.filter_false_positives
    rates = row.error_rate_low or 0.0, row.error_rate_measured or 0.0, row.error_rate_high or 0.0
    low, middle, high = ((needed + rate * trials) / whole for rate in rates)
    return low, middle, high


def _by_policy(
    rows: Sequence[Row], draw: Callable[[Sequence[Row], Any], None], figure: Figure
) -> None:
    """A panel for each policy."""
    groups = _groups(rows, lambda row: row.filter_policy)
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for axes, (policy, group) in zip(panels, groups.items(), strict=True):
        draw(group, axes)
        if len(groups) > 1:
            axes.set_title(f"{policy}, {axes.get_title()}" if axes.get_title() else policy)
    for axes in panels[1:]:
        axes.set_ylabel("")


def _draw_left(rows: Sequence[Row], axes: Any) -> None:
    shapes = _groups(rows, shape_name)
    each_look = _looks(shapes)
    for number, (shape, group) in enumerate(shapes.items()):
        filtered = [row for row in group if row.error_rate_exact]
        _points(
            axes,
            [_apart(row.error_rate_exact or 0.0, number, len(shapes)) for row in filtered],
            [_interval_of_reads(row, row.lookup_count) for row in filtered],
            each_look[number],
            shape,
        )
        for row in group:
            if row.error_rate_requested is None:
                reads = (row.data_block_reads or 0) / row.lookup_count
                axes.plot(_apart(_NO_FILTER, number, len(shapes)), reads, **each_look[number])
    # Absent keys of a trace may lie anywhere, also where a run has no block.
    searched = [
        (row.data_block_reads_unfiltered or 0) / row.lookup_count
        if row.lookups_of != DRAWN
        else theory.reads_per_lookup(1.0, 0.0, row.run_count or 0, _gap_share(row))
        for row in (group[0] for group in _groups(rows, _searched).values())
    ]
    for label, most in zip(["theory", *[None] * len(searched)], searched, strict=False):
        expected = [most * p for p in _RATES]
        axes.plot(_RATES, expected, **THEORY, label=label)
    _rate_axis(axes, with_none=True)
    _log_axis(axes)
    axes.set_ylabel("data blocks read per absent lookup")
    axes.legend()


def _searched(row: Row) -> tuple[object, ...]:
    """Rows of the same theory: those of the same runs, or of one trace."""
    return (row.run_count, None if row.lookups_of == DRAWN else shape_name(row))


def _log_axis(axes: Any) -> None:
    axes.set_yscale("log")
    plain_log_axis(axes.yaxis, axes.get_ylim(), 30.0)


def _draw_shares(rows: Sequence[Row], figure: Figure) -> None:
    smallest = min(row.block_size_bytes or 0 for row in rows)
    panels = _groups(
        [row for row in rows if row.block_size_bytes == smallest], lambda row: row.run_count
    )
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (runs, found) in zip(grid, panels.items(), strict=True):
        for number, (hit_ratio, group) in enumerate(_groups(found, lambda r: r.hit_ratio).items()):
            expected = [_left_share(p, group[0]) for p in _RATES]
            axes.plot(_RATES, expected, **THEORY, label=None if number else "theory")
            _points(
                axes,
                [row.error_rate_exact or 1.0 for row in group],
                [_interval_of_reads(row, row.data_block_reads_unfiltered or 1) for row in group],
                series(number),
                f"{hit_ratio * 100:.3g} % present",
            )
        _rate_axis(axes)
        axes.set_xlabel("p of the filters as built, %")
        axes.set_title(f"{smallest // KIB} KiB blocks, {runs} run{'s' * (runs != 1)}")
        axes.set_yscale("log")
        percent_axis(axes.yaxis)
    grid[0].set_ylabel("data-block reads left, %")
    legend_below(figure, grid[0], 6)


def _left_share(error_rate: float, row: Row) -> float:
    """The share of reads that filters of one rate leave of the row's lookups."""
    if row.lookups_of == DRAWN:
        return theory.left_share(error_rate, row.hit_ratio, row.run_count or 0, _gap_share(row))
    trials = row.filter_trials or 0
    needed = (row.data_block_reads or 0) - row.filter_false_positives
    return (needed + error_rate * trials) / (needed + trials)


def _draw_rates(rows: Sequence[Row], figure: Figure) -> None:
    asked = [
        row for row in rows if not row.hit_ratio and row.error_rate_exact and not row.repetition
    ]
    stores = _few([row for row in asked if row.is_store])
    alone = [row for row in asked if row.dataset == ALONE]
    several = len({row.filter_policy for row in stores}) > 1
    shape_and_policy: Key = lambda row: (  # noqa: E731
        f"{shape_name(row)}, {row.filter_policy}" if several else shape_name(row)
    )
    by_strategy: Key = lambda row: row.hash_strategy  # noqa: E731
    panels = [
        (stores, shape_and_policy, "stores"),
        (alone, by_strategy, f"filters of {alone[0].entry_count} keys" if alone else ""),
    ]
    panels = [panel for panel in panels if panel[0]]
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (found, key, title) in zip(grid, panels, strict=True):
        groups = _groups(found, key)
        each_look = _looks(groups)
        axes.plot(_RATES, [1.0] * len(_RATES), **THEORY, label="theory")
        for number, (name, group) in enumerate(groups.items()):
            places = [_apart(row.error_rate_requested or 1.0, number, len(groups)) for row in group]
            _points(axes, places, [_over_exact(row) for row in group], each_look[number], name)
        _rate_axis(axes, built=False)
        axes.set_yscale("log")
        plain_log_axis(axes.yaxis, axes.get_ylim(), 300.0)
        axes.set_title(title)
        axes.legend(fontsize="small")
    grid[0].set_ylabel("measured / exact")


def _over_exact(row: Row) -> tuple[float, float, float]:
    exact = row.error_rate_exact or 1.0
    low, high = row.error_rate_low or 0.0, row.error_rate_high or 0.0
    return low / exact, (row.error_rate_measured or 0.0) / exact, high / exact


def _draw_memory(rows: Sequence[Row], axes: Any) -> None:
    shapes = _groups(rows, shape_name)
    for look, (shape, group) in zip(_looks(shapes), shapes.items(), strict=True):
        shown = [row for row in group if row.data_block_reads_unfiltered]
        _points(
            axes,
            [row.filter_bits_per_key for row in shown],
            [_interval_of_reads(row, row.data_block_reads_unfiltered or 1) for row in shown],
            look,
            shape,
        )
    bits = numpy.linspace(1, max(row.filter_bits_per_key for row in rows) + 0.5, 50)
    axes.plot(bits, 0.6185**bits, **THEORY, label="the best Bloom filter, $0.6185^{bits}$")
    axes.plot(bits, 0.5**bits, **_BOUND, label="lower bound of any filter, $2^{-bits}$")
    axes.set_yscale("log")
    percent_axis(axes.yaxis)
    axes.xaxis.set_major_locator(MultipleLocator(2))
    axes.set_xlabel("filter size, bits per key")
    axes.set_ylabel("reads of absent lookups left, %")
    axes.legend()


def _draw_latency(rows: Sequence[Row], axes: Any) -> None:
    smallest = min(row.block_size_bytes or 0 for row in rows)
    most_runs = max(row.run_count or 0 for row in rows)
    shown = [row for row in rows if row.block_size_bytes == smallest and row.run_count == most_runs]
    for number, (hit_ratio, group) in enumerate(_groups(shown, lambda r: r.hit_ratio).items()):
        points = [(row.error_rate_exact or _NO_FILTER, row.cold_us_mean) for row in group]
        axes.plot(
            *zip(*points, strict=True), label=f"{hit_ratio * 100:.3g} % present", **series(number)
        )
    _rate_axis(axes, with_none=True)
    _log_axis(axes)
    axes.set_ylabel("mean cold lookup, microseconds")
    axes.set_title(f"{smallest // KIB} KiB blocks, {most_runs} run{'s' * (most_runs != 1)}")
    axes.legend()
