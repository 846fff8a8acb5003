"""Rows by style and size, and spreads over repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.growth.rows import Row
from bench.harness.ratios import Spread, spread

OPERATIONS: Final = {
    "put, thread": "thread_put_us",
    "put, process": "process_put_us",
    "put until settled, thread": "thread_put_settled_us",
    "put until settled, process": "process_put_settled_us",
    "batch entry": "batch_us",
    "batch entry until settled": "batch_settled_us",
    "get, present": "get_hit_us",
    "get, absent": "get_miss_us",
    "seek + 10": "seek_us",
    "scanned entry": "scan_us",
    "open": "open_us",
}
"""Timed operation -> its column."""

MODES: Final = ("thread", "process")
"""Where flushes and compactions run."""


@dataclass(frozen=True, slots=True)
class Size:
    """The rows of one size; their counts are equal."""

    rows: tuple[Row, ...]

    @property
    def counts(self) -> Row:
        """A row, for its counts."""
        return self.rows[0]

    def spread(self, column: str) -> Spread:
        """Median, least and most of a column of times."""
        return spread(getattr(row, column) for row in self.rows)


def by_style(rows: Sequence[Row]) -> dict[str, list[Size]]:
    found: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        found.setdefault(row.style, {}).setdefault(row.entries, []).append(row)
    return {
        style: [Size(tuple(sizes[entries])) for entries in sorted(sizes)]
        for style, sizes in found.items()
    }


def figures(value: float) -> str:
    """Three significant figures, thousands with commas.

    >>> figures(0.012345), figures(12.345), figures(123456.0), figures(3.0)
    ('0.0123', '12.3', '123,456', '3.00')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def with_spread(found: Spread) -> str:
    """The median, with the least and the most."""
    return f"{figures(found.median)} ({figures(found.least)}-{figures(found.most)})"
