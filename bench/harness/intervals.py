"""Confidence intervals of counts, and percentiles of times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy

from lsmkv.explore import intervals
from lsmkv.explore.intervals import beta_share, t_quantile

FEWEST_EVENTS: Final = 20
"""A ratio of counts is printed if each is so many or more: fewer tell its order of magnitude at best."""


def effective_trials(times: Iterable[int]) -> float:
    """The number of independent trials that repeated ones are worth.

    Trial ``i`` is made ``times[i]`` times with one answer: (sum of c)^2 / sum of c^2, Kish's effective
    sample size.

    >>> effective_trials([1, 1, 1]), effective_trials([2, 2, 2]), effective_trials([3, 1])
    (3.0, 3.0, 1.6)
    """
    counts = [count for count in times if count]
    total = sum(counts)
    return total * total / sum(count * count for count in counts) if counts else 0.0


def rate_interval(hits: int, trials: int, *, effective: float | None = None) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a rate, by ``hits`` of ``trials``.

    Biometrika 26(4), 1934.  (0, 1) when there were no trials.  It takes all trials for independent.
    If they repeat or come in clusters, ``effective`` is the number of independent ones that they are
    worth, and the interval is that of the same rate in so many trials.

    >>> [round(end, 4) for end in rate_interval(10, 1000)]
    [0.0048, 0.0183]
    >>> [round(end, 4) for end in rate_interval(100, 10_000, effective=1000)]
    [0.0048, 0.0183]
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"hits={hits}: must be from 0 to the number of trials, {trials}")
    return intervals.rate_interval(hits, trials, trials if effective is None else effective)


def at_most(successes: int, trials: int, chance: float) -> float:
    """How likely so many successes or fewer are: the binomial distribution.

    >>> round(at_most(8, 10, 0.95), 4)
    0.0861
    """
    return (
        beta_share(1.0 - chance, trials - successes, successes + 1) if successes < trials else 1.0
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured rate, its interval, and its design effect: the variance over independent trials'."""

    rate: float
    low: float
    high: float
    design_effect: float


def clustered_interval(
    hits: Sequence[int], trials: int | Sequence[int], least_effect: float = 1.0
) -> Interval:
    """A rate with its 95 % interval, by trials in clusters.

    The trials of one filter are a cluster: they share its keys and its fill.  The result is Clopper and
    Pearson's interval for the effective number of trials: all trials divided by the design effect (the
    variance between clusters over the binomial one), and multiplied by the square of t for the trials
    over t for the clusters.  E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with
    small expected number of positive counts estimated from survey data", Survey Methodology 24(2),
    1998.  Needs two clusters or more.

    Args:
        hits: of each cluster.
        trials: of each cluster, or of every one.
        least_effect: the design effect that is known (of repeated trials, for example); what few hits
            show may be less.

    >>> clustered_interval([1] * 100, 100)  # evenly spread: as if independent
    Interval(rate=0.01, low=0.0081..., high=0.0121..., design_effect=1.0)
    >>> clustered_interval([10] * 10 + [0] * 90, 100)  # from a tenth of the filters: much wider
    Interval(rate=0.01, low=0.0049..., high=0.0179..., design_effect=9.18...)
    """
    clusters = len(hits)
    if clusters < 2:
        raise ValueError("one filter does not tell how filters differ")
    sizes = [trials] * clusters if isinstance(trials, int) else trials
    total, all_hits = sum(sizes), sum(hits)
    rate = all_hits / total
    # The variance of the sum, by its deviations from the mean rate.
    spread = math.fsum((hit - rate * size) ** 2 for hit, size in zip(hits, sizes, strict=True))
    variance = spread * clusters / (clusters - 1)
    binomial = total * rate * (1.0 - rate)
    effect = max(least_effect, variance / binomial) if binomial else least_effect
    few = t_quantile(total - 1) / t_quantile(clusters - 1)
    low, high = rate_interval(all_hits, total, effective=total / effect * few * few)
    return Interval(rate, low, high, effect)


def ratio_interval(
    hits: int, other_hits: int, effect: float = 1.0, other_effect: float = 1.0
) -> tuple[float, float]:
    """The 95 % interval of the ratio of two small rates, by hits of equally many trials each.

    Given the sum of both, either is binomial: Clopper and Pearson's interval of its share, as odds.
    The design effects are those of the two rates; hits of clusters count for so many times fewer.

    >>> [round(end, 2) for end in ratio_interval(100, 25)]
    [2.56, 6.47]
    >>> [round(end, 2) for end in ratio_interval(200, 50, 2.0, 2.0)]
    [2.56, 6.47]
    """
    if not hits + other_hits:
        return 0.0, math.inf
    # The variance of the logarithm of the ratio by that of independent hits.
    both = hits + other_hits
    mixed = (effect * other_hits + other_effect * hits) / both
    low, high = rate_interval(hits, both, effective=both / mixed)
    return _odds(low), _odds(high)


def _odds(share: float) -> float:
    return share / (1.0 - share) if share < 1.0 else math.inf


def percentile(values: Sequence[float], share: float) -> float:
    """A percentile, also between two values; nan of no values.

    >>> percentile(range(101), 99)
    99.0
    """
    return float(numpy.percentile(values, share)) if len(values) else math.nan
