"""What ``filters`` counts and times: how many keys, at which rates, with how much effort."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from bench.experiments.filters.contenders import CONTENDERS, Contender, contender_named
from bench.experiments.filters.measure import Configuration, Counts, count, keys_of
from bench.experiments.filters.stopwatch import Stopwatch, Timings
from bench.harness.experiment import Plan
from bench.harness.sweep import Step


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        key_counts: the sizes of the sets.
        error_rates: what filters are asked for.
        false_positives: how many are expected of a filter that keeps its word.
        least_trials: absent keys asked for at the least.
        most_trials: and at the most, however rare false positives are.
        least_filters: filters at the least: an interval from few is wide.
        turns: repetitions of each timing.
        timed_operations: operations that one reading of the clock covers at the least.
        timed_asked: keys that one large filter is asked for when timed.
    """

    key_counts: tuple[int, ...] = (30, 300, 100_000)
    error_rates: tuple[float, ...] = (0.1, 0.01, 0.001)
    false_positives: int = 600
    least_trials: int = 40_000
    most_trials: int = 2_000_000
    least_filters: int = 6
    turns: int = 7
    timed_operations: int = 3000
    timed_asked: int = 10_000


FULL: Final = Effort()
QUICK: Final = Effort(
    key_counts=(30, 300, 10_000),
    false_positives=150,
    least_trials=10_000,
    most_trials=300_000,
    turns=3,
    timed_operations=1500,
    timed_asked=2000,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What came out of one configuration; it is timed after everything has been counted."""

    what: Configuration
    counts: Counts
    timings: Timings | None = None


def configurations(plan: Plan) -> list[Configuration]:
    """Everything that is counted, in the order of the rows."""
    effort = effort_of(plan)
    present = [contender for contender in CONTENDERS if contender.is_installed()]
    return [
        configuration(contender.name, key_count, error_rate, plan.seed, effort)
        for key_count in effort.key_counts
        for error_rate in effort.error_rates
        for contender in present
        if contender.offers(error_rate)
    ]


def count_one(what: Configuration, _directory: str) -> Found:
    """Count one configuration; nothing is written."""
    return Found(what, count(what))


def add_times(plan: Plan, counted: list[Found], step: Step) -> list[Found]:
    """The same with times: contenders by turns, for each number of keys and rate."""
    effort = effort_of(plan)
    timed: dict[Configuration, Timings] = {}
    for key_count in effort.key_counts:
        for error_rate in effort.error_rates:
            here = [
                found.what
                for found in counted
                if (found.what.key_count, found.what.error_rate) == (key_count, error_rate)
            ]
            timed.update(_times(here, effort, step))
    return [replace(found, timings=timed[found.what]) for found in counted]


def _times(
    here: Sequence[Configuration], effort: Effort, step: Step
) -> dict[Configuration, Timings]:
    """The times of configurations that have number of keys, rate and seed in common."""
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


def effort_of(plan: Plan) -> Effort:
    """How much is to be measured."""
    return QUICK if plan.quick else FULL


def configuration(
    name: str, key_count: int, error_rate: float, seed: int, effort: Effort
) -> Configuration:
    """How many filters of how many trials: filters about as costly to fill as to ask.

    What is expected is told by the filter's own rate, which may be far below the one asked for (a
    cache line is large for 30 keys).  The lower the rate, the more keys a filter is asked for.
    """
    rate = rate_in_theory(contender_named(name), key_count, error_rate)
    trials = math.ceil(effort.false_positives / rate)
    trials = max(effort.least_trials, min(effort.most_trials, trials))
    per_filter = max(math.ceil(1 / rate), key_count // 2)
    filter_count = max(effort.least_filters, math.ceil(trials / per_filter))
    per_filter = math.ceil(trials / filter_count)
    return Configuration(name, key_count, error_rate, seed, filter_count, per_filter)


@cache
def rate_in_theory(contender: Contender, key_count: int, error_rate: float) -> float:
    """The rate that a contender should have."""
    if contender.start is not None and contender.group != "peer":  # rbloom's tells less when timed
        filled = contender.start(key_count, error_rate)
    else:
        filled = contender.fill(keys_of(random.Random(0), key_count), error_rate)
    return contender.facts(filled, key_count)[1]
