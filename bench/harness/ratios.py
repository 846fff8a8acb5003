"""Medians and ratios of engines: the arithmetic of the comparison.

A ratio is a peer's figure by lsmkv's, of times, bytes and reads alike: over 1, lsmkv is ahead.  It is
taken within each repetition, where both were measured one after the other, and then the median of
those; a ratio of two medians would mix what the machine did at different times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

OURS: Final = "lsmkv"


class Measurement(Protocol):
    """What a row has to tell."""

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
    """The spread of at least one figure.

    >>> spread([3, 1, 2])
    Spread(median=2, least=1, most=3)
    """
    known = sorted(figures)
    return Spread(statistics.median(known), known[0], known[-1])


@dataclass(frozen=True, slots=True)
class Ratio:
    """How one phase compares with its best peer: the one with the lowest median.

    Attributes:
        phase: its name.
        peer: the best one's.
        ratio: its figure by lsmkv's, over the repetitions.
    """

    phase: str
    peer: str
    ratio: Spread

    @property
    def verdict(self) -> Literal["ahead", "behind", "level"]:
        """Ahead or behind in every repetition, or level: now this way, now that."""
        if self.ratio.least > 1.0:
            return "ahead"
        return "behind" if self.ratio.most < 1.0 else "level"


class Figures(Generic[M]):
    """One figure of each row that has it, by phase, engine and repetition."""

    def __init__(self, rows: Iterable[M], figure: Callable[[M], float | None]) -> None:
        self._by_phase: dict[str, dict[str, dict[int, float]]] = {}
        for row in rows:
            value = figure(row)
            if value is not None:
                engines = self._by_phase.setdefault(row.phase, {})
                engines.setdefault(row.engine, {})[row.repetition] = value

    @property
    def phases(self) -> list[str]:
        """The phases that have figures."""
        return list(self._by_phase)

    def spread(self, phase: str, engine: str) -> Spread | None:
        """Over the repetitions; None where the engine has no figures."""
        figures = self._by_phase.get(phase, {}).get(engine)
        return spread(figures.values()) if figures else None

    def ratios(self) -> list[Ratio]:
        """A ratio for each phase in which lsmkv and a peer have figures above 0."""
        found = (self._ratio(phase, engines) for phase, engines in self._by_phase.items())
        return [ratio for ratio in found if ratio is not None]

    def _ratio(self, phase: str, engines: Mapping[str, Mapping[int, float]]) -> Ratio | None:
        ours = engines.get(OURS, {})
        medians = {
            name: statistics.median(figures.values())
            for name, figures in engines.items()
            if name != OURS
        }
        if not medians:
            return None
        peer = min(medians, key=medians.__getitem__)
        theirs = engines[peer]
        ratios = [
            theirs[number] / ours[number]
            for number in sorted(ours.keys() & theirs.keys())
            if ours[number] > 0 and theirs[number] > 0
        ]
        return Ratio(phase, peer, spread(ratios)) if ratios else None
