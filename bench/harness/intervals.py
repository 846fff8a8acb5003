"""Confidence intervals of counts, and percentiles of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy
from scipy.stats import binomtest

CONFIDENCE: Final = 0.95


def rate_interval(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate, by ``hits`` of ``trials``.

    Biometrika 26(4), 1934.  (0, 1) when there were no trials.

    >>> [round(end, 4) for end in rate_interval(10, 1000)]
    [0.0048, 0.0183]
    """
    if not trials:
        return 0.0, 1.0
    found = binomtest(hits, trials).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


def ratio_interval(hits: int, other_hits: int) -> tuple[float, float]:
    """The 95 % interval of the ratio of two rates, by hits of equally many trials each.

    Given the sum of both, either is binomial: Clopper and Pearson's interval of its share, as odds.

    >>> [round(end, 2) for end in ratio_interval(100, 25)]
    [2.56, 6.47]
    """
    low, high = rate_interval(hits, hits + other_hits)
    return _odds(low), _odds(high)


def _odds(share: float) -> float:
    return share / (1.0 - share) if share < 1.0 else math.inf


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of times, in their unit."""

    p50: float
    p95: float
    p99: float


def percentiles(values: Sequence[float]) -> Percentiles:
    """The median and the upper tail; nan of no values.

    >>> percentiles(range(101))
    Percentiles(p50=50.0, p95=95.0, p99=99.0)
    """
    if not len(values):
        return Percentiles(float("nan"), float("nan"), float("nan"))
    found = numpy.percentile(numpy.asarray(values, dtype=float), (50, 95, 99))
    return Percentiles(*(float(each) for each in found))
