"""The configurations of ``filters``: numbers of keys, rates, and the effort for each."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache
from typing import Final

from ...harness.experiment import Plan
from .contenders import Contender, contender_named

KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Effort:
    """The extent of the measurement.

    Attributes:
        error_rates: requested rates.
        false_positives: the expected number in each row.
        least_trials, most_trials: bounds of the absent keys asked for.
        least_filters: the interval of few filters is wide.
        turns: repetitions of each timing.
        timed_operations: the fewest operations between two readings of the clock.
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
class Task:
    """One configuration; each filter is asked for ``per_filter`` absent keys."""

    contender: str
    key_count: int
    error_rate: float
    seed: int
    filter_count: int
    per_filter: int

    def __str__(self) -> str:
        return f"{self.contender}, {self.key_count:,} keys, {self.error_rate * 100:g} %"


def keys_of(draw: random.Random, count: int) -> list[bytes]:
    drawn = draw.randbytes(count * KEY_BYTES)
    keys = [drawn[at : at + KEY_BYTES] for at in range(0, len(drawn), KEY_BYTES)]
    if len(set(keys)) != count:
        raise AssertionError("two of a handful of 128-bit numbers are equal")
    return keys


def effort_of(plan: Plan) -> Effort:
    return QUICK if plan.quick else FULL


def task_of(name: str, key_count: int, error_rate: float, seed: int, effort: Effort) -> Task:
    """A task whose filling costs about as much as its asking, by the filter's own rate."""
    rate = rate_in_theory(contender_named(name), key_count, error_rate)
    trials = math.ceil(effort.false_positives / rate)
    trials = max(effort.least_trials, min(effort.most_trials, trials))
    per_filter = max(math.ceil(1 / rate), key_count // 2)
    filter_count = max(effort.least_filters, math.ceil(trials / per_filter))
    per_filter = math.ceil(trials / filter_count)
    return Task(name, key_count, error_rate, seed, filter_count, per_filter)


@cache
def rate_in_theory(contender: Contender, key_count: int, error_rate: float) -> float:
    if (
        contender.start is not None and contender.group != "peer"
    ):  # rbloom is timed with another hash
        filled = contender.start(key_count, error_rate)
    else:
        filled = contender.fill(keys_of(random.Random(0), key_count), error_rate)
    return contender.facts(filled, key_count)[1]
