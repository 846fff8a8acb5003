"""The chart of ``saved-io``: reads left by the error rate p, which falls to the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy

from ...harness.charts import Chart, Line, Panel, marks
from ...harness.colours import THEORY, looks
from . import theory
from .rows import DRAWN, Row
from .tables import shape_name

READS_LEFT: Final = "reads-left"

_LEAST_RATE: Final = 1e-4
_RATES: Final = numpy.logspace(numpy.log10(_LEAST_RATE), numpy.log10(0.5), 80).tolist()
_NO_FILTER: Final = 1.6  # its place on the axis, left of 50 %
_TICKS: Final = {_NO_FILTER: "no\nfilter"} | {
    tick: f"{tick * 100:g}" for tick in (0.5, 0.1, 0.01, 0.001, 0.0001)
}


def charts(rows: Sequence[Row]) -> list[Chart]:
    """One chart, with a panel for each policy, if a store was asked for absent keys."""
    stores = [row for row in rows if row.is_store and not row.repetition]
    absent = [row for row in _few(stores) if not row.hit_ratio]
    if not absent:
        return []
    policies = _groups(absent, lambda row: row.filter_policy)
    return [
        Chart(
            READS_LEFT,
            "Disk reads left for an absent key",
            "Data blocks read for a lookup of an absent key, with 95 % intervals; at the left, "
            "without filters. Of each data set the smallest blocks are shown; the tables have all. "
            "Dashed: p times the blocks that would be searched, one in each run. Series are shifted "
            "sideways a little. A hollow triangle: none seen, and the upper end of the interval.",
            [
                Panel(
                    lines=list(_lines(group)),
                    title=str(policy) if len(policies) > 1 else "",
                    x="false-positive rate p of the filters as built, %",
                    y="" if number else "data blocks read per absent lookup",
                    log="xy",
                    ticks=_TICKS,
                    x_ends=(_NO_FILTER * 1.5, _LEAST_RATE / 1.5),
                )
                for number, (policy, group) in enumerate(policies.items())
            ],
            legend=3,
            width=7.2 if len(policies) == 1 else 4.4 * len(policies),
            height=4.6,
            is_published=True,
        )
    ]


def _groups(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _few(rows: Sequence[Row]) -> list[Row]:
    """The rows of the smallest blocks of each data set: larger ones would lie over them."""
    smallest = {
        dataset: min(row.block_size_bytes or 0 for row in found)
        for dataset, found in _groups(rows, lambda row: row.dataset).items()
    }
    return [row for row in rows if row.block_size_bytes == smallest[row.dataset]]


def _apart(rate: float, number: int, count: int) -> float:
    """A place beside ``rate``, so that the intervals of several series can be told apart."""
    return float(rate * 1.07 ** (number - (count - 1) / 2))


def _interval(row: Row) -> tuple[float, float, float]:
    """Block reads of a lookup, and the interval's ends; reads that filters cannot spare have none."""
    trials = row.filter_trials or 0
    needed = (row.data_block_reads or 0) - row.filter_false_positives
    rates = row.error_rate_measured or 0.0, row.error_rate_low or 0.0, row.error_rate_high or 0.0
    middle, low, high = ((needed + rate * trials) / row.lookup_count for rate in rates)
    return middle, low, high


def _lines(rows: Sequence[Row]) -> Iterator[Line]:
    shapes = _groups(rows, shape_name)
    each_look = looks([group[0].filter_policy for group in shapes.values()])
    for number, ((shape, group), look) in enumerate(zip(shapes.items(), each_look, strict=True)):
        filtered = [
            (_apart(row.error_rate_exact, number, len(shapes)), *_interval(row))
            for row in group
            if row.error_rate_exact
        ]
        yield marks(shape, [point for point in filtered if point[1]], look)
        none = [(point[0], point[3]) for point in filtered if not point[1]]
        yield marks(None, none, {"color": look["color"], "marker": "v", "fillstyle": "none"})
        without = [
            (
                _apart(_NO_FILTER, number, len(shapes)),
                (row.data_block_reads or 0) / row.lookup_count,
            )
            for row in group
            if row.error_rate_requested is None
        ]
        yield marks(None, without, look)
    # Absent keys of a trace may lie anywhere, also where a run has no block.
    for group in _groups(rows, _searched).values():
        row = group[0]
        most = (
            (row.data_block_reads_unfiltered or 0) / row.lookup_count
            if row.lookups_of != DRAWN
            else theory.reads_per_lookup(1.0, 0.0, row.run_count or 0)
        )
        yield Line("theory", [(p, most * p) for p in _RATES], THEORY)


def _searched(row: Row) -> tuple[object, ...]:
    """Rows of the same theory: those of the same runs, or of one trace."""
    return (row.run_count, None if row.lookups_of == DRAWN else shape_name(row))
