"""Confidence intervals of measured rates.

Two distributions are no reason for a library of 100 MB.  A test holds them to SciPy's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Final

CONFIDENCE: Final = 0.95
_TAIL: Final = (1.0 - CONFIDENCE) / 2.0
_TINY: Final = 1e-300
_HALVINGS: Final = 60
_MOST_TERMS: Final = 10_000
_PRECISION: Final = 1e-12


def clustered_interval(hits: Sequence[int], trials: Sequence[int]) -> tuple[float, float]:
    """The 95 % interval of a rate by trials in clusters: those of one filter share its keys.

    Clopper and Pearson's (Biometrika 1934) for the trials divided by their design effect (Korn and
    Graubard, Survey Methodology 1998).

    >>> [round(end, 3) for end in clustered_interval([1] * 100, [100] * 100)]
    [0.008, 0.012]
    """
    clusters, total, passed = len(hits), sum(trials), sum(hits)
    if clusters < 2:
        return rate_interval(passed, total, total)
    rate = passed / total
    spread = math.fsum((h - rate * n) ** 2 for h, n in zip(hits, trials, strict=True))
    binomial = total * rate * (1.0 - rate)
    effect = max(1.0, spread * clusters / (clusters - 1) / binomial) if binomial else 1.0
    few = t_quantile(total - 1) / t_quantile(clusters - 1)
    return rate_interval(passed, total, total / effect * few * few)


def rate_interval(hits: int, trials: int, effective: float) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a rate.

    The trials are worth ``effective`` independent ones.

    >>> [round(end, 4) for end in rate_interval(10, 1000, 1000)]
    [0.0048, 0.0183]
    """
    if not trials:
        return 0.0, 1.0
    worth = min(effective, trials)
    positive = hits * (worth / trials)
    low = _beta_quantile(_TAIL, positive, worth - positive + 1.0) if hits else 0.0
    high = 1.0
    if hits < trials:
        high = _beta_quantile(1.0 - _TAIL, positive + 1.0, worth - positive)
    return low, high


def _beta_quantile(share: float, a: float, b: float) -> float:
    """Where the beta distribution of ``a`` and ``b`` has that share below."""
    return _where(lambda x: beta_share(x, a, b) >= share, 0.0, 1.0)


@functools.cache
def t_quantile(freedom: int) -> float:
    """The upper 2.5 % point of Student's t."""

    def is_enough(t: float) -> bool:
        return beta_share(freedom / (freedom + t * t), freedom / 2, 0.5) / 2 <= _TAIL

    return _where(is_enough, 0.0, 64.0)


def _where(is_enough: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition begins to hold."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by Lentz's continued fraction."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction converges fast
        return 1.0 - beta_share(1.0 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _nonzero(1.0 + term * d)
            c = _nonzero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return front * value / a


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
