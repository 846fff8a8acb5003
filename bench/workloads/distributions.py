"""The request distributions of YCSB, drawn in bulk.

The zipfian one is that of Gray et al., "Quickly generating billion-record synthetic databases"
(SIGMOD 1994), as YCSB (Cooper et al., SoCC 2010) uses it: rank i, counted from 1, of n has the
probability 1 / (i^theta * zeta(n, theta)).  The method is exact for ranks 1 and 2, and takes the
others from an integral instead of the sum.  So with theta = 0.99 and n from a thousand to ten
million, rank 3 comes 17 to 20 % too often, rank 10 2 to 4 % too often, the last ranks come 1 to 4 %
too seldom, and in all 1.0 to 1.6 % of the draws go to another rank than the law demands.
``tests/bench/test_bench_distributions.py`` holds these figures.

Every function takes a :class:`numpy.random.Generator` (see :func:`generator`).  With theta = 0.99
the numbers are the same on every platform: beside IEEE's exact operations there are only powers
whose last bits are rounded away before they matter.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

Numbers = NDArray[numpy.int64]
Reals = NDArray[numpy.float64]

ZIPFIAN_CONSTANT: Final = 0.99
SCRAMBLED_ITEMS: Final = 10**10
SCRAMBLED_ZETA: Final = 26.46902820178302
"""zeta(10^10, 0.99), as YCSB's source has it.  (YCSB's item count beside it later became 10^16,
which does not belong to that sum; the ten billion do.)"""

_FNV_OFFSET: Final = numpy.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = numpy.uint64(0x100000001B3)
_ZETA_CHUNK: Final = 1 << 20
_ETA_DECIMALS: Final = 12


def generator(*parts: object) -> Generator:
    """A generator for a seed and names of its use.

    >>> generator(1970, "C").random() == generator(1970, "C").random()
    True
    """
    text = "/".join(map(str, parts))
    return Generator(PCG64(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")))


def zeta(
    items: int, theta: float = ZIPFIAN_CONSTANT, *, known_items: int = 0, known: float = 0.0
) -> float:
    """The sum of 1 / i^theta for i from 1 to ``items``.  O(items - known_items).

    ``known`` is the sum of the first ``known_items``.

    >>> zeta(3, 0.5) == 1 + 2**-0.5 + 3**-0.5
    True
    """
    total = known
    for first in range(known_items, items, _ZETA_CHUNK):
        terms = _powers(first, min(first + _ZETA_CHUNK, items), theta)
        total = math.fsum((total, *terms.tolist()))
    return total


@dataclass(frozen=True, slots=True)
class Zipfian:
    """Ranks 0 to items - 1, the first the most popular; :meth:`over` computes ``zeta``."""

    items: int
    theta: float
    zeta: float

    @classmethod
    def over(cls, items: int, theta: float = ZIPFIAN_CONSTANT) -> Zipfian:
        """The distribution over ``items`` ranks.  O(items)."""
        if items < 1:
            raise ValueError(f"items={items}: must be at least 1")
        if not 0.0 < theta < 1.0:
            raise ValueError(f"theta={theta}: must lie between 0 and 1, both excluded")
        return cls(items, theta, zeta(items, theta))

    def probability(self, rank: int) -> float:
        """The law's probability of a rank, counted from 0."""
        return 1.0 / (math.pow(rank + 1, self.theta) * self.zeta)

    def ranks(self, count: int, draw: Generator) -> Numbers:
        return _gray(draw.random(count), self.items, self.zeta, self.theta)


def fnv64(numbers: Numbers) -> NDArray[numpy.uint64]:
    """YCSB's hash of a number: 64-bit FNV-1a of its 8 bytes, lowest first, without the sign.

    >>> fnv64(numpy.arange(2)).tolist()
    [6284781860667377211, 8517097267634966620]
    """
    rest = numbers.astype(numpy.uint64)
    hashed = numpy.full(rest.shape, _FNV_OFFSET)
    for _ in range(8):
        hashed = (hashed ^ (rest & numpy.uint64(0xFF))) * _FNV_PRIME
        rest = rest >> numpy.uint64(8)
    return numpy.abs(hashed.view(numpy.int64)).view(numpy.uint64)


