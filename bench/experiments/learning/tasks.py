"""The configurations of ``learning``: sizes, block caches and repetitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.harness.experiment import Plan

CACHE_SHARES: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.2)
"""Block caches, by the bytes of all blocks; the last holds every block, with what that takes besides."""

REPETITIONS: Final = 3
LOOKUPS_PER_KEY: Final = 10


@dataclass(frozen=True, slots=True)
class Task:
    """A store of ``key_count`` keys, asked for as many absent ones with one block cache."""

    key_count: int
    lookup_count: int
    cache_share: float
    error_rate: float
    seed: int
    repetition: int

    def __str__(self) -> str:
        return f"cache of {self.cache_share * 100:g} % of the blocks, repetition {self.repetition}"


def tasks(plan: Plan) -> list[Task]:
    """Every cache in each repetition, which has a seed of its own."""
    keys = plan.options.keys or (20_000 if plan.quick else 100_000)
    return [
        Task(keys, LOOKUPS_PER_KEY * keys, share, 0.01, plan.seed + repetition, repetition)
        for repetition in range(plan.options.repetitions or REPETITIONS)
        for share in CACHE_SHARES
    ]
