"""The configurations of ``learning``: sizes, block caches and repetitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.harness.experiment import Plan

CACHE_SHARES: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.2)
"""Block caches, by the bytes of all blocks; the last holds every block, with what that takes besides."""

CACHES: Final = "caches"
EXPONENTS: Final = (0.6, 0.8, 1.0, 1.2, 1.4)
DRIFT: Final = "drift"
HOT_BLOCK: Final = "hot block"
LOADS: Final = (*(f"Zipf {exponent}" for exponent in EXPONENTS), DRIFT, HOT_BLOCK)
"""Exact Zipf laws; one of exponent 1 whose keys all change after each tenth; keys of one block alone."""

REPETITIONS: Final = 5
LOOKUPS_PER_KEY: Final = 10


@dataclass(frozen=True, slots=True)
class Task:
    """A store of ``key_count`` keys, asked for as many absent ones with one block cache.

    ``is_shared``: present keys are looked up too, one after each absent key.
    """

    key_count: int
    lookup_count: int
    cache_share: float
    is_shared: bool
    error_rate: float
    seed: int
    repetition: int
    load: str = CACHES

    def __str__(self) -> str:
        if self.load != CACHES:
            return f"{self.load}, repetition {self.repetition}"
        whose = "a shared cache" if self.is_shared else "a cache"
        return (
            f"{whose} of {self.cache_share * 100:g} % of the blocks, repetition {self.repetition}"
        )


def tasks(plan: Plan) -> list[Task]:
    """Every cache and load in each repetition, which has a seed of its own.

    No cache is the same for both.
    """
    keys = plan.options.keys or (20_000 if plan.quick else 100_000)
    repetitions = range(plan.options.repetitions or REPETITIONS)
    loads = [
        Task(keys, LOOKUPS_PER_KEY * keys, 0.0, False, 0.01, plan.seed + number, number, load)
        for number in repetitions
        for load in LOADS
    ]
    return loads + [
        Task(keys, LOOKUPS_PER_KEY * keys, share, is_shared, 0.01, plan.seed + number, number)
        for number in repetitions
        for share in CACHE_SHARES
        for is_shared in (False, True)
        if share or not is_shared
    ]
