"""Counting how often filters err, and where their rate lies, for ``python -m bench filters``.

Counts come from many filters, each with keys of its own, and are the same for a seed on every
machine.  The filters are a sample too: whether a filter happens to be fuller than others decides all
answers it gives, so false positives come in clusters, and the interval has to know.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scipy import stats

from bench.experiments.filters.contenders import REFUSALS, Contender, contender_named
from bench.harness.intervals import CONFIDENCE

KEY_BYTES: Final = 16
PRESENT_ASKED: Final = 16
"""Present keys that each filter is asked for, to see that none is denied."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is to be counted; hits of a filter are counted among ``per_filter`` absent keys."""

    contender: str
    key_count: int
    error_rate: float
    seed: int
    filter_count: int
    per_filter: int

    def __str__(self) -> str:
        return f"{self.contender}, {self.key_count:,} keys, {self.error_rate * 100:g} %"


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted.

    Attributes:
        hits: the false positives of each filter.
        per_filter: the absent keys that each was asked for.
        bits: the size of all filters together.
        rate: the rate in theory.
        refused: sets of keys for which a filter had no room; others took their place.
        false_negatives: present keys that were denied; anything but 0 is a defect.
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
    """A measured rate and where the true one lies.

    ``design_effect`` is the variance of the rate over that of as many independent trials.
    """

    rate: float
    low: float
    high: float
    design_effect: float


def keys_of(draw: random.Random, count: int) -> list[bytes]:
    """``count`` distinct random keys."""
    drawn = draw.randbytes(count * KEY_BYTES)
    keys = [drawn[at : at + KEY_BYTES] for at in range(0, len(drawn), KEY_BYTES)]
    if len(set(keys)) != count:
        raise AssertionError("two of a handful of 128-bit numbers are equal")
    return keys


def count(what: Configuration) -> Counts:
    """Fill filters and count how often they let absent keys pass.

    Contenders at one seed, number of keys and rate get the same sets of keys.
    """
    contender = contender_named(what.contender)
    n = what.key_count
    hits: list[int] = []
    bits = refused = false_negatives = number = 0
    rate = 0.0
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
        passed = _asked(contender, filled, keys[n:])
        false_negatives += min(n, PRESENT_ASKED) - _asked(
            contender, filled, present[:PRESENT_ASKED]
        )
        hits.append(passed)
        size, rate = contender.facts(filled, n)
        bits += size
    return Counts(tuple(hits), what.per_filter, bits, rate, refused, false_negatives)


def _asked(contender: Contender, filled: Any, keys: Iterable[bytes]) -> int:
    """How many of ``keys`` pass."""
    if contender.by_operator:
        return sum([1 for key in keys if key in filled])
    may_contain = filled.may_contain
    return sum([1 for key in keys if may_contain(key)])


def interval(hits: Sequence[int], per_filter: int) -> Interval:
    """The rate of false positives with its 95 % interval, filters being clusters of trials.

    Clopper and Pearson's interval, of the number of independent trials that would tell as much: all
    trials divided by the design effect (the variance between filters over the binomial one, at
    least 1), and by the square of t over t for so few filters.  E. L. Korn, B. I. Graubard,
    "Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data", Survey Methodology 24(2), 1998.

    Raises:
        ValueError: there are less than two filters.

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
