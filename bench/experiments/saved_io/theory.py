"""What the counts of ``saved-io`` should be, by arithmetic alone."""

from __future__ import annotations


def saved_share(error_rate: float, hit_ratio: float, run_count: int) -> float:
    """The part of data-block reads that filters of one rate save.

    An absent key is looked for in every run.  A present one is in any of the runs with the same
    chance, newest first, so (runs - 1) / 2 others are searched before its own, on average; there
    the filter can say no, in its own it cannot.

    Args:
        error_rate: p of each filter.
        hit_ratio: h, the part of the look-ups whose key is there.
        run_count: runs that overlap, each with a block whose range holds the key.

    >>> saved_share(0.01, hit_ratio=0.0, run_count=4)
    0.99
    >>> saved_share(0.01, hit_ratio=1.0, run_count=1)
    0.0
    """
    spared = (1 - hit_ratio) * run_count + hit_ratio * (run_count - 1) / 2
    needed = hit_ratio
    return (1 - error_rate) * spared / (spared + needed)


def reads_per_lookup(error_rate: float, hit_ratio: float, run_count: int) -> float:
    """Data-block reads of a look-up: what :func:`saved_share` leaves.

    >>> reads_per_lookup(0.01, hit_ratio=0.0, run_count=10)
    0.1
    """
    spared = (1 - hit_ratio) * run_count + hit_ratio * (run_count - 1) / 2
    return error_rate * spared + hit_ratio


def cost_bytes(
    read_bytes_per_lookup: float, filter_read_bytes: float, lookups_between_opens: float
) -> float:
    """Bytes read for a look-up, its share of loading the filters included.

    This has a least value: a lower error rate reads fewer blocks, but loads more filter.

    >>> cost_bytes(40.0, 50_000, 10_000)
    45.0
    """
    return read_bytes_per_lookup + filter_read_bytes / lookups_between_opens
