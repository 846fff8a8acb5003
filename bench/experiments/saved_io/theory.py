"""Theory of the counts of ``saved-io``."""

from __future__ import annotations


def saved_share(error_rate: float, hit_ratio: float, run_count: int) -> float:
    """The share of data-block reads that filters of one rate save.

    A lookup of an absent key searches every run.  A present key is in each run with the same chance,
    so the lookup searches (runs - 1) / 2 other runs first, on average.  Filters spare searches there,
    but not in the key's own run.  ``hit_ratio`` is the share of lookups of present keys.

    >>> saved_share(0.01, hit_ratio=0.0, run_count=4)
    0.99
    >>> saved_share(0.01, hit_ratio=1.0, run_count=1)
    0.0
    """
    spared = (1 - hit_ratio) * run_count + hit_ratio * (run_count - 1) / 2
    needed = hit_ratio
    return (1 - error_rate) * spared / (spared + needed)


def reads_per_lookup(error_rate: float, hit_ratio: float, run_count: int) -> float:
    """Data-block reads of a lookup that remain after :func:`saved_share`.

    >>> reads_per_lookup(0.01, hit_ratio=0.0, run_count=10)
    0.1
    """
    spared = (1 - hit_ratio) * run_count + hit_ratio * (run_count - 1) / 2
    return error_rate * spared + hit_ratio


def cost_bytes(
    read_bytes_per_lookup: float, filter_read_bytes: float, lookups_between_opens: float
) -> float:
    """Bytes read for a lookup, with its share of loading the filters.

    It has a minimum: a lower error rate reads fewer blocks, but loads larger filters.

    >>> cost_bytes(40.0, 50_000, 10_000)
    45.0
    """
    return read_bytes_per_lookup + filter_read_bytes / lookups_between_opens