def scrambled(keyspace: int, count: int, draw: Generator) -> Numbers:
    """``count`` numbers, with popular ones spread all over, as in YCSB: hashed ranks of ten billion."""
    ranks = Zipfian(SCRAMBLED_ITEMS, ZIPFIAN_CONSTANT, SCRAMBLED_ZETA).ranks(count, draw)
    numbers: Numbers = (fnv64(ranks) % numpy.uint64(keyspace)).astype(numpy.int64)
    return numbers


def scrambled_present(present: Numbers, keyspace: int, draw: Generator) -> Numbers:
    """As :func:`scrambled`, each below the same draw's of ``present``; others are drawn again."""
    numbers = scrambled(keyspace, len(present), draw)
    wrong = numpy.flatnonzero(numbers >= present)
    while len(wrong):
        numbers[wrong] = scrambled(keyspace, len(wrong), draw)
        wrong = wrong[numbers[wrong] >= present[wrong]]
    return numbers


def latest(present: Numbers, draw: Generator) -> Numbers:
    """Numbers skewed towards the newest of ``present``, as YCSB's, but with an eta that grows."""
    if not len(present):
        return present.copy()
    least, most = int(present[0]), int(present[-1])
    base = zeta(least, ZIPFIAN_CONSTANT)
    sums = base + numpy.concatenate(([0.0], numpy.cumsum(_powers(least, most, ZIPFIAN_CONSTANT))))
    ranks = _gray(draw.random(len(present)), present, sums[present - least], ZIPFIAN_CONSTANT)
    numbers: Numbers = present - 1 - ranks
    return numbers


def exact_ranks(items: int, exponent: float, count: int, draw: Generator) -> Numbers:
    """``count`` ranks below ``items`` by a Zipf law of any exponent; 0: all equally likely.

    Rank i, counted from 0, has a probability in proportion to (i + 1)^-exponent.  O(items + count log
    items), where Gray's method needs no sums and an exponent below 1.

    >>> bool(exact_ranks(1000, 1.0, 5, generator(1970)).max() < 1000)
    True
    """
    law = numpy.cumsum(_powers(0, items, exponent))
    ranks: Numbers = numpy.searchsorted(law / law[-1], draw.random(count))
    return numpy.minimum(ranks, items - 1)


def uniform(items: int, count: int, draw: Generator) -> Numbers:
    """``count`` numbers from 0 to items - 1, all equally likely."""
    return draw.integers(0, items, count, dtype=numpy.int64)


def scan_lengths(longest: int, count: int, draw: Generator) -> Numbers:
    """``count`` lengths from 1 to ``longest``, all equally likely."""
    return draw.integers(1, longest, count, dtype=numpy.int64, endpoint=True)


def _powers(first: int, last: int, theta: float) -> Reals:
    """1 / i^theta for first < i <= last."""
    return numpy.arange(first + 1, last + 1, dtype=numpy.float64) ** -theta


def _gray(drawn: Reals, items: Any, sums: Any, theta: float) -> Numbers:
    """Gray's method: a rank for each uniform number, by products that are the same everywhere."""
    zeta_of_two = 1.0 + 0.5**theta
    spread = numpy.where(numpy.asarray(items) > 2, 1.0 - zeta_of_two / sums, 1.0)
    eta = numpy.round((1.0 - (2.0 / items) ** (1.0 - theta)) / spread, _ETA_DECIMALS)
    places = items * _power(eta * drawn - eta + 1.0, 1.0 / (1.0 - theta))
    # The last bit of a draw can reach n, which is one too many.
    ranks: Numbers = numpy.minimum(places.astype(numpy.int64), numpy.asarray(items) - 1)
    scaled = drawn * sums
    ranks[scaled < zeta_of_two] = 1
    ranks[scaled < 1.0] = 0
    return ranks


def _power(base: Reals, exponent: float) -> Reals:
    """``base ** exponent``, by multiplications where the exponent is whole."""
    whole = round(exponent)
    if abs(exponent - whole) > 1e-9:
        return base**exponent
    result = numpy.ones_like(base)
    while whole:
        if whole & 1:
            result = result * base
        base = base * base
        whole >>= 1
    return result
