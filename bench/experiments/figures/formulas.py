"""Formulas that documents have wrong, beside the right ones, and what the difference comes to.

Letters: N keys, M bits, k probes, p the false-positive rate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Final

from lsmkv import filters
from lsmkv.filters.policy import policy_named

from .figure import Figure, percent

KEYS: Final = 1000
RATE: Final = 0.01
PROBES: Final = 7


def formulas() -> Iterator[Figure]:
    """Each with N = 1,000 and p = 1 % (ceil and round: 10 %)."""
    bits = filters.bits_for(KEYS, RATE)
    yield _probes(bits)
    yield _single_hash()
    yield _partitioned()
    yield _rate(bits)
    yield _rounding()
    yield _most_compact()


def _probes(bits: int) -> Figure:
    wrong, right = math.log(1 / RATE), math.log2(1 / RATE)
    rates = [percent(filters.exact_rate(bits, KEYS, round(k))) for k in (wrong, right)]
    return (
        f"k for p = 1 %, and the rate of {bits} bits with it",
        f"k = ln(1/p) = {wrong:.2f}: {rates[0]}",
        f"k = log2(1/p) = {right:.2f}: {rates[1]}",
    )


def _single_hash() -> Figure:
    wrong = 1 / (1 - RATE ** (1 / KEYS))
    right = filters.single_hash_bits_for(KEYS, RATE)
    rates = [percent(filters.single_hash_rate(round(m), KEYS)) for m in (wrong, right)]
    return (
        "bits of one hash, and the rate that they have",
        f"M = 1 / (1 - p^(1/N)) = {wrong:,.0f}: {rates[0]}",
        f"M = 1 / (1 - (1 - p)^(1/N)) = {right:,}: {rates[1]}",
    )


def _partitioned() -> Figure:
    wrong = PROBES * math.sqrt(RATE)
    right = filters.partitioned_bits_roughly(KEYS, RATE, PROBES)
    exact = filters.partitioned_bits_for(KEYS, RATE, PROBES)
    return (
        f"bits of k = {PROBES} arrays, p = 1 %",
        f"M = k sqrt p = {wrong:.1f}",
        f"M ~ k N / p^(1/k) = {right:,.0f} (exact: {exact:,})",
    )


def _rate(bits: int) -> Figure:
    keys_first = (1 - math.exp(KEYS * PROBES / bits)) ** PROBES
    exponent = math.log10(math.expm1(bits * PROBES / KEYS)) * PROBES  # of the absolute value
    right = filters.classic_rate(bits, KEYS, PROBES)
    return (
        f"p of {bits} bits, k = {PROBES}",
        f"(1 - e^(mk/n))^k = {keys_first:.2f} for m = N, n = M; -10^{exponent:.0f} for m = M, n = N",
        f"(1 - e^(-kN/M))^k = {percent(right)}",
    )


def _most_compact() -> Figure:
    classic = 8 * filters.filter_bytes_for(KEYS, RATE) / KEYS
    draw = random.Random("ribbon")
    bits, parameter = policy_named("ribbon").build(
        [draw.getrandbits(63) for _ in range(KEYS)], RATE
    )
    rate = policy_named("ribbon").exact_rate(len(bits), KEYS, parameter)
    return (
        "the most compact structure at p = 1 %",
        f"the classic Bloom filter: {classic:.2f} bits per key",
        f"a ribbon filter: {8 * len(bits) / KEYS:.2f} bits per key, p = {percent(rate)}; no filter can "
        f"be below {math.log2(1 / RATE):.2f}",
    )


def _rounding() -> Figure:
    bits = filters.bits_for(KEYS, 0.1)
    best = bits / KEYS * math.log(2)
    up, nearest = math.ceil(best), round(best)
    rates = [percent(filters.exact_rate(bits, KEYS, k)) for k in (up, nearest)]
    chosen = filters.probes_for(bits, KEYS)
    return (
        f"k of {bits} bits, p = 10 %, best k = {best:.2f}",
        f"k = ceil(M/N ln 2) = {up}: {rates[0]}",
        f"k = round(M/N ln 2) = {nearest}: {rates[1]}; the lowest exact rate has k = {chosen}",
    )
