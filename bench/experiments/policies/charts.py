"""The charts of ``policies``: reads of absent keys by filter memory and tree, by skew, and over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, Final

from ...harness.charts import Chart, Line, Panel, Point, curve, marks
from ...harness.colours import WHITE, series
from ...harness.seeds import configurations
from . import shift, skew, trees
from .rows import READS, Row, mean, of

_AXES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (
        "filter memory, bits per key",
        "bits_per_key",
        {"level_count": trees.LEVELS, "size_ratio": trees.SIZE_RATIO},
    ),
    ("levels", "level_count", {"bits_per_key": trees.BITS, "size_ratio": trees.SIZE_RATIO}),
    ("size ratio T", "size_ratio", {"bits_per_key": trees.BITS, "level_count": trees.LEVELS}),
)


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Those of the parts that were measured."""
    parts: dict[str, Callable[[Sequence[Row]], Chart]] = {
        "trees": _trees,
        "skew": _skew,
        "shift": _shift,
    }
    return [chart(here) for part, chart in parts.items() if (here := of(rows, part=part))]


def _trees(rows: Sequence[Row]) -> Chart:
    return Chart(
        "allocation",
        "Data blocks read for an absent key, by filter memory, levels and size ratio",
        "With 95 % intervals between seeds: hollow marks with one rate for all runs, full ones with "
        "Monkey's rates in the same memory. Lines: the papers' formula, the sum of all runs' rates. "
        f"What does not vary: {trees.BITS:g} bits per key, {trees.LEVELS} levels, "
        f"T = {trees.SIZE_RATIO}.",
        [
            Panel(
                lines=list(_by(of(rows, **fixed), name)),
                x=label,
                y="" if number else "data blocks read for an absent key",
                log="y",
                ticks=sorted({getattr(row, name) for row in of(rows, **fixed)}),
            )
            for number, (label, name, fixed) in enumerate(_AXES)
        ],
        legend=3,
        width=9.4,
        height=4.6,
        is_published=True,
    )


def _by(rows: Sequence[Row], name: str) -> Iterator[Line]:
    for number, style in enumerate(trees.STYLES):
        for filters in ("uniform", "monkey"):
            here = of(rows, load=style, filters=filters)
            here.sort(key=lambda row: float(getattr(row, name)))
            every = [(getattr(some[0], name), some) for some in configurations(here)]
            counted = [_point(place, some) for place, some in every]
            formula: list[Point] = [(place, mean(some, "expected_reads")) for place, some in every]
            look = _look(number, is_hollow=filters == "uniform")
            yield curve(None, formula, look, "--" if filters == "uniform" else "-")
            yield marks(f"{style}, {filters}", counted, look)


def _point(place: float, rows: Sequence[Row]) -> Point:
    """A place, the reads, and the ends of their interval, which are the same if there is none."""
    found = READS.of(rows)
    return (place, found.value, *(found.ends or (found.value, found.value)))


def _look(number: int, *, is_hollow: bool) -> dict[str, Any]:
    look = series(number)
    return {**look, "markerfacecolor": WHITE if is_hollow else look["color"]}


def _skew(rows: Sequence[Row]) -> Chart:
    return Chart(
        "filter-budget",
        "Data blocks read for an absent key, by filter memory and skew of lookups",
        "In one run: hollow marks with Monkey's rates, full ones with a budget of the same size, after "
        "as many lookups as keys. Lines: theory, dashed with one rate, solid with the best two.",
        [
            Panel(
                lines=[
                    line
                    for filters in ("monkey", "budget")
                    for line in _of_budget(
                        of(rows, hot_share=share, is_compacted=True, filters=filters), filters
                    )
                ],
                title=f"{share:.0%} of the lookups in a tenth",
                x="filter memory, bits per key",
                y="" if share != skew.SHARES[0] else "data blocks read for an absent key",
                log="y",
            )
            for share in skew.SHARES
        ],
        legend=2,
        width=9.4,
        height=4.2,
        is_published=True,
    )


def _of_budget(rows: Sequence[Row], filters: str) -> Iterator[Line]:
    is_budget = filters == "budget"
    look = _look(int(is_budget), is_hollow=not is_budget)
    stores = [(mean(some, "built_bits_per_key"), some) for some in configurations(rows)]
    theory = [(bits, mean(some, "expected_reads")) for bits, some in stores]
    yield curve(None, theory, look, "-" if is_budget else "--")
    yield marks(filters, [_point(bits, some) for bits, some in stores], look)


def _shift(rows: Sequence[Row]) -> Chart:
    shifts = [phase * shift.POINTS + 0.5 for phase in range(1, shift.PHASES)]
    step = 1e-3 * rows[0].lookup_count
    return Chart(
        "adaptive",
        "Wasted reads over time, while the hot tenth of the keys moves",
        "Data blocks read for absent keys, per 10,000 lookups; the hot tenth moves at the dotted lines. "
        "Filters have the same memory. Lines are medians of the repetitions, and bands go from the "
        "least to the most.",
        [
            Panel(
                lines=[
                    Line(
                        filters,
                        list(_over_time(of(rows, load=load, filters=filters), step)),
                        series(number),
                        is_band=True,
                    )
                    for number, filters in enumerate(shift.FILTERS)
                ],
                title=load,
                x="lookups, thousands",
                y="wasted reads per 10,000 lookups" if load == shift.LOADS[0] else "",
                edges=[(place * step, "") for place in shifts],
            )
            for load in shift.LOADS
        ],
        same_y=False,
        width=8.6,
        is_published=True,
    )


def _over_time(rows: Sequence[Row], step: float) -> Iterator[tuple[float, float, float, float]]:
    for place in range(shift.PHASES * shift.POINTS):
        phase, point = divmod(place, shift.POINTS)
        found = [10_000 * row.reads for row in of(rows, phase=phase, point=point)]
        yield (place + 1) * step, median(found), min(found), max(found)
