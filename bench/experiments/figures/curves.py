"""The curves that documents draw, each with points that real filters gave.

Points are counted from the seeds written here, and are the same in every run.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from scipy import stats

from bench.harness.intervals import CONFIDENCE, rate_interval
from lsmkv import filters
from lsmkv.filters import BloomFilter, FingerprintFilter, PartitionedBloomFilter, SingleHashFilter

FEWEST_HITS: Final = 20
"""Points with fewer expected false positives are left out."""

TOO_FAR: Final = 5.0
"""Standard errors from the theory that no right point reaches; the seeds are fixed."""

PROBES: Final = (1, 3, 7, 14)
FILL_BITS: Final = 2048
FILLS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
BITS_PER_KEY: Final = (5, 10, 15)
MOST_PROBES: Final = 16
KEYS: Final = 100
CAPACITY: Final = 1000
CROWDS: Final = (250, 500, 1000, 1500, 2000, 3000, 5000, 7000, 10_000)
RATE: Final = 0.01
SETTING_BITS: Final = (1000, 100_000)
SETTING_PROBES: Final = (1, 3, 7, 14)
SETTING_KEYS: Final = (50, 100, 200, 400, 700, 1000)
NUMBERS: Final = (10, 100, 1000, 10_000, 30_000)
_FILTERS: Final = 40
_ASKED: Final = 1000  # absent keys of each filter


@dataclass(frozen=True, slots=True)
class Point:
    """A measured value with its 95 % interval, beside the theory's."""

    x: float
    value: float
    low: float
    high: float
    theory: float
    error: float

    @property
    def is_right(self) -> bool:
        return abs(self.value - self.theory) <= TOO_FAR * self.error


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of theory, and measured points."""

    name: str
    theory: Callable[[float], float]
    points: Sequence[Point]


def misses() -> list[str]:
    """Points that are not where the theory has them."""
    return [
        f"{curve.name} at {point.x:g}: measured {point.value:g}, {point.theory:g} in theory"
        for curves in (
            rate_by_fill(),
            rate_by_probes(),
            fill_by_keys(),
            rate_by_keys(),
            *(fill_by_probes(bit_count) for bit_count in SETTING_BITS),
        )
        for curve in curves
        for point in curve.points
        if not point.is_right
    ] + [
        f"{curve.name} of {point.x:g} keys: {point.value:g} bits, {point.theory:g} in theory"
        for curve in bits_by_keys()
        for point in curve.points
        if not point.is_right
    ]


@cache
def rate_by_fill() -> list[Curve]:
    """Fill^k, by the share of bits that are set."""
    return [
        Curve(
            f"k = {probe_count}",
            lambda fill, k=probe_count: float(fill**k),  # type: ignore[misc]
            [
                _at_fill(probe_count, fill)
                for fill in FILLS
                if fill**probe_count * _FILTERS * _ASKED >= FEWEST_HITS
            ],
        )
        for probe_count in PROBES
    ]


def _at_fill(probe_count: int, fill: float) -> Point:
    """Filters are filled up to a share of their bits: then answers are independent."""
    draw = random.Random(f"{probe_count} probes, fill {fill}")
    passed, fills, rates = 0, [], []
    for _ in range(_FILTERS):
        built = BloomFilter(FILL_BITS // 8, probe_count)
        while (now := built.current_rate() ** (1.0 / probe_count)) < fill:
            built.add_hash(draw.getrandbits(63))
        fills.append(now)
        rates.append(built.current_rate())
        passed += _passed(built, draw)
    asked = _FILTERS * _ASKED
    theory = statistics.fmean(rates)
    low, high = rate_interval(passed, asked)
    error = math.sqrt(theory * (1.0 - theory) / asked)
    return Point(statistics.fmean(fills), passed / asked, low, high, theory, error)


@cache
def rate_by_probes() -> list[Curve]:
    """The rate by the number of probes, for some numbers of bits per key."""
    curves = []
    for bits_per_key in BITS_PER_KEY:
        bit_count = -(-bits_per_key * KEYS // 8) * 8

        def theory(probe_count: float, m: int = bit_count) -> float:
            return filters.exact_rate(m, KEYS, round(probe_count))

        points = [
            _of_filters(probe_count, bit_count // 8, probe_count, KEYS, _share_passed, theory)
            for probe_count in range(1, MOST_PROBES + 1)
            if theory(probe_count) * _FILTERS * _ASKED >= FEWEST_HITS
        ]
        curves.append(Curve(f"{bits_per_key} bits per key", theory, points))
    return curves


@cache
def fill_by_keys() -> list[Curve]:
    """The share of bits set, by keys, in a filter for 1,000 keys at 1 %."""
    shape = BloomFilter.for_keys(CAPACITY, RATE)

    def theory(keys: float) -> float:
        return -math.expm1(shape.probe_count * keys * math.log1p(-1.0 / shape.bit_count))

    def share_set(built: BloomFilter, _: random.Random) -> float:
        return float(built.current_rate() ** (1.0 / built.probe_count))

    points = [
        _of_filters(keys, shape.byte_count, shape.probe_count, keys, share_set, theory, 10)
        for keys in CROWDS
    ]
    return [Curve("bits set", theory, points)]


@cache
def fill_by_probes(bit_count: int) -> list[Curve]:
    """The share of bits set, by keys up to 1,000, for some numbers of probes."""
    curves = []
    for probe_count in SETTING_PROBES:

        def theory(keys: float, k: int = probe_count) -> float:
            return -math.expm1(k * keys * math.log1p(-1.0 / bit_count))

        def share_set(built: BloomFilter, _: random.Random) -> float:
            return float(built.current_rate() ** (1.0 / built.probe_count))

        points = [
            _of_filters(
                keys, bit_count // 8, probe_count, keys, share_set, theory, 10, 1.0 / bit_count
            )
            for keys in SETTING_KEYS
        ]
        curves.append(Curve(f"k = {probe_count}", theory, points))
    return curves


@cache
def rate_by_keys() -> list[Curve]:
    """The false-positive rate of the same filter: beyond its capacity it is overfull."""
    shape = BloomFilter.for_keys(CAPACITY, RATE)

    def theory(keys: float) -> float:
        return shape.expected_rate(round(keys))

    points = [
        _of_filters(keys, shape.byte_count, shape.probe_count, keys, _share_passed, theory, 20)
        for keys in CROWDS
        if theory(keys) * 20 * _ASKED >= FEWEST_HITS
    ]
    return [Curve("false positives", theory, points)]


def _of_filters(
    x: float,
    byte_count: int,
    probe_count: int,
    key_count: int,
    value: Callable[[BloomFilter, random.Random], float],
    theory: Callable[[float], float],
    filter_count: int = _FILTERS,
    least_error: float = 0.0,
) -> Point:
    """The mean of a value over filters; the interval knows that filters differ (Student's t)."""
    draw = random.Random(f"{x}, {byte_count}, {probe_count}, {key_count}")
    values = []
    for _ in range(filter_count):
        built = BloomFilter(byte_count, probe_count)
        for _ in range(key_count):
            built.add_hash(draw.getrandbits(63))
        values.append(value(built, draw))
    mean = statistics.fmean(values)
    # Nearly full and nearly empty filters are all alike.
    error = max(least_error, statistics.stdev(values) / math.sqrt(filter_count))
    reach = float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, filter_count - 1)) * error
    return Point(x, mean, max(0.0, mean - reach), mean + reach, theory(x), error)


