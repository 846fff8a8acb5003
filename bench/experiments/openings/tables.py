"""The tables of ``openings``: the best error rate, measured and in theory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lsmkv.options import KIB

from ...harness.intervals import FEWEST_EVENTS
from ...harness.tables import Table
from .rows import Row
from .tasks import RATES
from .theory import best_rate

NEAR: Final = 0.05  # rates are nearly the best whose cost exceeds the least by at most this part
DEFAULT_RATE: Final = 0.01
BYTES: Final = "bytes_per_lookup"
MIXED: Final = "mixed_per_lookup"  # attributes of a row: what a lookup costs


@dataclass(frozen=True, slots=True)
class Shape:
    """A store's shape."""

    run_count: int
    block_size_bytes: int

    @property
    def name(self) -> str:
        runs = "1 run" if self.run_count == 1 else f"{self.run_count} runs"
        return f"{runs}, {self.block_size_bytes // KIB} KiB"


def shape(row: Row) -> Shape:
    return Shape(row.run_count, row.block_size_bytes)


def shapes(rows: Iterable[Row]) -> list[Shape]:
    return list(dict.fromkeys(map(shape, rows)))


def lookups_per_key(rows: Iterable[Row]) -> list[float]:
    return sorted({row.lookups_per_key for row in rows})


@dataclass(frozen=True, slots=True)
class Best:
    """The rate of least cost among those tried; 1 stands for no filters.

    Attributes:
        least, most: the lowest and the highest rate of nearly that cost.
        theory: the best rate in theory, for blocks of the mean size that was read.
        default, off: cost of 1 %, and of no filters.
        events: block reads that were counted at the best rate.
    """

    lookups_per_key: float
    rate: float
    least: float
    most: float
    theory: float
    cost: float
    default: float
    off: float
    events: int

    @property
    def is_told(self) -> bool:
        """Whether enough block reads were counted for ratios to its cost."""
        return self.events >= FEWEST_EVENTS

    @property
    def is_inner(self) -> bool:
        """Whether the best rate in theory lies between those tried; at an end any store would agree."""
        return min(RATES) < self.theory < max(RATES)

    @property
    def agrees(self) -> bool:
        """Whether theory's rate, or a neighbour of it among those tried, is nearly the best."""
        tried = sorted((1.0, *RATES))
        low = max((rate for rate in tried if rate <= self.theory), default=tried[0])
        high = min((rate for rate in tried if rate >= self.theory), default=tried[-1])
        return low <= self.most and high >= self.least


def best(rows: Iterable[Row], of: Shape, lookups: float, unit: str) -> Best | None:
    """The best rate of one shape; None if no opening has so few lookups."""
    here = [row for row in rows if shape(row) == of and row.lookups_per_key == lookups]
    if not here:
        return None
    costs = {row.error_rate: float(getattr(row, unit)) for row in here}
    # The higher of equals: smaller filters.
    rate = min(costs, key=lambda tried: (costs[tried], -tried))
    near = [tried for tried in costs if costs[tried] <= (1.0 + NEAR) * costs[rate]]
    off = next(row for row in here if row.error_rate == 1)
    block = off.counted_block_bytes / off.counted_block_reads
    extra = off.request_cost_bytes if unit == MIXED else 0
    load = extra * of.run_count / off.key_count  # a request for the filters of each table
    theory = best_rate(lookups, of.run_count, block + extra, load)
    return Best(
        lookups, rate, min(near), max(near), theory, costs[rate], costs[DEFAULT_RATE], costs[1.0],
        next(row.counted_block_reads for row in here if row.error_rate == rate),
    )  # fmt: skip


def bests(rows: Sequence[Row], of: Shape, unit: str) -> list[Best]:
    found = [best(rows, of, lookups, unit) for lookups in lookups_per_key(rows)]
    return [each for each in found if each is not None]


def rate_text(rate: float) -> str:
    """
    >>> rate_text(1.0), rate_text(0.05), rate_text(0.0000637)
    ('off', '5 %', '0.0064 %')
    """
    if rate == 1:
        return "off"
    percent = rate * 100
    digits = max(0, 1 - math.floor(math.log10(percent)))
    return f"{percent:.{digits}f}".rstrip("0").rstrip(".") + " %" if digits else f"{percent:.0f} %"


def lookups_text(lookups: float) -> str:
    return f"{lookups:.4f}".rstrip("0").rstrip(".")


def tables(rows: Sequence[Row]) -> list[Table]:
    found_shapes = shapes(rows)
    found = [_summary(rows, found_shapes, unit) for unit in (BYTES, MIXED)]
    return [*found, _shape(rows, found_shapes[0])]


def unit_name(rows: Sequence[Row], unit: str) -> str:
    more = f", and {rows[0].request_cost_bytes:,} for each request"
    return f"bytes{more if unit == MIXED else ''}"


def _summary(rows: Sequence[Row], of: Sequence[Shape], unit: str) -> Table:
    cells = []
    for lookups in lookups_per_key(rows):
        line = [lookups_text(lookups)]
        for each in of:
            found = best(rows, each, lookups, unit)
            line.append("-" if found is None else _both(found))
        cells.append(line)
    return Table(
        f"Best error rate, measured (theory), by {unit_name(rows, unit)}",
        ("lookups per key", *(each.name for each in of)),
        cells,
        "Resident filters. Rates tried: off, 50 to 0.0001 %; theory may ask for a lower one."
        if unit == BYTES
        else "",
        left=0,
        brief=unit == BYTES,
    )


def _both(found: Best) -> str:
    return f"{rate_text(found.rate)} ({rate_text(found.theory)})"


def _shape(rows: Sequence[Row], of: Shape) -> Table:
    cells = [
        [
            lookups_text(found.lookups_per_key),
            rate_text(found.rate),
            f"{rate_text(found.most)} to {rate_text(found.least)}",
            rate_text(found.theory),
            f"{found.cost:,.4g}" if found.cost < 1000 else f"{found.cost:,.0f}",
            f"{found.default / found.cost:,.2f}" if found.is_told else "-",
            f"{found.off / found.cost:,.1f}" if found.is_told else "-",
        ]
        for found in bests(rows, of, BYTES)
    ]
    return Table(
        f"{of.name}, resident filters: bytes per lookup, filters included",
        (
            "lookups per key", "best", f"within {NEAR:.0%}", "theory", "cost", "1 % costs, times",
            "off costs, times",
        ),
        cells,
        "within 5 %: the rates tried whose cost exceeds the least by at most 5 %. -: the best rate let "
        f"fewer than {FEWEST_EVENTS} lookups pass, too few for a ratio.",
        left=0,
    )  # fmt: skip
