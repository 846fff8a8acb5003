"""Sharing filter memory among runs: Monkey, and the same where some are asked more than others.

A lookup of an absent key asks the filter of every run.  With the same bits per key everywhere, the
filters of small runs are as often wrong as those of large ones, though better ones cost next to nothing.
Of two runs of the same size, the one that absent keys ask more often is worth more bits.

Source: N. Dayan, M. Athanassoulis, S. Idreos, "Monkey: Optimal Navigable Key-Value Store", SIGMOD
2017.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final

_SMALLEST_RATE: Final = sys.float_info.min
_LN2_SQUARED: Final = math.log(2.0) ** 2

FLOOR_RATE: Final = 1e-6
"""The lowest rate of a budget: 29 bits per key, and one wasted read in a million lookups."""

_LOWEST: Final = -math.log(FLOOR_RATE)


def monkey_error_rates(run_key_counts: Sequence[int], error_rate: float) -> list[float]:
    """The false-positive rates, one for each run, that waste the fewest reads.

    They minimise the sum of p_i in the memory, sum of n_i ln(1/p_i), that ``error_rate`` for every
    run would take: p_i = min(1, c n_i), for the c that spends it all.  A run with rate 1 gets no
    filter; empty runs, and the only other one, get ``error_rate``.  Rates stop at the smallest normal
    float, 2e-308.  O(r log r).

    Args:
        run_key_counts: the number of distinct keys in each run.
        error_rate: the uniform rate that takes the same memory, above 0 and up to 1.

    >>> rates = monkey_error_rates([1_000, 10_000, 100_000], 0.01)
    >>> [round(rate, 5) for rate in rates]
    [0.00013, 0.00128, 0.01283]
    >>> round(expected_wasted_reads(rates), 4), expected_wasted_reads([0.01] * 3)
    (0.0142, 0.03)
    """
    if not 0.0 < error_rate <= 1.0:
        raise ValueError(f"error_rate={error_rate!r}: must be above 0 and at most 1")
    _check_key_counts(run_key_counts)
    ascending = sorted(count for count in run_key_counts if count)
    if len(ascending) < 2:
        return [error_rate] * len(run_key_counts)
    log_factor = _log_factor(ascending, -math.log(error_rate) * sum(ascending))
    return [
        max(math.exp(min(0.0, log_factor + math.log(count))), _SMALLEST_RATE)
        if count
        else error_rate
        for count in run_key_counts
    ]


def budget_error_rates(
    key_counts: Sequence[float], asks: Sequence[float], memory_bits: float
) -> list[float]:
    """The rates that waste the fewest reads where parts are asked unevenly.

    They minimise the sum of f_i p_i in the memory, sum of n_i ln(1/p_i) / (ln 2)^2: by Lagrange
    p_i = c n_i / f_i, but at most 1, and at least :data:`FLOOR_RATE`, for the c that spends the memory.
    With all f_i alike they are Monkey's rates.  What floor rates leave is not spent.  O(r log r).

    Args:
        key_counts: n_i, the number of distinct keys in each part, above 0.
        asks: f_i, how often a part is asked for absent keys, above 0; only their ratios count.
        memory_bits: the memory of all filters, in bits, 0 or more.

    >>> [round(rate, 4) for rate in budget_error_rates([1000, 1000], [90, 10], 20_000)]
    [0.0027, 0.0246]
    """
    for what, numbers in (("key count", key_counts), ("number of asks", asks)):
        for number in numbers:
            if not number > 0.0:
                raise ValueError(f"{what} {number!r}: must be above 0")
    if not memory_bits >= 0.0:
        raise ValueError(f"memory_bits={memory_bits!r}: must be 0 or more")
    # ln(1/p) is density - level, from 0 to _LOWEST: the memory grows as the level sinks.  Each part adds
    # its keys to the slope at its density, and takes them out where it reaches the floor rate.
    densities = [math.log(f / n) for n, f in zip(key_counts, asks, strict=True)]
    turns = [(density, n) for density, n in zip(densities, key_counts, strict=True)]
    turns += [(density - _LOWEST, -n) for density, n in turns]
    turns.sort(reverse=True)
    left_nats = memory_bits * _LN2_SQUARED
    level = turns[0][0] if turns else 0.0
    slope = 0.0
    for turn, change in turns:
        nats = slope * (level - turn)
        if nats >= left_nats:
            level -= left_nats / slope if slope > 0.0 else 0.0
            break
        left_nats -= nats
        level = turn
        slope += change
    return [math.exp(-min(max(density - level, 0.0), _LOWEST)) for density in densities]


def expected_wasted_reads(rates: Sequence[float]) -> float:
    """The expected wasted reads of an absent key: the sum of rates of all runs."""
    return math.fsum(rates)


def memory_bits(run_key_counts: Sequence[float], rates: Sequence[float]) -> float:
    """The bits of these runs' Bloom filters, before rounding to whole bits.

    The sum of n_i ln(1/p_i) / (ln 2)^2 (Bloom 1970), with one rate, above 0 and up to 1, for each run.
    """
    _check_key_counts(run_key_counts)
    if len(run_key_counts) != len(rates):
        raise ValueError(
            f"{len(run_key_counts)} key counts but {len(rates)} rates: give one rate for each run"
        )
    for rate in rates:
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"rate {rate!r}: must be above 0 and at most 1")
    runs = zip(run_key_counts, rates, strict=True)
    nats = math.fsum(-count * math.log(rate) for count, rate in runs)
    return nats / _LN2_SQUARED


def _log_factor(ascending: Sequence[int], memory_nats: float) -> float:
    """ln c such that rates min(1, c n) take ``memory_nats``.

    Memory is the sum of n ln(1/p).  Only the largest runs go without a filter.  The others are the
    longest series of runs, smallest first, whose largest gets a rate of at most 1 when they share the
    memory.  The criterion, the sum of n_j ln(n/n_j) over the runs up to n, grows with n, so the first
    run that fails ends the search.
    """
    log_factor = 0.0
    keys = 0
    key_logs = 0.0
    for count in ascending:
        keys += count
        key_logs += count * math.log(count)
        candidate = -(memory_nats + key_logs) / keys
        if candidate + math.log(count) > 0.0:
            break
        log_factor = candidate
    return log_factor


def _check_key_counts(run_key_counts: Sequence[float]) -> None:
    for count in run_key_counts:
        if count < 0:
            raise ValueError(f"run of {count!r} keys: a key count must be 0 or more")
