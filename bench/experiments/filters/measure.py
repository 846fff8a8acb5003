"""Counts false positives of filters, and the intervals of their rates.

Counts come from many filters, each with its own keys, and are the same for a seed on every machine.
The filters are a sample too: how full a filter happens to be affects all its answers, so false
positives come in clusters, and the interval must take that into account.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...harness.experiment import Plan
from ...harness.sweep import Step
from .contenders import REFUSALS, contender_named
from .stopwatch import Stopwatch, Timings
from .tasks import Effort, Task, effort_of, keys_of

PRESENT_ASKED: Final = 16  # present keys that each filter is asked for; none may be denied


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one configuration.

    Attributes:
        hits: the false positives of each filter.
        per_filter: the absent keys that each was asked for.
        bits: the size of all filters together.
        rate: the rate in theory, the mean of the filters: the store's ribbon filters have two.
        false_negatives: denied present keys; anything but 0 is a defect.
    """

    hits: tuple[int, ...]
    per_filter: int
    bits: int
    rate: float
    false_negatives: int

    @property
    def trials(self) -> int:
        """Absent keys that were asked for."""
        return len(self.hits) * self.per_filter


def count(what: Task) -> Counts:
    """Fill filters, and count absent keys that pass; all contenders get the same sets of keys."""
    contender = contender_named(what.contender)
    n = what.key_count
    hits: list[int] = []
    bits = false_negatives = number = 0
    rates: list[float] = []
    while len(hits) < what.filter_count:
        draw = random.Random(f"{what.seed}/{n}/{what.error_rate}/{number}")
        keys = keys_of(draw, n + what.per_filter)
        number += 1
        present = keys[:n]
        try:
            filled = contender.fill(present, what.error_rate)
        except REFUSALS:  # no room: another set of keys takes its place
            continue
        passed = sum(contender.ask(filled, keys[n:]))
        some = present[:PRESENT_ASKED]
        false_negatives += len(some) - sum(contender.ask(filled, some))
        hits.append(passed)
        size, rate = contender.facts(filled, n)
        bits += size
        rates.append(rate)
    rate = statistics.fmean(rates)
    return Counts(tuple(hits), what.per_filter, bits, rate, false_negatives)


@dataclass(frozen=True, slots=True)
class Found:
    """The counts of one configuration; the times follow when all are counted."""

    what: Task
    counts: Counts
    timings: Timings | None = None


def count_one(what: Task, _directory: str) -> Found:
    """Count one configuration; nothing is written."""
    return Found(what, count(what))


def add_times(plan: Plan, counted: list[Found], step: Step) -> list[Found]:
    """Add times: contenders take turns, for each number of keys and rate."""
    effort = effort_of(plan)
    timed: dict[Task, Timings] = {}
    for key_count in effort.key_counts:
        for error_rate in effort.error_rates:
            here = [
                found.what
                for found in counted
                if (found.what.key_count, found.what.error_rate) == (key_count, error_rate)
            ]
            timed.update(_times(here, effort, step))
    return [replace(found, timings=timed[found.what]) for found in counted]


def _times(here: Sequence[Task], effort: Effort, step: Step) -> dict[Task, Timings]:
    """Times of the configurations that share keys, rate and seed."""
    first = here[0]
    watch = Stopwatch(
        first.key_count,
        first.error_rate,
        first.seed,
        operations=effort.timed_operations,
        asked=effort.timed_asked,
    )
    contenders = {what: contender_named(what.contender) for what in here}
    for turn in range(effort.turns):
        for contender in contenders.values():
            watch.turn(contender)
        step(
            f"times, {first.key_count:,} keys, {first.error_rate * 100:g} %, "
            f"turn {turn + 1} of {effort.turns}"
        )
    return {what: watch.timings(contender) for what, contender in contenders.items()}
