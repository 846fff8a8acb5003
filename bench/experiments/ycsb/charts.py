"""The chart of ``ycsb``: throughput by workload."""

from __future__ import annotations

from collections.abc import Sequence

from ...harness.charts import Chart, Panel, Point, marks
from ...harness.colours import ENGINES, named_series
from ...harness.ratios import spread
from .rows import Cells

_COLUMNS = 4


def charts(timed: Cells, engines: Sequence[str], workloads: Sequence[str]) -> list[Chart]:
    looks = named_series(engines, ENGINES)
    return [
        Chart(
            "ycsb-throughput",
            "Operations per second by workload",
            "Medians of the repetitions, with the least and the most. Each workload has a scale of "
            "its own, from zero.",
            [
                Panel(
                    lines=[
                        marks(engine, [_point(timed, workload, engine, at)], looks[engine])
                        for at, engine in enumerate(engines)
                    ],
                    title=workload,
                    x="thousand operations/s",
                    names=engines,
                )
                for workload in workloads
            ],
            columns=min(_COLUMNS, len(workloads)),
            legend=len(engines),
            width=8.0,
            height=0.6 + 2.1 * -(-len(workloads) // _COLUMNS),
        )
    ]


def _point(timed: Cells, workload: str, engine: str, place: int) -> Point:
    found = spread(row.operations_per_s / 1e3 for row in timed[workload, engine])
    return place, found.median, found.least, found.most
