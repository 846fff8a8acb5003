"""The charts of ``growth``: counts, times, single puts and memory by size, with lines of theory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from bench.experiments.growth import theory
from bench.experiments.growth.groups import MODES, OPERATIONS, Size
from bench.experiments.growth.rows import Row
from bench.harness.charts import (
    Chart,
    legend_below,
    plain_log_axis,
    spread_bars,
)
from bench.harness.colours import COMPUTED, THEORY, named_series, series
from lsmkv.options import CompactionStyle

Sizes = Mapping[str, Sequence[Size]]
Figure_ = Callable[[Row], float | None]

_CONSTANT: Final[dict[str, Any]] = {"color": COMPUTED, "linestyle": ":", "linewidth": 0.8}
_CURVES: Final = {"constant": ":", "log2 n": "--", "levels": "-.", "n": "-"}
_LINEAR: Final = "open_us"  # opening reads every index and every filter


def charts(sizes: Sizes) -> list[Chart]:
    """Every chart; those of times and puts are of the first style."""
    style, first = next(iter(sizes.items()))
    return [_counts(sizes), _times(style, first), _puts(style, first), _memory(sizes)]


@dataclass(frozen=True, slots=True)
class _Panel:
    """A count by number of entries, and lines of theory."""

    title: str
    label: str
    measured: Figure_
    lines: tuple[tuple[str, Figure_], ...]
    low: float = 0.0


_LEVELS: Final = _Panel(
    "levels below level 0",
    "levels",
    lambda row: row.level_count,
    (("theory", lambda row: row.level_count_expected),),
)
_PANELS: Final = (
    _LEVELS,
    _Panel(
        "fence comparisons (derived)",
        "per absent lookup",
        lambda row: row.fence_comparisons,
        (("log2 of each run's blocks", lambda row: row.fence_comparisons_least),),
    ),
    _Panel(
        "write amplification",
        "bytes by byte handed over",
        lambda row: row.write_amplification,
        (
            ("model", lambda row: row.write_amplification_model),
            ("textbook", lambda row: row.write_amplification_textbook),
        ),
    ),
    _Panel(
        "absent lookup",
        "data blocks read",
        lambda row: row.absent_block_reads / row.absent_lookups,
        (("exact rates", lambda row: row.absent_reads_expected),),
    ),
    _Panel(
        "present lookup",
        "data blocks read",
        lambda row: row.present_block_reads / row.present_lookups,
        (("exact rates", lambda row: row.present_reads_expected),),
        low=1.0,
    ),
    _Panel(
        "seek + 10",
        "data blocks read",
        lambda row: row.seek_block_reads / row.seeks,
        (
            ("theory", lambda row: row.seek_reads_expected),
            ("without fences", lambda row: row.seek_reads_without_fences),
        ),
    ),
)


def _counts(sizes: Sizes) -> Chart:
    def draw(figure: Figure) -> None:
        for axis, panel in zip(figure.subplots(2, 3).flat, _PANELS, strict=True):
            _draw_panel(axis, panel, sizes)

    return Chart(
        "growth-counts",
        "Counts by number of entries",
        "Points are counted (fence comparisons: derived from the indexes), lines are theory for the "
        "tree in the state that it is in. The number of runs goes up and down with what has not been "
        "compacted yet, and reads go with it.",
        draw,
        width=10.0,
        height=5.6,
    )


def _draw_panel(axis: Any, panel: _Panel, sizes: Sizes) -> None:
    many = len(sizes) > 1
    looks = named_series(list(sizes), get_args(CompactionStyle))
    for number, (style, found) in enumerate(sizes.items()):
        rows = [size.counts for size in found]
        own = looks[style] if many else series(0)
        look = {**THEORY, "color": own["color"]} if many else THEORY
        for (name, line), dash in zip(panel.lines, ("--", ":"), strict=False):
            _theory(axis, rows, line, {**look, "linestyle": dash}, name, number)
        _points(axis, rows, panel.measured, style if many else "measured", own)
        if panel is _LEVELS and not many:
            _points(axis, rows, lambda row: row.run_count, "sorted runs", series(3))
    axis.set(title=panel.title, ylabel=panel.label)
    axis.set_ylim(panel.low, panel.low + 1.35 * (axis.get_ylim()[1] - panel.low))  # for the legend
    axis.yaxis.set_major_locator(MaxNLocator(6, integer=panel is _LEVELS))
    _size_axis(axis, sizes)
    axis.legend(loc="upper left", fontsize=7)


def _theory(
    axis: Any, rows: Sequence[Row], line: Figure_, look: dict[str, Any], name: str, number: int
) -> None:
    points = [(row.entries, value) for row in rows if (value := line(row)) is not None]
    if points:
        label = name if number == 0 else None
        axis.plot(*zip(*points, strict=True), label=label, **look)


def _points(
    axis: Any, rows: Sequence[Row], figure: Figure_, name: str, look: dict[str, Any]
) -> None:
    axis.plot(
        [row.entries for row in rows],
        [figure(row) for row in rows],
        linestyle="",
        label=name,
        clip_on=False,
        **look,
    )


def _size_axis(axis: Any, sizes: Sizes) -> None:
    ticks = sorted({size.counts.entries for found in sizes.values() for size in found})
    axis.set_xscale("log")
    axis.set_xlim(ticks[0] / 1.6, ticks[-1] * 1.6)
    axis.set_xticks(ticks, [_short(tick) for tick in ticks])
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("entries")


def _short(entries: int) -> str:
    """A number of entries, shortened.

    >>> _short(20_000_000), _short(500_000), _short(300)
    ('20M', '500k', '300')
    """
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if entries >= unit:
            return f"{entries / unit:g}{name}"
    return str(entries)


def _spread(axis: Any, found: Sequence[Size], column: str, name: str, number: int) -> None:
    spread_bars(
        axis,
        [size.counts.entries for size in found],
        [size.spread(column) for size in found],
        linestyle="",
        capsize=2,
        label=name,
        **series(number),
    )


def _times(style: str, found: Sequence[Size]) -> Chart:
    rows = [size.counts for size in found]
    sizes = [row.entries for row in rows]

    def draw(figure: Figure) -> None:
        axes = list(figure.subplots(3, 4).flat)
        for axis, (name, column) in zip(axes, OPERATIONS.items(), strict=False):
            curves = theory.curves(
                sizes,
                found[0].spread(column).median,
                [row.level_count_expected + 1 for row in rows],
            )
            for curve, dash in _CURVES.items():
                if curve == "n" and column != _LINEAR:
                    continue
                axis.plot(sizes, curves[curve], label=curve, **{**THEORY, "linestyle": dash})
            _spread(axis, found, column, "measured", 0)
            axis.set(title=name, yscale="log")
            _size_axis(axis, {style: found})
            _log_numbers(axis)
        for first in axes[::4]:
            first.set_ylabel("microseconds")
        for spare in axes[len(OPERATIONS) :]:
            spare.axis("off")
        legend_below(figure, axes[len(OPERATIONS) - 1], 5)

    return Chart(
        "growth-times",
        f"Microseconds per operation by number of entries ({style})",
        "Medians with the least and the most over the repetitions. The lines begin at the smallest "
        "size's median and grow as a constant, as log2 n, or as the number of levels that theory asks "
        "for, level 0 among them; of opening, which reads every index and filter, also as n. Both axes "
        "are logarithmic.",
        draw,
        width=10.0,
        height=7.2,
    )


def _log_numbers(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, at least one of them."""
    low, high = axis.get_ylim()
    if high < 2.5 * low:  # less than that has no round numbers in it
        axis.set_ylim(low / 1.4, high * 1.4)
    plain_log_axis(axis.yaxis, (low, high), few=100)


