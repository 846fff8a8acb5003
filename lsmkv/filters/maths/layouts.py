"""Sizes and rates of filters made of lines, buckets or segments.

Letters are those of :mod:`lsmkv.filters.maths.sizing`, and *f* is the number of bits of a
fingerprint.  Every rate is exact for independent, uniform hashes.

Sources: F. Putze, P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters", WEA
2007; B. Fan et al., "Cuckoo filter: practically better than Bloom", CoNEXT 2014; T. M. Graf,
D. Lemire, "Binary fuse filters: fast and smaller than xor filters", ACM Journal of Experimental
Algorithmics 27, 2022; M. Costa, P. Ferragina, G. Vinciguerra, "Grafite: taming adversarial queries with
optimal range filters", SIGMOD 2024.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Final

from lsmkv.filters.maths.rates import hit_rate
from lsmkv.filters.maths.sizing import MAX_PROBES, bits_for, check_arguments, exact_rate

LINE_BITS: Final = 512  # of a cache line
LINE_BYTES: Final = LINE_BITS // 8
CUCKOO_SLOTS: Final = 4  # fingerprints in a bucket
MAX_CUCKOO_FINGERPRINT_BITS: Final = 31
FUSE_WIDTHS: Final = (8, 16)  # bits that a fingerprint can have
MAX_FUSE_SEGMENT: Final = 1 << 18  # cells

MAX_RIBBON_COLUMNS: Final = 31  # most columns of a ribbon filter
GRANULE_KEYS: Final = 256
"""Keys that differ in their last byte alone; a Grafite filter has at least so many codes."""

MAX_GRAFITE_LOW_BITS: Final = 31
MAX_GRAFITE_CODES: Final = (1 << 31) - 1

_SMALL_FUSE_KEYS: Final = 64
_MANY_RIBBON_KEYS: Final = 3000
_NEGLIGIBLE: Final = 1e-18  # smaller terms of a sum of chances are left out
# So many probes on average set every bit of a line: the rate is 1 to the last place.
_FULL_LINE_PROBES: Final = 1 << 15


# Cache-line blocked


@lru_cache(maxsize=4096)
def blocked_rate(line_count: int, key_count: int, probe_count: int) -> float:
    """The rate of a Bloom filter made of cache lines.

    The mean of a line's exact rate over the number of keys that fall into it, which is binomial
    (Putze et al. 2007), without terms below 1e-18.  1.0 when there is no line.
    O(sqrt(n/lines)) exact rates, memoised.
    """
    if line_count < 1 or probe_count < 1:
        return 1.0
    if line_count == 1:
        return exact_rate(LINE_BITS, key_count, probe_count)
    if key_count == 0:
        return 0.0
    if key_count * probe_count > line_count * _FULL_LINE_PROBES:
        return 1.0
    share = 1.0 / line_count
    mode = int((key_count + 1) * share)
    total = 0.0
    for step in (1, -1):
        keys = mode if step == 1 else mode - 1
        while 0 <= keys <= key_count:
            chance = _binomial(key_count, keys, share)
            if chance < _NEGLIGIBLE:
                break
            total += chance * exact_rate(LINE_BITS, keys, probe_count)
            keys += step
    return min(1.0, total)


@lru_cache(maxsize=4096)
def blocked_probes_for(line_count: int, key_count: int) -> int:
    """The k with the lowest :func:`blocked_rate`, at most a Bloom filter's; memoised."""
    if line_count < 1 or key_count < 1:
        return 1
    best = min(max(1, math.ceil(line_count * LINE_BITS / key_count * math.log(2.0))), MAX_PROBES)
    while best > 1 and blocked_rate(line_count, key_count, best - 1) <= blocked_rate(
        line_count, key_count, best
    ):
        best -= 1
    return best


