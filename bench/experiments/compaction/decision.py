"""The criterion for the default style, and dominated configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.compaction.summary import Config, Summary

WORST: Final = {
    "present_reads_max": "reads per present lookup",
    "absent_reads_expected_max": "reads per absent lookup",
    "scan_reads_max": "reads per scan",
    "space_amplification_max": "space amplification",
}
"""The bounded columns: the worst moment of the cycle.  Absent lookups count by the filters' exact rates,
so that the chance of a sample does not enter."""

TOLERANCE: Final = 2.0
"""The criterion admits a style if each of its worst cases is at most this many times the best."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One candidate of a decision.

    Attributes:
        ratio: the largest ratio, over the bounded columns, of its worst case to the best.
        column: the column of that ratio.
        admitted: whether ``ratio`` is within the tolerance.
    """

    summary: Summary
    ratio: float
    column: str
    admitted: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The winner of the criterion, and the winners at other tolerances.

    Attributes:
        winner: the admitted candidate with the least write amplification.
        by_tolerance: (least tolerance, its winner), ascending.
    """

    winner: Config
    standings: tuple[Standing, ...]
    by_tolerance: tuple[tuple[float, Config], ...]


def decide(candidates: Sequence[Summary], tolerance: float = TOLERANCE) -> Decision | None:
    """Bound the worst cases first, then take the least write amplification.

    A candidate is admitted if each of :data:`WORST` is at most ``tolerance`` times the best
    candidate's.  None if no candidate is admitted.
    """
    if not candidates:
        return None
    best = {column: min(getattr(each.row, column) for each in candidates) for column in WORST}
    standings = []
    for each in candidates:
        ratio, column = max((getattr(each.row, column) / best[column], column) for column in WORST)
        standings.append(Standing(each, ratio, column, ratio <= tolerance))
    winner = _cheapest(standings, tolerance)
    if winner is None:
        return None
    changes: list[tuple[float, Config]] = []
    for limit in sorted(standing.ratio for standing in standings):
        now = _cheapest(standings, limit)
        if now is not None and (not changes or changes[-1][1] != now):
            changes.append((limit, now))
    return Decision(winner, tuple(standings), tuple(changes))


def _cheapest(standings: Sequence[Standing], tolerance: float) -> Config | None:
    within = [standing.summary for standing in standings if standing.ratio <= tolerance]
    if not within:
        return None
    return min(within, key=lambda each: each.row.write_amplification).config
