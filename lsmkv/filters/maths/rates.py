"""Sizes and rates of the Bloom filter's plain rivals, and inverse questions.

Letters are those of :mod:`lsmkv.filters.maths.sizing`, and *f* is the number of bits of a
fingerprint.  Every rate is exact for independent, uniform hashes.  Where no order is given, a function
takes O(1).

Sources: L. Carter et al., "Exact and approximate membership testers", STOC 1978, for the lower
bound; A. Kirsch, M. Mitzenmacher, "Less hashing, same performance", ESA 2006, for partitioned
filters; the rest is the chance that one of n throws hits.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from lsmkv.filters.maths.sizing import MAX_PROBES, check_arguments, lower_bound_bits

MAX_FINGERPRINT_BITS: Final = 62  # of a hash, which has 63

SizeFor = Callable[[int, float], float]  # bits of a filter, from keys and error rate


# Lower bound


def over_lower_bound(bit_count: float, key_count: int, error_rate: float) -> float:
    """``bit_count`` by the least possible size, n log2(1/p): 1.44 for a Bloom filter.  There are keys."""
    check_arguments(key_count, error_rate)
    if key_count == 0:
        raise ValueError("key_count=0: no keys take no bits, which nothing can be compared with")
    return bit_count / lower_bound_bits(key_count, error_rate)


# One hash


def single_hash_rate(bit_count: int, key_count: int) -> float:
    """The rate of an array of bits with one hash: 1 - (1 - 1/m)^n; 1.0 without bits."""
    if bit_count == 0:
        return 1.0
    return hit_rate(1.0 / bit_count, key_count)


def single_hash_bits_for(key_count: int, error_rate: float) -> int:
    """The bits that an array with one hash needs: 1 / (1 - (1-p)^(1/n)), about n/p.

    >>> single_hash_bits_for(1000, 0.01)
    99500
    """
    check_arguments(key_count, error_rate)
    return 0 if key_count == 0 else math.ceil(1.0 / each_rate(error_rate, key_count))


# Partitioned


def partitioned_rate(bit_count: int, key_count: int, probe_count: int) -> float:
    """The rate of k arrays with one probe in each: (1 - (1 - k/m)^n)^k; 1.0 if one has no bit."""
    part_bits = bit_count // probe_count if probe_count > 0 else 0
    if part_bits == 0:
        return 1.0
    return float(hit_rate(1.0 / part_bits, key_count) ** probe_count)


def partitioned_bits_for(key_count: int, error_rate: float, probe_count: int) -> int:
    """The bits that k arrays need together: k / (1 - (1 - p^(1/k))^(1/n)), in whole arrays.

    >>> partitioned_bits_for(1000, 0.01, 7)
    9597
    """
    check_arguments(key_count, error_rate)
    _check_probes(probe_count)
    if key_count == 0:
        return 0
    return probe_count * math.ceil(1.0 / each_rate(error_rate ** (1.0 / probe_count), key_count))


def partitioned_bits_roughly(key_count: int, error_rate: float, probe_count: int) -> float:
    """The rule of thumb kn / p^(1/k) for k arrays; good where most bits stay 0."""
    check_arguments(key_count, error_rate)
    _check_probes(probe_count)
    return float(probe_count * key_count / error_rate ** (1.0 / probe_count))


def _check_probes(probe_count: int) -> None:
    if probe_count < 1:
        raise ValueError(f"probe_count={probe_count!r}: must be 1 or more")


@lru_cache(maxsize=4096)
def partitioned_probes_for(bit_count: int, key_count: int) -> int:
    """The k, 1 to ``MAX_PROBES``, with the lowest :func:`partitioned_rate`; memoised.

    >>> partitioned_probes_for(9597, 1000)
    7
    """
    return min(
        range(1, MAX_PROBES + 1), key=lambda k: (partitioned_rate(bit_count, key_count, k), k)
    )


# Fingerprints in order


def fingerprint_rate(fingerprint_bits: int, key_count: int) -> float:
    """The rate of a sorted array of f-bit fingerprints: 1 - (1 - 2^-f)^n."""
    return hit_rate(2.0**-fingerprint_bits, key_count)


def fingerprint_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of each fingerprint of a sorted array: about log2(n/p).

    -log2(1 - (1-p)^(1/n)), rounded up, so that the rate is at most ``error_rate``.

    >>> fingerprint_bits_for(1000, 0.01), fingerprint_bits_for(100_000, 0.01)
    (17, 24)
    """
    check_arguments(key_count, error_rate)
    if key_count == 0:
        return 1
    return max(1, math.ceil(-math.log2(each_rate(error_rate, key_count))))


def crossover_keys(error_rate: float) -> float:
    """The keys for which single hash and sorted fingerprints are equally large.

    n/p = n log2(n/p) where n = p 2^(1/p): below it fingerprints are smaller.

    >>> f"{crossover_keys(0.01):.4g}"
    '1.268e+28'
    """
    check_arguments(error_rate=error_rate)
    try:
        return float(error_rate * 2.0 ** (1.0 / error_rate))
    except OverflowError:
        return math.inf


def sorted_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a sorted array of fingerprints: n :func:`fingerprint_bits_for`."""
    return key_count * fingerprint_bits_for(key_count, error_rate)


# Inverse questions, for every kind of filter


def keys_that_fit(size_for: SizeFor, bit_count: int, error_rate: float) -> int:
    """The keys that fit into ``bit_count`` bits at ``error_rate``, for any filter.

    One key more does not fit.  ``size_for`` gives the bits of such a filter from keys and rate.
    O(log n) sizes.

    >>> keys_that_fit(single_hash_bits_for, 99_500, 0.01)
    1000
    """
    check_arguments(error_rate=error_rate)
    high = 1
    while size_for(high, error_rate) <= bit_count:
        high *= 2

    def is_too_many(keys: int) -> bool:
        return size_for(keys, error_rate) > bit_count

    return bisect_left(range(1, high), True, key=is_too_many)


def rate_that_fits(size_for: SizeFor, bit_count: int, key_count: int) -> float:
    """The lowest rate of ``key_count`` keys in ``bit_count`` bits, for any filter.

    Right to six digits, and never too low; 1.0 when no rate from 2^-60 to 1 fits.  Some tens of sizes.
    """
    check_arguments(key_count)
    low, high = 0.0, 60.0  # log2(1/p)
    if size_for(key_count, 2.0**-high) <= bit_count:
        return float(2.0**-high)
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        if size_for(key_count, 2.0**-middle) <= bit_count:
            low = middle
        else:
            high = middle
    return float(2.0**-low)


# Several filters, several keys


def either_rate(*rates: float) -> float:
    """The rate of asking several independent filters: 1 - product of (1 - p)."""
    if max(rates, default=0.0) >= 1.0:
        return 1.0
    return -math.expm1(math.fsum([math.log1p(-rate) for rate in rates]))


def each_rate(error_rate: float, count: int) -> float:
    """The rate that each of ``count`` filters needs for ``error_rate`` together."""
    check_arguments(error_rate=error_rate)
    return -math.expm1(math.log1p(-error_rate) / count)


def hit_rate(chance: float, throws: int) -> float:
    """The chance that one of ``throws`` hits: 1 - (1 - chance)^throws, without cancellation."""
    if throws <= 0:
        return 0.0
    return 1.0 if chance >= 1.0 else -math.expm1(throws * math.log1p(-chance))
