"""Medians of engines, and ratios between them.

A ratio is a peer's figure by lsmkv's, of times, bytes and reads alike: over 1, lsmkv is ahead.  It is
taken within each repetition, where both engines ran one after the other.  A ratio of two medians
would mix the machine's state at different times.

The verdict comes from the 95 % interval of the median ratio over all repetitions there might be on
this machine, on this day, with this build.  It does not cover other machines, days and builds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final, Generic, Literal, Protocol, TypeVar

from lsmkv.explore.intervals import CONFIDENCE

from .intervals import at_most

OURS: Final = "lsmkv"

Verdict = Literal["ahead", "behind", "level", "no verdict"]
"""The last where the repetitions are too few for an interval."""


class Measurement(Protocol):
    """The attributes of a row that ratios need."""

    @property
    def engine(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def repetition(self) -> int: ...


M = TypeVar("M", bound=Measurement)


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some figures, with the least and the most."""

    median: float
    least: float
    most: float


def spread(figures: Iterable[float]) -> Spread:
    """The spread of one figure or more.

    >>> spread([3, 1, 2])
    Spread(median=2, least=1, most=3)
    """
    known = sorted(figures)
    return Spread(statistics.median(known), known[0], known[-1])


FEWEST: Final = 6
"""The fewest figures whose median has an interval: five are all on one side of it in 1 of 16 cases."""


def median_interval(figures: Iterable[float]) -> tuple[float, float]:
    """The 95 % interval of the median of positive figures, by ranks (the sign test's).

    Whatever their distribution, n independent figures lie to either side of the median as n coins
    fall.  The interval is the shortest between two figures of opposite ranks that holds the median in
    95 of 100 cases at least; fewer than 6 figures have none.

    >>> median_interval([5, 1, 4, 2, 3]), median_interval([5, 1, 4, 2, 3, 6])
    ((0.0, inf), (1, 6))
    >>> median_interval(range(1, 10)), median_interval(range(1, 31))
    ((2, 8), (10, 21))
    """
    known = sorted(figures)
    tail = (1.0 - CONFIDENCE) / 2.0
    rank = next(rank for rank in count() if at_most(rank, len(known), 0.5) >= tail)
    return (known[rank - 1], known[-rank]) if rank else (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A phase's ratios to one peer, by repetition."""

    phase: str
    peer: str
    each: tuple[float, ...]

    @property
    def ratio(self) -> Spread:
        """Over the repetitions."""
        return spread(self.each)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the median; from 0 to infinity if the repetitions are too few."""
        return median_interval(self.each)

    @property
    def verdict(self) -> Verdict:
        """Whether lsmkv is ahead or behind by the whole interval; level if it includes 1."""
        if len(self.each) < FEWEST:
            return "no verdict"
        low, high = self.interval
        if low > 1.0:
            return "ahead"
        return "behind" if high < 1.0 else "level"


class Figures(Generic[M]):
    """One figure of each row, by phase, engine and repetition; None is left out."""

    def __init__(self, rows: Iterable[M], figure: Callable[[M], float | None]) -> None:
        self._by_phase: dict[str, dict[str, dict[int, float]]] = {}
        for row in rows:
            value = figure(row)
            if value is not None:
                engines = self._by_phase.setdefault(row.phase, {})
                engines.setdefault(row.engine, {})[row.repetition] = value

    @property
    def phases(self) -> list[str]:
        return list(self._by_phase)

    def spread(self, phase: str, engine: str) -> Spread | None:
        """Over the repetitions; None where the engine has no figures."""
        figures = self._by_phase.get(phase, {}).get(engine)
        return spread(figures.values()) if figures else None

    def ratios(self, *, more_is_better: bool = False) -> list[Ratio]:
        """lsmkv's ratios to the peer of best median; over 1, lsmkv is ahead also where more is better."""
        found = (
            self._best_ratio(phase, engines, more_is_better)
            for phase, engines in self._by_phase.items()
        )
        return [ratio for ratio in found if ratio is not None]

    def _best_ratio(
        self, phase: str, engines: Mapping[str, Mapping[int, float]], more_is_better: bool
    ) -> Ratio | None:
        medians = {
            name: statistics.median(figures.values())
            for name, figures in engines.items()
            if name != OURS
        }
        if not medians:
            return None
        peer = (max if more_is_better else min)(medians, key=medians.__getitem__)
        return self.ratio_to(phase, peer, more_is_better=more_is_better)

    def ratio_to(self, phase: str, peer: str, *, more_is_better: bool = False) -> Ratio | None:
        """The ratio of one phase to one peer; None where either has no figures."""
        engines = self._by_phase.get(phase, {})
        if peer not in engines:
            return None
        ours = engines.get(OURS, {})
        pairs = [
            (ours[number], engines[peer][number])
            for number in sorted(ours.keys() & engines[peer].keys())
        ]
        ratios = tuple(
            mine / theirs if more_is_better else theirs / mine
            for mine, theirs in pairs
            if mine > 0 and theirs > 0
        )
        return Ratio(phase, peer, ratios) if ratios else None
