"""The lookups of ``memory``: which keys, in which order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy
from numpy.random import Generator

from ...harness.intervals import effective_trials
from ...workloads.distributions import Numbers, Zipfian, generator, uniform
from ...workloads.keys import absent_key, present_key

HOT_SHARE: Final = 0.01
HOT_LOOKUPS: Final = 0.9


@dataclass(frozen=True, slots=True)
class Lookups:
    """Keys in the order of their lookups, and whether each is present."""

    keys: list[bytes]
    are_present: list[bool]

    @property
    def independent(self) -> float:
        """How many lookups of different keys tell as much."""
        return effective_trials(Counter(self.keys).values())


@dataclass(frozen=True, slots=True)
class Workload:
    """Lookups by one law, ``present_share`` of present keys; ``seed`` says which are popular."""

    law: str
    present_share: float
    key_count: int
    seed: int

    def lookups(self, count: int, what: str) -> Lookups:
        """``count`` lookups; those of another ``what`` are other draws by the same law."""
        draw = generator(self.seed, "memory", self.law, self.present_share, what)
        are_present = draw.random(count) < self.present_share
        absent = self._numbers("absent", count, draw).tolist()
        present = self._numbers("present", count, draw).tolist()
        keys = [
            present_key(here) if is_present else absent_key(gone)
            for here, gone, is_present in zip(present, absent, are_present, strict=True)
        ]
        return Lookups(keys, are_present.tolist())

    def filling(self, count: int) -> list[bytes]:
        """Present keys, by the same law, that fill the cache with blocks."""
        which = "present" if self.present_share else "absent"
        draw = generator(self.seed, "memory", self.law, "filling")
        return [present_key(number) for number in self._numbers(which, count, draw).tolist()]

    def _numbers(self, which: str, count: int, draw: Generator) -> Numbers:
        # The last number has no absent key between two present ones.
        items = self.key_count - 1
        if self.law == "uniform":
            return uniform(items, count, draw)
        by_rank = generator(self.seed, "memory", which, items).permutation(items)
        if self.law == "zipf":
            found: Numbers = by_rank[Zipfian.over(items).ranks(count, draw)]
            return found
        hot = by_rank[: max(1, round(items * HOT_SHARE))]
        is_hot = draw.random(count) < HOT_LOOKUPS
        return numpy.where(is_hot, hot[uniform(len(hot), count, draw)], uniform(items, count, draw))