def _share_passed(built: BloomFilter, draw: random.Random) -> float:
    return _passed(built, draw) / _ASKED


def _passed(built: BloomFilter, draw: random.Random) -> int:
    """False positives among absent keys."""
    may_contain, bits = built.may_contain_hash, draw.getrandbits
    return sum([may_contain(bits(63)) for _ in range(_ASKED)])


@cache
def bits_by_keys() -> list[Curve]:
    """Sizes M(N) at 1 %, beside those of filters that were built; they differ by whole bytes."""
    kinds: list[tuple[str, Callable[[float], float], Callable[[int], Any]]] = [
        (
            "one hash: 1 / (1 - (1-p)^(1/N))",
            lambda n: filters.single_hash_bits_for(round(n), RATE),
            lambda n: SingleHashFilter.for_keys(n, RATE),
        ),
        (
            "sorted fingerprints: N log2(N/p)",
            lambda n: filters.sorted_bits_for(round(n), RATE),
            lambda n: FingerprintFilter.from_hashes(_hashes(n), RATE),
        ),
        (
            "k arrays: k / (1 - (1 - p^(1/k))^(1/N))",
            lambda n: min(filters.partitioned_bits_for(round(n), RATE, k) for k in range(1, 13)),
            lambda n: PartitionedBloomFilter.for_keys(n, RATE),
        ),
        (
            "Bloom: -N ln p / (ln 2)^2",
            lambda n: filters.bits_for(round(n), RATE),
            lambda n: BloomFilter.for_keys(n, RATE),
        ),
    ]
    found = []
    for name, theory, build in kinds:
        points = []
        for keys in NUMBERS:
            bits = 8 * build(keys).byte_count
            # Up to a byte more; fingerprints that are equal are stored once.
            error = max(8.0, 0.01 * bits) / TOO_FAR
            points.append(Point(keys, bits, bits, bits, theory(keys), error))
        found.append(Curve(name, theory, points))
    return found


def _hashes(count: int) -> list[int]:
    draw = random.Random(count)
    return [draw.getrandbits(63) for _ in range(count)]
