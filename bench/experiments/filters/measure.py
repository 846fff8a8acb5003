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

from scipy import stats

from bench.experiments.filters.contenders import REFUSALS, contender_named
from bench.experiments.filters.stopwatch import Stopwatch, Timings
from bench.experiments.filters.tasks import Effort, Task, effort_of, keys_of
from bench.harness.experiment import Plan
from bench.harness.intervals import CONFIDENCE
from bench.harness.sweep import Step

PRESENT_ASKED: Final = 16
"""Present keys that each filter is asked for; none may be denied."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one configuration.

    Attributes:
        hits: the false positives of each filter.
        per_filter: the absent keys that each was asked for.
        bits: the size of all filters together.
        rate: the rate in theory, the mean of the filters: the store's ribbon filters have two.
        refused: sets of keys for which a filter had no room; other sets replaced them.
        false_negatives: denied present keys; anything but 0 is a defect.
    """

    hits: tuple[int, ...]
    per_filter: int
    bits: int
    rate: float
    refused: int
    false_negatives: int

    @property
    def trials(self) -> int:
        """Absent keys that were asked for."""
        return len(self.hits) * self.per_filter


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured rate, its interval, and its design effect.

    The design effect is the variance over that of independent trials.
    """

    rate: float
    low: float
    high: float
    design_effect: float


def count(what: Task) -> Counts:
    """Fill filters, and count the absent keys that pass.

    Contenders at one seed, number of keys and rate get the same sets of keys.
    """
    contender = contender_named(what.contender)
    n = what.key_count
    hits: list[int] = []
    bits = refused = false_negatives = number = 0
    rates: list[float] = []
    while len(hits) < what.filter_count:
        draw = random.Random(f"{what.seed}/{n}/{what.error_rate}/{number}")
        keys = keys_of(draw, n + what.per_filter)
        number += 1
        present = keys[:n]
        try:
            filled = contender.fill(present, what.error_rate)
        except REFUSALS:
            refused += 1
            continue
        passed = sum(contender.ask(filled, keys[n:]))
        some = present[:PRESENT_ASKED]
        false_negatives += len(some) - sum(contender.ask(filled, some))
        hits.append(passed)
        size, rate = contender.facts(filled, n)
        bits += size
        rates.append(rate)
    rate = statistics.fmean(rates)
    return Counts(tuple(hits), what.per_filter, bits, rate, refused, false_negatives)


def interval(hits: Sequence[int], per_filter: int) -> Interval:
    """The false-positive rate with its 95 % interval, by clustered trials.

    The trials of one filter are a cluster.  Clopper and Pearson's interval for the effective number of
    trials: all trials divided by the design effect (the variance between filters over the binomial one,
    at least 1), and multiplied by the square of t for the trials over t for the filters.  E. L. Korn,
    B. I. Graubard, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", Survey Methodology 24(2), 1998.  Needs two filters or more.

    >>> interval([1] * 100, 100)  # evenly spread: as if independent
    Interval(rate=0.01, low=0.0081..., high=0.0121..., design_effect=1.0)
    >>> interval([10] * 10 + [0] * 90, 100)  # from a tenth of the filters: much wider
    Interval(rate=0.01, low=0.0049..., high=0.0179..., design_effect=9.18...)
    """
    filters = len(hits)
    if filters < 2:
        raise ValueError("one filter does not tell how filters differ")
    trials = filters * per_filter
    rate = sum(hits) / trials
    binomial = per_filter * rate * (1.0 - rate)
    effect = max(1.0, statistics.variance(hits) / binomial) if binomial else 1.0
    tail = (1.0 - CONFIDENCE) / 2.0
    few = float(stats.t.ppf(tail, trials - 1) / stats.t.ppf(tail, filters - 1))
    effective = trials / effect * few * few
    positive = effective * rate
    low = float(stats.beta.ppf(tail, positive, effective - positive + 1.0)) if rate else 0.0
    high = (
        float(stats.beta.ppf(1.0 - tail, positive + 1.0, effective - positive))
        if rate < 1.0
        else 1.0
    )
    return Interval(rate, low, high, effect)


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
