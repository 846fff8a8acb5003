"""The story of ``saved-requests``: what filters save in object storage, and where peers stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ...harness.intervals import FEWEST_EVENTS
from ...harness.story import Story
from .charts import charts
from .rows import COLD, WARM, Row
from .tables import (
    pairs,
    rate_text,
    rates,
    run_counts,
    runs_text,
    tables,
)

LEAST_SPEED_UP: Final = 8.0
"""How many times faster ``multi_get`` must be, with 20 ms added to each request."""

_SIGMAS: Final = 5.0
_DEFAULT_RATE: Final = 0.01


def story(rows: Sequence[Row]) -> Story:
    """Tables and chart, all computed from ``rows``."""
    found = tables(rows)
    return Story(found, charts(rows), failures(rows), headline=_headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    runs = max(run_counts(rows))
    none, default = _without_and_with(rows, runs)
    return (
        f"Filters of 1 % turn {none.gets_per_lookup:.2f} GETs per absent key into "
        f"{default.gets_per_lookup:.4f}{_times_fewer(none, default)} ({runs_text(runs)})."
    )


def _without_and_with(rows: Sequence[Row], run_count: int) -> tuple[Row, Row]:
    """Lookups of absent keys without filters, and with those of 1 %."""
    absent = rates(rows, run_count, "absent")
    return absent[0], next(row for row in absent if row.error_rate == _DEFAULT_RATE)


def _times_fewer(none: Row, default: Row) -> str:
    """How many times fewer GETs, where enough were counted."""
    if min(none.gets, default.gets) < FEWEST_EVENTS:
        return ""
    return f", {none.gets_per_lookup / default.gets_per_lookup:.0f} times fewer"


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises: counts equal the log, theory holds, and many keys at once are faster."""
    found = []
    for row in rows:
        counted = (row.counted_gets, row.counted_get_bytes)
        if row.counted_gets is not None and counted != (row.gets, row.get_bytes):
            found.append(f"{_name(row)}: counted {counted}, the server {(row.gets, row.get_bytes)}")
        if row.expected_gets is not None:
            slack = _SIGMAS * math.sqrt(row.expected_gets) + _SIGMAS
            if abs(row.gets - row.expected_gets) > slack:
                found.append(f"{_name(row)}: {row.gets} GETs, {row.expected_gets:.0f} in theory")
        is_found = row.phase == COLD and row.keys == "present" and row.run_count == 1
        if is_found and row.engine != "slatedb" and row.gets != row.lookups:
            found.append(f"{_name(row)}: {row.gets} GETs for {row.lookups} lookups in one run")
        if row.phase == WARM and row.gets and row.engine != "slatedb":
            found.append(f"{_name(row)}: {row.gets} GETs")
    for one, many in pairs(rows):
        times = (one.elapsed_s or 0.0) / (many.elapsed_s or 1.0)
        if times < LEAST_SPEED_UP:
            found.append(f"{one.server}: multi_get is {times:.1f} times faster than one by one")
        if one.gets != many.gets:
            found.append(f"{one.server}: {one.gets} GETs one by one, {many.gets} by multi_get")
    return found


def _name(row: Row) -> str:
    return (
        f"{row.part}, {row.engine}, {runs_text(row.run_count)}, {rate_text(row.error_rate)}, "
        f"{row.phase}, {row.keys} keys"
    )
