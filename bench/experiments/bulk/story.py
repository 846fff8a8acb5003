"""The story of ``bulk``: how much faster tables are than puts, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.bulk.charts import charts
from bench.experiments.bulk.rows import Row
from bench.experiments.bulk.tables import BULK, BULK_ANY_ORDER, PUTS, tables, times, ways
from bench.harness.story import Story

LEAST_TIMES: Final = 3.0
"""Puts in any order take at least so many times as long as ``bulk_load`` in order."""

MOST_WRITTEN: Final = 1.05
"""``bulk_load`` in order writes at most so many bytes for each byte of its tables."""

_ENOUGH_ENTRIES: Final = 10_000_000  # for the promise about time


def story(rows: Sequence[Row]) -> Story:
    return Story(
        [*_times(rows), *_written(rows)],
        tables(rows),
        charts(rows),
        failures(rows),
        headline=_headline(rows),
    )


def _headline(rows: Sequence[Row]) -> str:
    ratio = times(rows, PUTS, BULK)
    if ratio is None:
        return ""
    return (
        f"Puts in any order take {ratio.median:.1f} times as long as bulk_load in order "
        f"({ratio.least:.1f} to {ratio.most:.1f} by repetition)."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    found = [
        f"{row.way}, repetition {row.repetition + 1}: {row.written_by_tables:.3f} bytes are written for "
        f"each byte of the tables, more than {MOST_WRITTEN}"
        for row in rows
        if row.way == BULK and (row.written_by_tables or 0) > MOST_WRITTEN
    ]
    ratio = times(rows, PUTS, BULK)
    if rows[0].entries >= _ENOUGH_ENTRIES and ratio is not None and ratio.median < LEAST_TIMES:
        found.append(f"{PUTS}: {ratio.median:.2f} times as long as {BULK}, not {LEAST_TIMES}")
    return found


def _times(rows: Sequence[Row]) -> list[str]:
    compared = [(way, BULK) for way in ways(rows) if way != BULK]
    if PUTS in ways(rows):
        compared.append((PUTS, BULK_ANY_ORDER))
    found = []
    for way, bulk in compared:
        ratio = times(rows, way, bulk)
        if ratio is not None:
            found.append(
                f"{way}: {ratio.median:.2f} times as long as {bulk} ({ratio.least:.2f} to "
                f"{ratio.most:.2f})."
            )
    return found


def _written(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row.way}: {row.written_by_tables:.3f} bytes written for each byte of the tables."
        for row in rows
        if row.repetition == 0 and row.written_by_tables is not None
    ]
