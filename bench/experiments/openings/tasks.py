"""The configurations of ``openings``: stores by runs, blocks and error rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lsmkv.options import KIB

from ...harness.experiment import Plan

RATES: Final = (
    0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003, 0.002, 0.001, 0.0005, 0.0002, 0.0001,
    0.00005, 0.00002, 0.00001, 0.000005, 0.000002, 0.000001,
)  # fmt: skip
"""Error rates of Bloom filters, beside which no filters are tried."""

LOOKUPS_PER_KEY: Final = (
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0
)  # fmt: skip
"""Lookups of absent keys between two openings, by the number of keys."""

RUNS: Final = (1, 4)
BLOCK_KIB: Final = (4, 64)


@dataclass(frozen=True, slots=True)
class Task:
    """One store, opened anew several times.

    Attributes:
        error_rate: 1 stands for no filters.
        openings: openings of which the loads of filters are counted.
        followed: lookups per key after each of these openings.
        most_lookups: lookups, each of another absent key, that count blocks.
        request_cost_bytes: what a read request costs besides its bytes.
    """

    error_rate: float
    run_count: int
    block_size_bytes: int
    key_count: int
    openings: int
    followed: float
    most_lookups: int
    seed: int
    request_cost_bytes: int

    def __str__(self) -> str:
        rate = "off" if self.error_rate == 1 else f"{self.error_rate * 100:g} %"
        return f"{self.run_count} runs, {self.block_size_bytes // KIB} KiB, {rate}"


def tasks(plan: Plan) -> list[Task]:
    given = plan.options
    keys = given.keys or (10_000 if plan.quick else 100_000)
    openings = given.openings or (3 if plan.quick else 10)
    lookups = given.lookups or (100_000 if plan.quick else 2_000_000)
    cost = given.request_cost_bytes
    return [
        Task(rate, runs, kib * KIB, keys, openings, 1.0, lookups, plan.seed, cost)
        for runs in RUNS
        for kib in BLOCK_KIB
        for rate in (1.0, *RATES)
    ]