@lru_cache(maxsize=4096)
def blocked_lines_for(key_count: int, error_rate: float) -> int:
    """The fewest cache lines with at most ``error_rate``, for the best k.

    Memoised; the first time it takes some tens of rates.

    >>> blocked_lines_for(30, 0.01), blocked_lines_for(10_000, 0.01)
    (1, 194)
    """
    check_arguments(key_count, error_rate)

    def are_enough(lines: int) -> bool:
        probes = blocked_probes_for(lines, key_count)
        return blocked_rate(lines, key_count, probes) <= error_rate

    # A Bloom filter's are too few, or just enough.
    low = high = max(1, bits_for(key_count, error_rate) // LINE_BITS)
    while not are_enough(high):
        low, high = high + 1, high + max(1, high // 4)
    return low + bisect_left(range(low, high), True, key=are_enough)


def blocked_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a blocked Bloom filter with :func:`blocked_lines_for` its keys."""
    return blocked_lines_for(key_count, error_rate) * LINE_BITS


# Cuckoo


def cuckoo_rate(fingerprint_bits: int, bucket_count: int, key_count: int) -> float:
    """The rate of a cuckoo filter with buckets of four.

    An absent key passes when some stored key has its fingerprint, one of 2^f - 1, and its pair of
    buckets: the chance is 2/B for a pair, and 1/B for the 1/B of keys whose two buckets are the same.
    Below the bound 1 - (1 - 2^-f)^(2*4) of Fan et al. 2014 unless the filter is full.
    """
    if bucket_count < 1:
        return 1.0
    same = 1.0 / bucket_count
    fingerprint = 1.0 / (2.0**fingerprint_bits - 1.0)
    both = min(1.0, 2.0 * same)
    apart = hit_rate(both * fingerprint, key_count)
    return (1.0 - same) * apart + same * hit_rate(same * fingerprint, key_count)


def cuckoo_buckets_for(key_count: int) -> int:
    """The buckets in which ``key_count`` keys most likely find room.

    n/0.95 slots (Fan et al. 2014 fill 95 %), and sqrt(n) more, an allowance found by trial.  Of sets of
    some ten keys, one in a few hundred still does not fit; of hundreds, every set that was tried did.

    >>> cuckoo_buckets_for(30), cuckoo_buckets_for(100_000)
    (10, 26395)
    """
    check_arguments(key_count)
    slots = key_count / 0.95 + math.sqrt(key_count)
    return max(1, math.ceil(slots / CUCKOO_SLOTS))


def cuckoo_fingerprint_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a cuckoo filter's fingerprint: about log2(2*4/p), rounded up.

    The least f with at most ``error_rate`` in :func:`cuckoo_buckets_for` buckets; 31 if none is enough.
    Below 6 bits, which rates above 0.1 may get, a key has too few other buckets to go to: ten thousand
    keys no longer fill 95 % of the slots.

    >>> cuckoo_fingerprint_bits_for(100_000, 0.01)
    10
    """
    check_arguments(key_count, error_rate)
    buckets, widths = cuckoo_buckets_for(key_count), range(1, MAX_CUCKOO_FINGERPRINT_BITS)
    fitting = (bits for bits in widths if cuckoo_rate(bits, buckets, key_count) <= error_rate)
    return next(fitting, MAX_CUCKOO_FINGERPRINT_BITS)


def cuckoo_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a cuckoo filter with :func:`cuckoo_buckets_for` its keys."""
    slots = cuckoo_buckets_for(key_count) * CUCKOO_SLOTS
    return slots * cuckoo_fingerprint_bits_for(key_count, error_rate)


# Binary fuse


def fuse_rate(fingerprint_bits: int) -> float:
    """The rate of a binary fuse filter: 2^-f, whatever the number of keys."""
    return 2.0**-fingerprint_bits


def fuse_fingerprint_bits_for(error_rate: float) -> int:
    """8 bits where these are enough for ``error_rate``, else 16."""
    check_arguments(error_rate=error_rate)
    narrow, wide = FUSE_WIDTHS
    return narrow if fuse_rate(narrow) <= error_rate else wide


def fuse_shape(key_count: int) -> tuple[int, int]:
    """The cells of a segment, and the number of segments.

    The formulas of Graf and Lemire 2022 for three probes: segments of
    2^floor(ln n / ln 3.33 + 2.25) cells, and n max(1.125, 0.875 + 0.25 ln 10^6 / ln n) cells in
    all, rounded up to whole segments.  For few keys that rounding adds a third of the cells, so
    segments are halved here where that saves some.

    >>> fuse_shape(30), fuse_shape(1_000_000)
    ((16, 4), (8192, 138))
    """
    check_arguments(key_count)
    logarithm = math.log(max(key_count, 2))
    length = min(MAX_FUSE_SEGMENT, 1 << math.floor(logarithm / math.log(3.33) + 2.25))
    cells = round(key_count * max(1.125, 0.875 + 0.25 * math.log(1e6) / logarithm))
    segments = max(3, -(-cells // length))
    halves = max(3, -(-cells // (length // 2)))
    if halves * (length // 2) < segments * length and key_count < _SMALL_FUSE_KEYS:
        return length // 2, halves
    return length, segments


def fuse_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a binary fuse filter, without its header."""
    length, segments = fuse_shape(key_count)
    return length * segments * fuse_fingerprint_bits_for(error_rate)


# Ribbon


def ribbon_rate(columns: int) -> float:
    """The rate of a ribbon filter: 2^-r for r columns, whatever the number of keys.  O(1)."""
    return 2.0**-columns


def ribbon_columns_for(error_rate: float) -> int:
    """The fewest columns with ``error_rate`` or less; 31 if none have.  O(1).

    >>> ribbon_columns_for(0.01), ribbon_columns_for(0.001)
    (7, 10)
    """
    check_arguments(error_rate=error_rate)
    return min(max(1, math.ceil(-math.log2(error_rate))), MAX_RIBBON_COLUMNS)


@lru_cache(maxsize=4096)
def ribbon_share(error_rate: float) -> float:
    """The share of filters with one column fewer, for a mean rate.

    One column fewer doubles a filter's rate: p = (1 - x) 2^-r + x 2^(1-r), where r is
    :func:`ribbon_columns_for`.  Memoised.

    >>> ribbon_share(2.0**-7), round(ribbon_share(0.01), 6)
    (0.0, 0.28)
    """
    columns = ribbon_columns_for(error_rate)
    return max(0.0, error_rate / ribbon_rate(columns) - 1.0)


@lru_cache(maxsize=4096)
def ribbon_slots_for(key_count: int) -> int:
    """The slots that most sets of keys need at most.  Memoised.

    n + 2, or n/40 more; from 3,000 keys on a growing part, since a window of 56 then leaves holes
    in a longer and longer band.  The parts were found by trial
    (``tests/filters/test_ribbon.py``).

    >>> ribbon_slots_for(30), ribbon_slots_for(300), ribbon_slots_for(100_000)
    (32, 308, 107559)
    """
    check_arguments(key_count)
    spare = key_count / 40
    if key_count > _MANY_RIBBON_KEYS:
        spare *= 1.0 + 0.4 * math.log2(key_count / _MANY_RIBBON_KEYS)
    return key_count + max(2, math.ceil(spare))


def ribbon_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a ribbon filter with :func:`ribbon_slots_for` its keys.

    >>> ribbon_bits_for(30, 0.01), ribbon_bits_for(300, 0.01)
    (224, 2160)
    """
    if key_count == 0:
        return 0
    return -(-ribbon_slots_for(key_count) * ribbon_columns_for(error_rate) // 8) * 8


# Grafite


@lru_cache(maxsize=4096)
def grafite_shape(key_count: int, error_rate: float) -> tuple[int, int]:
    """A code's low bits, and the bytes of a Grafite filter.  Memoised.

    n keys need n/p codes, but at least 256 and at most 2^31.  A code has floor(log2(codes/n)) low bits:
    so the codes take the fewest bits in Elias-Fano, about log2(codes/n) + 2 for each key.

    >>> grafite_shape(30, 0.01), grafite_shape(300, 0.01), grafite_shape(3, 0.5)
    ((6, 35), (6, 325), (6, 6))
    """
    check_arguments(key_count, error_rate)
    codes = max(GRANULE_KEYS, math.ceil(min(key_count / error_rate, MAX_GRAFITE_CODES)))
    low_bits = max(0, (codes // max(1, key_count)).bit_length() - 1)
    bits = key_count * (low_bits + 1) + -(-codes >> low_bits)
    return low_bits, grafite_header_bytes(key_count) + -(-bits // 8)


def grafite_header_bytes(key_count: int) -> int:
    """The bytes of a Grafite filter before its codes: n, and the length of a key."""
    return max(1, -(-key_count.bit_length() // 7)) + 1


def grafite_codes(byte_count: int, key_count: int, low_bits: int) -> int:
    """The codes of a filter; 0 for no filter.  Bits that rounding left over give it more."""
    if byte_count == 0:
        return 0
    bits = 8 * (byte_count - grafite_header_bytes(key_count))
    return min((bits - key_count * (low_bits + 1)) << low_bits, MAX_GRAFITE_CODES)


def grafite_rate(byte_count: int, key_count: int, low_bits: int) -> float:
    """The rate of a Grafite filter for keys alone: 1 - (1 - 1/codes)^n; 1.0 for no filter."""
    codes = grafite_codes(byte_count, key_count, low_bits)
    return hit_rate(1.0 / codes, key_count) if codes > 0 else 1.0


def grafite_range_rate(byte_count: int, key_count: int, low_bits: int, length: int) -> float:
    """The bound for an empty range of ``length`` keys: length * n/codes, at most 1."""
    codes = grafite_codes(byte_count, key_count, low_bits)
    return min(1.0, length * key_count / codes) if codes > 0 else 1.0


def grafite_bits_for(key_count: int, error_rate: float) -> int:
    """The bits of a Grafite filter with its header."""
    return 8 * grafite_shape(key_count, error_rate)[1] if key_count else 0


def _binomial(n: int, successes: int, chance: float) -> float:
    """The chance of ``successes`` in n trials, 0 < chance < 1."""
    return math.exp(
        math.lgamma(n + 1)
        - math.lgamma(successes + 1)
        - math.lgamma(n - successes + 1)
        + successes * math.log(chance)
        + (n - successes) * math.log1p(-chance)
    )