def _puts(style: str, found: Sequence[Size]) -> Chart:
    names = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "maximum"}

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(MODES), sharey=True)
        for axis, mode in zip(axes, MODES, strict=True):
            for number, (column, name) in enumerate(names.items()):
                _spread(axis, found, f"{mode}_put_us_{column}", name, number)
                axis.axhline(
                    found[0].spread(f"{mode}_put_us_{column}").median,
                    **{**_CONSTANT, "color": series(number)["color"]},
                )
            axis.set(title=f'background="{mode}"', yscale="log")
            _size_axis(axis, {style: found})
            _log_numbers(axis)
        axes[0].set_ylabel("microseconds of a single put")
        axes[0].plot([], [], label="constant", **_CONSTANT)
        legend_below(figure, axes[0], 5)

    return Chart(
        "growth-puts",
        f"Single puts while flushes and compactions run ({style})",
        "Random overwrites, as fast as they go. Medians with the least and the most over the "
        "repetitions; dotted: the smallest size's, as a constant.",
        draw,
        width=7.4,
        height=4.0,
    )


_MEMORY: Final[tuple[tuple[str, Figure_, Figure_], ...]] = (
    ("indexes", lambda row: row.index_bytes / row.entries, lambda row: row.index_bytes_expected),
    ("filters", lambda row: row.filter_bytes / row.entries, lambda row: row.filter_bytes_expected),
    (
        "both",
        lambda row: (row.index_bytes + row.filter_bytes) / row.entries,
        lambda row: row.index_bytes_expected + row.filter_bytes_expected,
    ),
)


def _memory(sizes: Sizes) -> Chart:
    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(sizes), squeeze=False)[0]
        for axis, (style, found) in zip(axes, sizes.items(), strict=True):
            rows = [size.counts for size in found]
            for number, (name, measured, line) in enumerate(_MEMORY):
                _points(axis, rows, measured, name, series(number))
                _theory(axis, rows, line, THEORY, "theory", number)
            known = [row for row in rows if row.open_private_bytes is not None]
            if known:
                _points(
                    axis,
                    known,
                    lambda row: (row.open_private_bytes or 0) / row.entries,
                    "growth of the process",
                    series(3),
                )
            axis.set(title=style, ylabel="bytes per key" if axis is axes[0] else "")
            axis.set_ylim(bottom=0)
            _size_axis(axis, {style: found})
        legend_below(figure, axes[0], 5 if len(sizes) > 1 else 3)

    return Chart(
        "growth-memory",
        "Memory per key of an open store",
        "What the store reports, theory (for the entries that a block holds, and the rate asked for), "
        "and the growth of the process's private memory while the store is opened: differences "
        "below a MiB or two are memory that was free already.",
        draw,
        width=2.0 + 3.4 * len(sizes),
        height=4.0,
    )
