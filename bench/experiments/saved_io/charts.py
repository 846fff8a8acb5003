"""The charts of ``saved-io``: reads left by the error rate p, which falls to the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy

from ...harness.charts import Chart, Line, Panel, marks
from ...harness.colours import THEORY, looks
from . import theory
from .rows import DRAWN, TRACE, Row
from .tables import shape_name

READS_LEFT: Final = "reads-left"
TRACE_READS_LEFT: Final = "trace-reads-left"
_HOW_TO_READ: Final = (
    "Series are shifted sideways a little. A hollow triangle: none seen, and the upper end of the "
    "interval."
)

_LEAST_RATE: Final = 1e-4
_RATES: Final = numpy.logspace(numpy.log10(_LEAST_RATE), numpy.log10(0.5), 80).tolist()
_NO_FILTER: Final = 1.6  # its place on the axis, left of 50 %
_TICKS: Final = {_NO_FILTER: "no\nfilter"} | {
    tick: f"{tick * 100:g}" for tick in (0.5, 0.1, 0.01, 0.001, 0.0001)
}


def charts(stores: Sequence[Row], asked: Sequence[Row]) -> list[Chart]:
    """The chart of a trace, in the store of ``asked``, and that of absent keys, where there are some."""
    absent = [row for row in _few(stores) if not row.hit_ratio and row.lookups_of != TRACE]
    found = []
    if asked and asked[0].lookups_of == TRACE:
        shape = shape_name(asked[0])
        own = [row for row in stores if row.lookups_of == TRACE and shape_name(row) == shape]
        found.append(
            _chart(
                own,
                TRACE_READS_LEFT,
                "Disk reads left for one of these lookups",
                "Data blocks read for a lookup of the trace, with 95 % intervals, in the store of the "
                "first table; at the left, without filters. Dashed: the blocks that hold the keys "
                f"found, and p times the others. {_HOW_TO_READ}",
                "data blocks read per lookup",
            )
        )
    if absent:
        found.append(
            _chart(
                absent,
                READS_LEFT,
                "Disk reads left for an absent key",
                "Data blocks read for a lookup of an absent key, with 95 % intervals; at the left, "
                "without filters. Of each data set the smallest blocks are shown; the tables have all. "
                f"Dashed: p times the blocks that would be searched, one in each run. {_HOW_TO_READ}",
                "data blocks read per absent lookup",
            )
        )
    return found


def _chart(rows: Sequence[Row], name: str, title: str, caption: str, y: str) -> Chart:
    """One chart, with a panel for each policy."""
    policies = _groups(rows, lambda row: row.filter_policy)
    return Chart(
        name,
        title,
        caption,
        [
            Panel(
                lines=list(_lines(group)),
                title=str(policy) if len(policies) > 1 else "",
                x="false-positive rate p of the filters as built, %",
                y="" if number else y,
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
    """Block reads of a lookup, and the ends of the interval, if it is told, of what filters spare."""
    trials = row.filter_trials or 0
    needed = (row.data_block_reads or 0) - row.filter_false_positives
    rate = row.error_rate_measured or 0.0
    ends = (
        (row.error_rate_low or 0.0, row.error_rate_high or 0.0) if row.tells_rate else (rate, rate)
    )
    rates = rate, *ends
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
        needed = 0.0
        most = theory.reads_per_lookup(1.0, 0.0, row.run_count or 0)
        if row.lookups_of != DRAWN:
            needed = (row.found_count or 0) / row.lookup_count  # a key that is found takes one read
            most = (row.data_block_reads_unfiltered or 0) / row.lookup_count - needed
        yield Line("theory", [(p, needed + most * p) for p in _RATES], THEORY)


def _searched(row: Row) -> tuple[object, ...]:
    """Rows of the same theory: those of the same runs, or of one trace."""
    return (row.run_count, None if row.lookups_of == DRAWN else shape_name(row))
