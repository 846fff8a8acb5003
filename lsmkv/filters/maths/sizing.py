"""Size, number of probes and error rate of a Bloom filter: the maths alone.

Throughout, *m* is a filter's size in bits (``bit_count``), *n* the number of distinct keys in it
(``key_count``), *k* the number of probes per key (``probe_count``) and *p* its false-positive rate
(``error_rate``): the chance that an absent key passes.  The maths assumes that a probe hits each bit
with the same chance, whatever the other probes hit.  Sizes are 0 for a rate of 1 and above.

Sources: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13(7),
1970; P. Bose et al., "On the false-positive rate of Bloom filters", Information Processing Letters
108(4), 2008; L. Carter et al., "Exact and approximate membership testers", STOC 1978.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Final

MAX_PROBES: Final = 30  # most probes per key that probes_for asks for
_LN2: Final = math.log(2.0)
_GUARD_BITS: Final = 64  # exact_rate's relative error is at most 2**-64 before its last rounding


def bits_for(key_count: int, error_rate: float) -> int:
    """The bits that ``key_count`` keys need: ceil(-n ln p / (ln 2)^2).

    The classic size (Bloom 1970), for the best real-valued k.

    >>> bits_for(1000, 0.01)
    9586
    """
    _check_counts(key_count=key_count)
    _check_rate(error_rate)
    if error_rate >= 1.0:
        return 0
    return math.ceil(-key_count * math.log(error_rate) / (_LN2 * _LN2))


def filter_bytes_for(key_count: int, error_rate: float) -> int:
    """:func:`bits_for` in bytes, rounded up."""
    return (bits_for(key_count, error_rate) + 7) // 8


def keys_for(bit_count: int, error_rate: float) -> int:
    """The most keys that ``bit_count`` bits hold: the inverse of :func:`bits_for`."""
    _check_counts(bit_count=bit_count)
    _check_rate(error_rate)
    if error_rate >= 1.0:
        raise ValueError(
            f"error_rate={error_rate!r}: any number of keys fits; give a rate between 0 and 1"
        )
    keys = int(bit_count * _LN2 * _LN2 / -math.log(error_rate))
    while bits_for(keys, error_rate) > bit_count:  # rounding can miss by one, either way
        keys -= 1
    while bits_for(keys + 1, error_rate) <= bit_count:
        keys += 1
    return keys


def lower_bound_bits(key_count: int, error_rate: float) -> float:
    """The bits that a filter of any kind needs: n log2(1/p) (Carter et al. 1978)."""
    _check_counts(key_count=key_count)
    _check_rate(error_rate)
    if error_rate >= 1.0:
        return 0.0
    return -key_count * math.log2(error_rate)


def classic_rate(bit_count: int, key_count: int, probe_count: int) -> float:
    """The textbook false-positive rate, (1 - e^(-kn/m))^k (Bloom 1970).

    Never above :func:`exact_rate`, and too low for small filters: at 10 bits per key the exact rate is
    3 % higher for 30 keys and 9 % for 10.
    """
    _check_counts(bit_count=bit_count, key_count=key_count, probe_count=probe_count)
    if bit_count == 0 or probe_count == 0:
        return 1.0
    # A plain division of integers: none of them is rounded first, however large.
    fill = -math.expm1(-(probe_count * key_count) / bit_count)
    return float(fill**probe_count)


@lru_cache(maxsize=4096)
def exact_rate(bit_count: int, key_count: int, probe_count: int) -> float:
    """The true false-positive rate: E[(X/m)^k], X the distinct bits set by kn throws into m bits.

    Bose et al. 2008 give it as an alternating sum, which cancels in floating point.  Here the k
    probes of an absent key are split by how many distinct bits d they fall on:

        p = sum over d of  S(k, d) m(m-1)...(m-d+1) / m^k  *  F(d)

    with S the Stirling numbers of the second kind and F(d) the chance that d given bits are all
    set: the d-th difference of (1 - j/m)^(kn), j = 0..d.  Weights and sum are exact integers; F is
    fixed-point, with as many bits as keep the relative error of p below 2^-64.  So the answer is right
    to the last place of a float, and 0.0 where it underflows.

    1.0 without bits or probes, which reject nothing; else 0.0 without keys.

    O(k log(kn) + k^2) multiplications of integers, memoised: tens of microseconds for k up to 13.

    >>> exact_rate(2, 1, 2)  # one bit set or both, by even chances: (1/4 + 1)/2
    0.625
    """
    _check_counts(bit_count=bit_count, key_count=key_count, probe_count=probe_count)
    if bit_count == 0 or probe_count == 0:
        return 1.0
    if key_count == 0:
        return 0.0
    throws = probe_count * key_count
    # Let u be one unit of the fixed point.  _power errs by less than 2 kn u, a d-th difference of
    # powers by 2^d times that, and their weighted mean by less than 2^(k+1) kn u.  The rate is at
    # least (E[X]/m)^k (Jensen) and so at least (kn/(kn + m))^k, as 1 - e^-x >= x/(1 + x).
    precision = (
        _GUARD_BITS
        + (probe_count + 1)
        + throws.bit_length()
        + probe_count * ((throws + bit_count) // throws).bit_length()
    )
    most = min(probe_count, bit_count)
    differences = [_power(bit_count - j, bit_count, throws, precision) for j in range(most + 1)]
    stirling = _stirling_row(probe_count)
    total = 0
    arrangements = 1  # m(m-1)...(m-d+1)
    for d in range(1, most + 1):
        differences = [a - b for a, b in pairwise(differences)]
        arrangements *= bit_count - d + 1
        total += stirling[d] * arrangements * differences[0]
    outcomes: int = bit_count**probe_count
    return min(1.0, total / (outcomes << precision))


@lru_cache(maxsize=4096)
def probes_for(bit_count: int, key_count: int) -> int:
    """The k, 1 to :data:`MAX_PROBES`, with the lowest :func:`exact_rate`; memoised.

    Near (m/n) ln 2, and a little below it for few keys; of equals the fewest.  1 for a filter without
    keys or bits.

    >>> probes_for(300, 30), probes_for(10, 1), probes_for(10_000_000, 1_000_000)
    (7, 5, 7)
    """
    _check_counts(bit_count=bit_count, key_count=key_count)
    if bit_count == 0 or key_count == 0:
        return 1
    # In every case tried (not proven) the optimum lies at or below the ceiling of the classic one,
    # and going down from there the rate falls until it rises.
    best = min(math.ceil(bit_count / key_count * _LN2), MAX_PROBES)
    while best > 1 and exact_rate(bit_count, key_count, best - 1) <= exact_rate(
        bit_count, key_count, best
    ):
        best -= 1
    return best


def rate_for(bit_count: int, key_count: int) -> float:
    """:func:`exact_rate` with the best number of probes."""
    return exact_rate(bit_count, key_count, probes_for(bit_count, key_count))


def _power(numerator: int, denominator: int, exponent: int, precision: int) -> int:
    """(numerator/denominator)^exponent, of 0..1, in units of 2^-precision; too low by 2 * exponent."""
    base = (numerator << precision) // denominator
    result = base
    for bit in bin(exponent)[3:]:
        result = (result * result) >> precision
        if bit == "1":
            result = (result * base) >> precision
    return result


@lru_cache(maxsize=256)
def _stirling_row(k: int) -> list[int]:
    """S(k, 0..k): the number of ways to split k things into d non-empty sets, by d."""
    row = [1]
    for _ in range(k):
        row = [0, *(d * row[d] + row[d - 1] for d in range(1, len(row))), 1]
    return row


def check_arguments(key_count: int = 0, error_rate: float = 0.5) -> None:
    """Refuse a negative count, and a rate outside 0 to 1."""
    _check_counts(key_count=key_count)
    if not 0.0 < error_rate < 1.0:
        raise ValueError(f"error_rate={error_rate!r}: must lie between 0 and 1, both excluded")


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name}={count!r}: must be 0 or more")


def _check_rate(error_rate: float) -> None:
    if not error_rate > 0.0:  # NaN too
        raise ValueError(f"error_rate={error_rate!r}: must be above 0, for example 0.01")
