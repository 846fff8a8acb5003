"""Theory of the counts of ``saved-io``."""

from __future__ import annotations


def searches(hit_ratio: float, run_count: int) -> tuple[float, float]:
    """Block searches of a lookup that filters can spare, and those that are needed.

    A lookup of an absent key searches every run.  A present key is in each run with the same chance,
    so the lookup searches (runs - 1) / 2 other runs first, on average.  Filters spare searches there,
    but not in the key's own run.

    >>> searches(hit_ratio=0.5, run_count=5)
    (3.5, 0.5)
    """
    spared = (1 - hit_ratio) * run_count + hit_ratio * (run_count - 1) / 2
    return spared, hit_ratio


def left_share(error_rate: float, hit_ratio: float, run_count: int) -> float:
    """The share of data-block reads that filters of one rate leave.

    >>> left_share(0.01, hit_ratio=0.0, run_count=4)
    0.01
    >>> left_share(0.01, hit_ratio=1.0, run_count=1)
    1.0
    """
    spared, needed = searches(hit_ratio, run_count)
    return (error_rate * spared + needed) / (spared + needed)


def reads_per_lookup(error_rate: float, hit_ratio: float, run_count: int) -> float:
    """Data-block reads that a lookup is left with.

    >>> reads_per_lookup(0.01, hit_ratio=0.0, run_count=10)
    0.1
    """
    spared, needed = searches(hit_ratio, run_count)
    return error_rate * spared + needed
