"""The tables of ``bulk``: medians of each way, and how many times slower puts are."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Final

from bench.experiments.bulk.rows import Row
from bench.harness.ratios import Spread, spread
from bench.harness.tables import Shown, Table, table_of

BULK: Final = "bulk_load, in order"
BULK_ANY_ORDER: Final = "bulk_load, any order"
PUTS: Final = "puts, any order"


def ways(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.way for row in rows))


def times(rows: Sequence[Row], slower: str, faster: str) -> Spread | None:
    """The seconds of one way by those of another, within each repetition."""
    seconds = {(row.way, row.repetition): row.seconds for row in rows}
    found = [
        figure / seconds[faster, number]
        for (way, number), figure in seconds.items()
        if way == slower and seconds.get((faster, number), 0) > 0
    ]
    return spread(found) if found else None


def medians(rows: Sequence[Row]) -> list[Row]:
    """One row for each way, with the medians of its figures."""
    found = []
    for way in ways(rows):
        own = [row for row in rows if row.way == way]
        names = [
            field.name
            for field in dataclasses.fields(Row)
            if isinstance(getattr(own[0], field.name), (int, float))
        ]
        middle = {name: statistics.median(getattr(row, name) for row in own) for name in names}
        found.append(dataclasses.replace(own[0], **middle))
    return found


def tables(rows: Sequence[Row]) -> list[Table]:
    def by_bulk(row: Row) -> str:
        found = times(rows, row.way, BULK)
        return "-" if found is None else f"{found.median:.2f}"

    def by_tables(name: str) -> Shown:
        def text(row: Row) -> str:
            figure = getattr(row, name)
            return "-" if figure is None else f"{figure:.3f}"

        heading = "written / tables" if name == "written_by_tables" else "counted / tables"
        return Shown(heading, text)

    columns = (
        "way",
        "seconds",
        Shown("times bulk_load\nin order", by_bulk),
        "cpu_s",
        by_tables("written_by_tables"),
        by_tables("counted_by_tables"),
        "table_bytes",
        "peak_memory_bytes",
    )
    return [
        table_of(
            f"{rows[0].entries:,} entries into an empty store, until it is settled",
            medians(rows),
            columns,
            "Medians. Seconds: without making the pairs. Written: bytes handed to the operating "
            "system, by the bytes of the tables of the settled store; counted: by the store's own "
            "counters. Memory: peak of the process, with the order of the keys.",
        )
    ]
