"""What the repetitions of an experiment tell about other seeds: means, and intervals between seeds.

One tree, or one set of popular keys, is one draw, however many lookups it gets.  So an interval comes of
how repetitions differ, each of which has a seed of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lsmkv.explore.intervals import t_quantile

from .intervals import FEWEST_EVENTS
from .tables import Table

TOO_FEW: Final = "too few independent lookups"
_STAMPS: Final = ("repetition", "seed")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over repetitions, and its 95 % interval: None of one repetition, or of too few events."""

    value: float
    repetitions: int
    ends: tuple[float, float] | None

    def text(self, form: str) -> str:
        """The figure with its interval, or why it has none; alone if there is one repetition.

        >>> Estimate(2, 5, (1, 3)).text(".1f"), Estimate(2, 5, None).text("d")
        ('2.0 (1.0-3.0)', '2 (too few independent lookups)')
        """
        if self.repetitions < 2:
            return format(self.value, form)
        ends = TOO_FEW if self.ends is None else "-".join(format(end, form) for end in self.ends)
        return f"{self.value:{form}} ({ends})"


def estimate(
    tops: Sequence[float], bottoms: Sequence[float] | None = None, events: float = math.inf
) -> Estimate:
    """The ratio of two sums over repetitions, or the mean, with Student's interval between seeds.

    The variance of a ratio is that of its residuals (Cochran, Sampling Techniques, 1977, 6.3).  Of fewer
    than :data:`FEWEST_EVENTS` independent ``events``, or where repetitions differ as much as those of so
    few would, there is no interval: nobody knows what the next seed brings.

    >>> estimate([9, 10, 11])
    Estimate(value=10.0, repetitions=3, ends=(7.5..., 12.4...))
    >>> estimate([9, 10, 11], [10, 10, 10], events=19).ends, estimate([0, 0, 30]).ends
    (None, None)
    """
    many = len(tops)
    below = [1.0] * many if bottoms is None else bottoms
    mean = math.fsum(below) / many
    value = math.fsum(tops) / many / mean if mean else math.nan
    if many < 2 or not mean or events < FEWEST_EVENTS:
        return Estimate(value, many, None)
    squares = math.fsum((top - value * low) ** 2 for top, low in zip(tops, below, strict=True))
    error = math.sqrt(squares / (many - 1) / many) / mean
    if error > abs(value) / math.sqrt(FEWEST_EVENTS):
        return Estimate(value, many, None)
    half = t_quantile(many - 1) * error
    return Estimate(value, many, (max(0.0, value - half), value + half))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of rows, which other seeds would give as well.

    Attributes:
        top, bottom: attributes of a row; the figure is the ratio of their sums, or the mean of ``top``.
        independent: the attribute that tells how many of ``bottom`` are independent; None: all.
    """

    name: str
    top: str
    bottom: str | None = None
    independent: str | None = None

    def of(self, rows: Iterable[Any]) -> Estimate:
        """The figure of rows with one configuration or of several together, by repetition."""
        sums: dict[int, list[float]] = {}
        for row in rows:
            bottom = getattr(row, self.bottom) if self.bottom else 1
            independent = getattr(row, self.independent) if self.independent else bottom
            found = sums.setdefault(row.repetition, [0, 0, 0])
            for at, part in enumerate((getattr(row, self.top), bottom, independent)):
                found[at] += part or 0
        tops, bottoms, independents = zip(*sums.values(), strict=True)
        if self.bottom is None:
            return estimate(tops)
        asked = sum(bottoms)
        return estimate(tops, bottoms, sum(tops) * (sum(independents) / asked if asked else 0.0))


def configurations(rows: Iterable[Any]) -> list[list[Any]]:
    """The rows by their settings, without repetition and seed."""
    found: dict[tuple[object, ...], list[Any]] = {}
    for row in rows:
        found.setdefault(tuple(getattr(row, name) for name in _settings(row)), []).append(row)
    return list(found.values())


def _settings(row: Any) -> list[str]:
    fields = dataclasses.fields(row)
    return [f.name for f in fields if f.metadata["kind"] == "setting" and f.name not in _STAMPS]


def table(rows: Sequence[Any], figures: Sequence[Figure]) -> Table:
    """Each figure of each configuration; settings that are the same everywhere are left out."""
    every = configurations(rows)
    names = [name for name in _settings(rows[0]) if len({getattr(r, name) for r in rows}) > 1]
    cells = []
    for here in every:
        given = ((name, getattr(here[0], name)) for name in names)
        words = ", ".join(f"{name} {value}" for name, value in given if value is not None)
        for figure in figures:
            if any(getattr(row, figure.top) is not None for row in here):
                cells.append([words, figure.name, figure.of(here).text(".4g")])
    return Table(
        "Every configuration, between seeds",
        ("configuration", "figure", "mean (95 % interval)"),
        cells,
        "Student's interval of the mean over all seeds, by how the repetitions differ.",
        left=2,
        brief=False,
    )
