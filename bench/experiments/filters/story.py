"""The story of ``filters``, and its tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...harness.story import Story
from .charts import charts
from .contenders import missing
from .rows import Row, key_counts, middle_rate, rows_of
from .tables import rate_percent, tables


def story(rows: Sequence[Row]) -> Story:
    """Tables and charts, all computed from ``rows``."""
    denied = sorted({row.filter for row in rows if row.false_negative_count})
    failures = [f"{name} denied keys that it holds" for name in denied]
    found = tables(rows, missing())
    return Story(found, charts(rows), failures, headline=_headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    best = _smallest(rows)
    if not best:
        return ""
    last = best[-1]
    return (
        f"The smallest filter at {rate_percent(middle_rate(rows))} % is {last.filter}, "
        f"{last.over_lower_bound:.2f} times the lower bound ({last.bits_per_key:.1f} bits per key, "
        f"{last.key_count:,} keys)."
    )


def _smallest(rows: Sequence[Row]) -> list[Row]:
    """The filters of fewest bits for the rates that they have, by number of keys."""
    return _best(
        [row for row in rows if row.error_rate_basis != "ideal" and row.over_lower_bound],
        lambda row: row.over_lower_bound or math.inf,
    )


def _best(rows: Sequence[Row], value: Callable[[Row], float]) -> list[Row]:
    """Rows with the lowest ``value`` at middle rate, by number of keys."""
    found = []
    for key_count in key_counts(rows):
        here = rows_of(rows, key_count, middle_rate(rows))
        if here:
            found.append(min(here, key=value))
    return found
