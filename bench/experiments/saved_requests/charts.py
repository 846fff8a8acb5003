"""The chart of ``saved-requests``: GETs, milliseconds and money by the error rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

from ...harness.charts import Chart, Line, Panel, marks
from ...harness.colours import THEORY, series
from .rows import Row
from .tables import rates, run_counts, runs_text

NAME: Final = "saved-requests"

_PANELS: Final[tuple[tuple[str, Callable[[Row], float]], ...]] = (
    ("GETs per lookup", lambda row: row.gets_per_lookup),
    ("milliseconds per lookup", lambda row: row.ms_per_lookup),
    ("US dollars per million lookups", lambda row: row.usd_per_million),
)


def charts(rows: Sequence[Row]) -> list[Chart]:
    row = next(row for row in rows if row.part == "rates")
    return [
        Chart(
            NAME,
            "What a lookup costs in object storage, by the error rate of the filters",
            "GETs per lookup in the server's log, with no block cached, and what they take at "
            f"{row.get_ms:g} ms and ${row.get_usd * 1000:g} per 1,000 GETs. The rate of 100 % stands "
            "for no filters. Dashed: theory, p for each filter of a run without the key.",
            [
                Panel(
                    lines=list(_lines(rows, cost)),
                    title=name,
                    x="false-positive rate p, %",
                    log="xy",
                    percent="x",
                    ticks=[row.error_rate for row in rates(rows, run_counts(rows)[0], "absent")],
                    is_reversed=True,
                )
                for name, cost in _PANELS
            ],
            same_y=False,
            width=10.0,
            height=4.2,
            is_published=True,
        )
    ]


def _lines(rows: Sequence[Row], cost: Callable[[Row], float]) -> Iterator[Line]:
    kinds = product(("absent", "present"), run_counts(rows))
    for number, (keys, runs) in enumerate(kinds):
        found = rates(rows, runs, keys)
        counted = [(row.error_rate, cost(row)) for row in found]
        expected = [
            (row.error_rate, cost(row) * (row.expected_gets or 0.0) / row.gets if row.gets else 0.0)
            for row in found
        ]
        yield marks(f"{keys} keys, {runs_text(runs)}", counted, series(number))
        yield Line(None, expected, THEORY)
