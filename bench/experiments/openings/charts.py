"""The chart of ``openings``: the best error rate by lookups between two openings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...harness.charts import Chart, Line, Panel, curve, marks
from ...harness.colours import series
from . import tables
from .rows import Row

NAME: Final = "openings"


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            NAME,
            "The best error rate by lookups between two openings",
            "The error rate of least cost, of those tried (no filters count as 100 %, the lowest is "
            "0.0001 %), against lookups of absent keys per key between two openings. Bars: all rates "
            "tried within 5 % of the least cost. Dashed: theory, p* = 1/(8 (ln 2)² L runs B). "
            "Resident filters.",
            [
                Panel(
                    lines=list(_lines(rows, unit)),
                    title=f"cost: {tables.unit_name(rows, unit)}",
                    x="lookups of absent keys per key, between two openings",
                    y="" if number else "best error rate, % (100: no filters)",
                    log="xy",
                    percent="y",
                    ticks=tables.lookups_per_key(rows),
                    y_ends=(0.0000005, 1.5),
                )
                for number, unit in enumerate((tables.BYTES, tables.MIXED))
            ],
            width=9.0,
            height=5.0,
            is_published=True,
        )
    ]


def _lines(rows: Sequence[Row], unit: str) -> Iterator[Line]:
    for number, of in enumerate(tables.shapes(rows)):
        found, look = tables.bests(rows, of, unit), series(number)
        # Bars of one number of lookups would hide each other.
        apart = 1.12 ** (number - 1.5)
        measured = [
            (each.lookups_per_key * apart, each.rate, each.least, each.most) for each in found
        ]
        theory = [(each.lookups_per_key, each.theory) for each in found]
        yield marks(of.name, measured, look)
        yield curve(f"theory, {of.name}", theory, look, "--")
