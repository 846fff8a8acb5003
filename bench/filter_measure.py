"""Counting and timing one filter at a time, for ``python -m bench filters``.

Counts come from many filters, each with keys of its own, and are the same for a seed on every
machine.  The filters are a sample too: whether a filter happens to be fuller than others decides all
answers it gives, so false positives come in clusters, and the interval has to know.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from scipy import stats

from bench.filter_contenders import REFUSALS, Contender, contender_named

KEY_BYTES: Final = 16
CONFIDENCE: Final = 0.95
PRESENT_ASKED: Final = 16
"""Present keys that each filter is asked for, to see that none is denied."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is to be counted; hits of a filter are counted among ``per_filter`` absent keys."""

    contender: str
    key_count: int
    error_rate: float
    seed: int
    filter_count: int
    per_filter: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted.

    Attributes:
        hits: the false positives of each filter.
        per_filter: the absent keys that each was asked for.
        bits: the size of all filters together.
        rate: the rate in theory.
        refused: sets of keys for which a filter had no room; others took their place.
        false_negatives: present keys that were denied; anything but 0 is a defect.
    """

    hits: tuple[int, ...]
    per_filter: int
    bits: int
    rate: float
    refused: int
    false_negatives: int

    @property
    def trials(self) -> int:
        """Absent keys that were asked for."""
        return len(self.hits) * self.per_filter


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured rate and where the true one lies.

    ``design_effect`` is the variance of the rate over that of as many independent trials.
    """

    rate: float
    low: float
    high: float
    design_effect: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds per operation: median, least and most of the repetitions."""

    median: float
    least: float
    most: float


def keys_of(draw: random.Random, count: int) -> list[bytes]:
    """``count`` distinct random keys."""
    drawn = draw.randbytes(count * KEY_BYTES)
    keys = [drawn[at : at + KEY_BYTES] for at in range(0, len(drawn), KEY_BYTES)]
    if len(set(keys)) != count:
        raise AssertionError("two of a handful of 128-bit numbers are equal")
    return keys


def count(what: Configuration) -> Counts:
    """Fill filters and count how often they let absent keys pass.

    Contenders at one seed, number of keys and rate get the same sets of keys.
    """
    contender = contender_named(what.contender)
    n = what.key_count
    hits: list[int] = []
    bits = refused = false_negatives = number = 0
    rate = 0.0
    while len(hits) < what.filter_count:
        draw = random.Random(f"{what.seed}/{n}/{what.error_rate}/{number}")
        keys = keys_of(draw, n + what.per_filter)
        number += 1
        present = keys[:n]
        try:
            filled = contender.fill(present, what.error_rate)
        except REFUSALS:
            refused += 1
            continue
        passed = _asked(contender, filled, keys[n:])
        false_negatives += min(n, PRESENT_ASKED) - _asked(
            contender, filled, present[:PRESENT_ASKED]
        )
        hits.append(passed)
        size, rate = contender.facts(filled, n)
        bits += size
    return Counts(tuple(hits), what.per_filter, bits, rate, refused, false_negatives)


def _asked(contender: Contender, filled: Any, keys: Iterable[bytes]) -> int:
    """How many of ``keys`` pass."""
    if contender.by_operator:
        return sum([1 for key in keys if key in filled])
    may_contain = filled.may_contain
    return sum([1 for key in keys if may_contain(key)])


def interval(hits: Sequence[int], per_filter: int) -> Interval:
    """The rate of false positives with its 95 % interval, filters being clusters of trials.

    Clopper and Pearson's interval, of the number of independent trials that would tell as much: all
    trials divided by the design effect (the variance between filters over the binomial one, at
    least 1), and by the square of t over t for so few filters.  E. L. Korn, B. I. Graubard,
    "Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data", Survey Methodology 24(2), 1998.

    Raises:
        ValueError: there are less than two filters.

    >>> interval([1] * 100, 100)  # evenly spread: as if independent
    Interval(rate=0.01, low=0.0081..., high=0.0121..., design_effect=1.0)
    >>> interval([10] * 10 + [0] * 90, 100)  # from a tenth of the filters: much wider
    Interval(rate=0.01, low=0.0049..., high=0.0179..., design_effect=9.18...)
    """
    filters = len(hits)
    if filters < 2:
        raise ValueError("one filter does not tell how filters differ")
    trials = filters * per_filter
    rate = sum(hits) / trials
    binomial = per_filter * rate * (1.0 - rate)
    effect = max(1.0, statistics.variance(hits) / binomial) if binomial else 1.0
    tail = (1.0 - CONFIDENCE) / 2.0
    few = float(stats.t.ppf(tail, trials - 1) / stats.t.ppf(tail, filters - 1))
    effective = trials / effect * few * few
    positive = effective * rate
    low = float(stats.beta.ppf(tail, positive, effective - positive + 1.0)) if rate else 0.0
    high = (
        float(stats.beta.ppf(1.0 - tail, positive + 1.0, effective - positive))
        if rate < 1.0
        else 1.0
    )
    return Interval(rate, low, high, effect)


# Time


@dataclass(frozen=True, slots=True)
class Timings:
    """What operations of one contender cost; of a static filter an add is its share of the build."""

    add: Timing
    present: Timing
    absent: Timing


class Stopwatch:
    """Times contenders by turns at one number of keys and error rate, all with the same keys.

    Turns share out what disturbs a machine.  Many small filters are taken together, so that one
    reading of the clock covers thousands of operations.

    Args:
        operations: how many operations one reading covers at least.
        asked: how many keys a large filter is asked for.
    """

    def __init__(
        self, key_count: int, error_rate: float, seed: int, *, operations: int, asked: int
    ) -> None:
        draw = random.Random(f"{seed}/{key_count}/{error_rate}/timed")
        batches = -(-operations // key_count)
        self._key_count = key_count
        self._error_rate = error_rate
        self._present = [keys_of(draw, key_count) for _ in range(batches)]
        self._some = [keys[:asked] for keys in self._present]
        self._absent = [keys_of(draw, len(keys)) for keys in self._some]
        self._readings: dict[str, list[tuple[float, float, float]]] = {}

    def turn(self, contender: Contender) -> None:
        """Time one contender once."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            filled, add = self._fill(contender)
            present = self._ask(contender, filled, self._some)
            absent = self._ask(contender, filled, self._absent)
        finally:
            if collecting:
                gc.enable()
        self._readings.setdefault(contender.name, []).append((add, present, absent))

    def timings(self, contender: Contender) -> Timings:
        """What the turns of a contender showed."""
        add, present, absent = zip(*self._readings[contender.name], strict=True)
        return Timings(_timing(add), _timing(present), _timing(absent))

    def _fill(self, contender: Contender) -> tuple[list[Any], float]:
        start = contender.start
        if start is None:
            began = time.perf_counter_ns()
            filled = [contender.fill(keys, self._error_rate) for keys in self._present]
            return filled, (time.perf_counter_ns() - began) / _length(self._present)
        filled = [start(self._key_count, self._error_rate) for _ in self._present]
        began = time.perf_counter_ns()
        for each, keys in zip(filled, self._present, strict=True):
            add = each.add
            with suppress(*REFUSALS):
                for key in keys:
                    add(key)
        return filled, (time.perf_counter_ns() - began) / _length(self._present)

    def _ask(
        self, contender: Contender, filled: Sequence[Any], keys_of_each: Sequence[Sequence[bytes]]
    ) -> float:
        began = time.perf_counter_ns()
        if contender.by_operator:
            for each, keys in zip(filled, keys_of_each, strict=True):
                for key in keys:
                    key in each  # noqa: B015
        else:
            for each, keys in zip(filled, keys_of_each, strict=True):
                may_contain = each.may_contain
                for key in keys:
                    may_contain(key)
        return (time.perf_counter_ns() - began) / _length(keys_of_each)


def _length(lists: Sequence[Sequence[bytes]]) -> int:
    return sum([len(each) for each in lists])


def _timing(readings: Sequence[float]) -> Timing:
    return Timing(statistics.median(readings), min(readings), max(readings))
