"""Times of filters."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...harness.stopwatch import no_collection
from .contenders import REFUSALS, Contender
from .tasks import keys_of


@dataclass(frozen=True, slots=True)
class Timings:
    """Nanoseconds of one contender's operations; a static filter's add is its share of the build."""

    add: float
    present: float
    absent: float


class Stopwatch:
    """Times contenders in turns, on the same keys.

    All are built for one number of keys and error rate.  Turns spread disturbances of the machine.
    Many small filters are timed together, so that two readings of the clock cover ``operations`` or
    more.  A large filter is asked for ``asked`` keys.
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
        with no_collection():
            filled, add = self._fill(contender)
            present = self._ask(contender, filled, self._some)
            absent = self._ask(contender, filled, self._absent)
        self._readings.setdefault(contender.name, []).append((add, present, absent))

    def timings(self, contender: Contender) -> Timings:
        """The medians over the turns of a contender."""
        add, present, absent = zip(*self._readings[contender.name], strict=True)
        return Timings(median(add), median(present), median(absent))

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
        ask = contender.ask
        began = time.perf_counter_ns()
        for each, keys in zip(filled, keys_of_each, strict=True):
            ask(each, keys)
        return (time.perf_counter_ns() - began) / _length(keys_of_each)


def _length(lists: Sequence[Sequence[bytes]]) -> int:
    return sum([len(each) for each in lists])
