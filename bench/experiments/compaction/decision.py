"""The rule that chooses a default style, and which configurations others dominate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.compaction.summary import Config, Summary

WORST: Final = {
    "present_reads_max": "reads per present look-up",
    "absent_reads_expected_max": "reads per absent look-up",
    "scan_reads_max": "reads per scan",
    "space_amplification_max": "space amplification",
}
"""What is bounded: the worst moment of the cycle.  Absent look-ups by the filters' exact rates, which
do not add the chance of a sample to the worst moment."""

TOLERANCE: Final = 2.0
"""A style is admitted when none of its worst cases is more than this many times the best style's."""

COSTS: Final = {
    "write_amplification": "writes",
    "absent_reads_expected_mean": "absent reads",
    "present_reads_mean": "present reads",
    "scan_reads_mean": "scan reads",
    "space_amplification_mean": "space",
    "filter_bytes_per_key": "filter memory",
}
"""What a configuration costs on average; dominated is one that another beats or equals in all."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one candidate stands in a decision.

    Attributes:
        summary: its figures.
        ratio: the largest, over what is bounded, of its worst case over the best one's.
        column: in what that is.
        admitted: whether ``ratio`` is within the tolerance.
    """

    summary: Summary
    ratio: float
    column: str
    admitted: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """Who wins, and from which tolerance on somebody else would.

    Attributes:
        winner: the admitted candidate with the least write amplification.
        standings: every candidate's.
        by_tolerance: (least tolerance, who wins from there on), ascending.
    """

    winner: Config
    standings: tuple[Standing, ...]
    by_tolerance: tuple[tuple[float, Config], ...]


def decide(candidates: Sequence[Summary], tolerance: float = TOLERANCE) -> Decision | None:
    """Bound the worst cases first, then take the least write amplification.

    A candidate is admitted when each of :data:`WORST` is at most ``tolerance`` times that of the one
    that is best in it.  Returns None when nobody is, or nothing was measured.
    """
    if not candidates:
        return None
    best = {column: min(each.most(column) for each in candidates) for column in WORST}
    standings = []
    for each in candidates:
        ratio, column = max((each.most(column) / best[column], column) for column in WORST)
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
    return min(within, key=lambda each: each.mean("write_amplification")).config


def dominators(summary: Summary, others: Sequence[Summary]) -> list[Summary]:
    """Those of ``others`` that cost no more in any of :data:`COSTS`, and less in one."""
    own = [summary.mean(column) for column in COSTS]
    found = []
    for other in others:
        costs = [other.mean(column) for column in COSTS]
        if costs != own and all(cost <= mine for cost, mine in zip(costs, own, strict=True)):
            found.append(other)
    return found
