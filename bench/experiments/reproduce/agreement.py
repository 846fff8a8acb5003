"""Whether two outcomes of one command agree, cell by cell.

Counts must be the same to the last digit.  Times and what depends on them may differ: two spreads must
overlap, two numbers without a spread must be within :data:`FACTOR` of one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from .published import PublishedTable, Section

FACTOR: Final = 2.0  # times of two machines, or of one on two days, may differ by this
COUNTED: Final = ("saved-io", "saved-requests", "wasted-reads", "figures", "policies", "memory")
"""Experiments whose answers are counts: ``--sections counted``."""

_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?k?")
_SPREAD: Final = re.compile(r"\(([^()]*\d[^()]*)\)")

Verdict = Literal["same", "within", "outside", "differs"]
"""A count: same or differs.  A time: same, within the tolerance, or outside."""

VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of both outcomes; an empty text stands for a cell that is missing."""

    place: str
    published: str
    here: str
    verdict: Verdict


def compare(published: Section, here: Section) -> list[Cell]:
    """The cells of all tables of a section; ``here`` knows which columns are timed."""
    found: list[Cell] = []
    theirs = {table.title: table for table in here.tables}
    for table in published.tables:
        other = theirs.pop(table.title, None)
        if other is None or other.headings != table.headings:
            found.append(Cell(table.title, "a table", "", "differs"))
        else:
            found += _compare_tables(table, other)
    found += [Cell(title, "", "a table", "differs") for title in theirs]
    return found


def _compare_tables(table: PublishedTable, other: PublishedTable) -> Iterator[Cell]:
    for key in {**table.rows, **other.rows}:
        place = f"{table.title}: {key}" if table.title else key
        if key not in table.rows or key not in other.rows:
            yield Cell(
                place,
                "a row" if key in table.rows else "",
                "a row" if key in other.rows else "",
                "outside" if other.timed.issuperset(table.headings) else "differs",
            )
            continue
        for heading, before, after in zip(
            table.headings, table.rows[key], other.rows[key], strict=True
        ):
            agrees = verdict(before, after, timed=heading in other.timed)
            yield Cell(f"{place}, {heading}", before, after, agrees)


def verdict(published: str, here: str, *, timed: bool) -> Verdict:
    """How two texts of a cell agree.

    >>> verdict("8,633", "8,634", timed=False), verdict("1.2 (1.0-1.5)", "1.6 (1.4-2)", timed=True)
    ('differs', 'within')
    >>> verdict("367", "800", timed=True), verdict("1.41k", "990", timed=True)
    ('outside', 'within')
    """
    if published == here:
        return "same"
    if not timed:
        return "differs"
    before, after = _ends(published), _ends(here)
    if before is None or after is None:
        return "outside"
    (low, high), (other_low, other_high) = before, after
    if low == high or other_low == other_high:  # no spread
        low, other_low = low / FACTOR**0.5, other_low / FACTOR**0.5
        high, other_high = high * FACTOR**0.5, other_high * FACTOR**0.5
    return "within" if low <= other_high and other_low <= high else "outside"


def _ends(text: str) -> tuple[float, float] | None:
    """The ends of a cell's spread, or its number twice; None without a number."""
    spread = _SPREAD.search(text)
    numbers = [_number(found) for found in _NUMBER.findall(spread[1] if spread else text)]
    return (min(numbers), max(numbers)) if numbers else None


def _number(text: str) -> float:
    thousands = 1000.0 if text.endswith("k") else 1.0
    return float(text.rstrip("k").replace(",", "")) * thousands
