"""YCSB's request distributions against theory."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from bench.workloads import distributions
from bench.workloads.distributions import (
    SCRAMBLED_ITEMS,
    SCRAMBLED_ZETA,
    ZIPFIAN_CONSTANT,
    Zipfian,
    exact_ranks,
    fnv64,
    generator,
    zeta,
)

DRAWS = 200_000
thetas = st.floats(0.05, 0.995)


def gray_probabilities(distribution: Zipfian) -> NDArray[numpy.float64]:
    """Each rank's probability by Gray's method: the lengths of its intervals of u."""
    items, theta = distribution.items, distribution.theta
    eta = (1 - (2 / items) ** (1 - theta)) / (1 - (1 + 0.5**theta) / distribution.zeta)
    edges = ((numpy.arange(2, items + 1) / items) ** (1 - theta) - 1 + eta) / eta
    head = [1 / distribution.zeta, 0.5**theta / distribution.zeta]
    return numpy.concatenate((head, numpy.diff(edges)))


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.1, 2.0])
def test_exact_ranks_follow_the_law_of_any_exponent(exponent: float) -> None:
    ranks = exact_ranks(20, exponent, DRAWS, generator(1, exponent))
    law = numpy.arange(1, 21) ** -exponent
    counts = numpy.bincount(ranks, minlength=20)
    assert chisquare(counts, DRAWS * law / law.sum()).pvalue > 1e-4


@given(st.integers(1, 3000), thetas)
def test_zeta_is_the_direct_sum(items: int, theta: float) -> None:
    direct = math.fsum(1 / i**theta for i in range(1, items + 1))
    assert zeta(items, theta) == pytest.approx(direct, rel=1e-13)


def test_zeta_of_ten_billion_is_ycsbs_constant() -> None:
    # Euler and Maclaurin's formula, from a sum of the first million.
    near, far, theta = 10**6, SCRAMBLED_ITEMS, ZIPFIAN_CONSTANT
    integral = (far ** (1 - theta) - near ** (1 - theta)) / (1 - theta)
    tail = integral + (far**-theta - near**-theta) / 2
    tail -= theta * (far ** (-theta - 1) - near ** (-theta - 1)) / 12
    assert zeta(near) + tail == pytest.approx(SCRAMBLED_ZETA, rel=1e-9)


@pytest.mark.parametrize("theta", [0.0, 1.0, -0.5, 2.0])
def test_unsupported_skews_are_refused(theta: float) -> None:
    with pytest.raises(ValueError, match="theta="):
        Zipfian.over(10, theta)


@pytest.mark.parametrize(("items", "theta"), [(10, 0.99), (1000, 0.99), (1000, 0.5), (50, 0.7)])
def test_rank_frequencies_follow_grays_method(items: int, theta: float) -> None:
    distribution = Zipfian.over(items, theta)
    counts = numpy.bincount(distribution.ranks(DRAWS, generator(2, items)), minlength=items)
    expected = gray_probabilities(distribution) * DRAWS
    assert chisquare(counts, expected * (counts.sum() / expected.sum())).pvalue > 0.001


class Extremes:
    """A generator that draws only the least and the greatest number."""

    def random(self, count: int) -> NDArray[numpy.float64]:
        return numpy.array([0.0, 1 - 2.0**-53])


@pytest.mark.parametrize("items", [1, 2, 3, 1000, SCRAMBLED_ITEMS])
def test_the_largest_draw_gives_the_last_rank(items: int) -> None:
    total = SCRAMBLED_ZETA if items == SCRAMBLED_ITEMS else zeta(items)
    drawn = Zipfian(items, ZIPFIAN_CONSTANT, total).ranks(2, Extremes())  # type: ignore[arg-type]
    assert drawn[0] == 0
    assert items - 1 - drawn[1] <= items * 1e-9


def test_ranks_are_golden() -> None:
    expected = [21635, 2902, 0, 0, 27, 14, 5378, 1081, 324, 3468]
    assert Zipfian.over(1_000_000).ranks(10, generator(1970)).tolist() == expected


@given(st.integers(0, 2**62))
def test_hashes_are_fnv_1a_without_the_sign(number: int) -> None:
    hashed = 0xCBF29CE484222325
    for octet in number.to_bytes(8, "little"):
        hashed = (hashed ^ octet) * 0x100000001B3 % 2**64
    expected = 2**64 - hashed if hashed >= 2**63 else hashed
    assert fnv64(numpy.array([number])).tolist() == [expected]


def test_scrambled_numbers_are_golden() -> None:
    numbers = distributions.scrambled(1_000_000, 6, generator(1970))
    assert numbers.tolist() == [564491, 474688, 377211, 377211, 560908, 888440]


def test_latest_draws_the_newest_record_with_the_laws_first_probability() -> None:
    present = numpy.repeat(numpy.arange(1000, 2000), DRAWS // 1000)
    ages = present - 1 - distributions.latest(present, generator(6))
    for age in (0, 1):
        chances = numpy.array([Zipfian.over(n).probability(age) for n in range(1000, 2000)])
        expected = chances.mean() * DRAWS
        assert abs((ages == age).sum() - expected) < 4 * math.sqrt(expected)
