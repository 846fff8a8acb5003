"""The configurations of ``saved-io``, quick and full."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.saved_io.datasets import ALONE, DATASETS, DIGITS, HBASE, PATHS
from bench.harness.experiment import Plan
from lsmkv.filters.family import strategies
from lsmkv.options import KIB, MIB

ERROR_RATES: Final = (None, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0.0001)
"""What filters are sized for; None: no filters."""

QUICK_HBASE_RATES: Final = (None, 0.1, 0.01, 0.001)

STRATEGIES: Final = (
    strategies.PRODUCT,
    strategies.ENHANCED_DOUBLE,
    strategies.LEVELDB,
    strategies.HBASE,
    strategies.DOUBLE_HASHING,
)
STRATEGY_KEY_COUNT: Final = 35
"""Keys of a filter alone: as many as a 4 KiB block has, of 116 bytes each."""

_FEWEST_LOOKUPS: Final = 10  # a tenth of them is timed


@dataclass(frozen=True, slots=True)
class StoreTask:
    """One store to build, and what to ask it.

    Attributes:
        entries: how many entries it gets; of ``paths``, at most.
        runs: sorted runs that overlap: each spans all keys.
        error_rate: None: tables without filters.
        lookups: look-ups that are counted for each hit ratio.
        cold_lookups, warm_lookups: look-ups that are timed.
    """

    dataset: str
    entries: int
    block_size_bytes: int
    runs: int
    policy: str
    error_rate: float | None
    hit_ratios: tuple[float, ...]
    lookups: int
    cold_lookups: int
    warm_lookups: int
    seed: int
    repetition: int

    def __str__(self) -> str:
        rate = "no filter" if self.error_rate is None else f"p {self.error_rate * 100:g} %"
        return (
            f"{self.dataset}, {self.block_size_bytes // KIB} KiB, {self.runs} runs, "
            f"{self.policy} {rate}"
        )


@dataclass(frozen=True, slots=True)
class StrategyTask:
    """Filters alone, of a block's size, with one way of deriving the probes from the key."""

    strategy: str
    key_count: int
    error_rate: float
    trials: int
    seed: int
    repetition: int

    def __str__(self) -> str:
        return f"hash strategy {self.strategy}, p {self.error_rate * 100:g} %"


Task = StoreTask | StrategyTask


def add_options(parser: argparse.ArgumentParser) -> None:
    """The experiment's own options."""
    parser.add_argument(
        "--repetitions", type=int, default=1, help="with a seed of its own each; default: 1"
    )
    parser.add_argument(
        "--entries", type=int, help="entries of a store of 'digits'; default: 50,000 or 500,000"
    )
    parser.add_argument(
        "--lookups",
        type=int,
        help="look-ups that are counted for each hit ratio, of which the first are timed too; "
        "default: 10,000 or 100,000",
    )
    parser.add_argument(
        "--datasets",
        default=",".join((*DATASETS, ALONE)),
        help="data sets, separated by commas ('alone': filters without a store); "
        "default: %(default)s",
    )
    parser.add_argument(
        "--policies",
        default="bloom",
        help="filter policies, separated by commas; default: %(default)s",
    )


def tasks(plan: Plan) -> list[Task]:
    """Every configuration that ``plan`` asks for."""
    wanted = plan.options.datasets.split(",")
    unknown = set(wanted) - {*DATASETS, ALONE}
    if unknown:
        known = ", ".join((*DATASETS, ALONE))
        raise SystemExit(f"bench: no data set {', '.join(sorted(unknown))}: must be of {known}")
    lookups = plan.options.lookups
    if lookups is not None and lookups < _FEWEST_LOOKUPS:
        raise SystemExit(f"bench: --lookups {lookups}: must be {_FEWEST_LOOKUPS} or more")
    found: list[Task] = []
    for repetition in range(plan.options.repetitions):
        seed = plan.seed + repetition
        for policy in plan.options.policies.split(","):
            found += _stores(plan, wanted, policy, seed, repetition)
        if ALONE in wanted:
            found += _strategies(plan, seed, repetition)
    return found


def _stores(
    plan: Plan, wanted: Sequence[str], policy: str, seed: int, repetition: int
) -> Iterator[StoreTask]:
    quick = plan.quick
    entries = plan.options.entries or (50_000 if quick else 500_000)
    blocks, runs = ((4, 64), (1, 4)) if quick else ((4, 16, 64), (1, 4, 10))
    ratios = (0.0, 0.5, 1.0) if quick else (0.0, 0.1, 0.5, 0.9, 1.0)
    lookups = plan.options.lookups or (10_000 if quick else 100_000)
    cold, warm = lookups // 10, lookups // 5

    def each(
        dataset: str,
        count: int,
        kib: int,
        run_count: int,
        rates: Sequence[float | None] = ERROR_RATES,
    ) -> Iterator[StoreTask]:
        for rate in rates:
            yield StoreTask(
                dataset, count, kib * KIB, run_count, policy, rate, ratios, lookups, cold, warm,
                seed, repetition,
            )  # fmt: skip

    if DIGITS in wanted:
        for kib in blocks:
            for run_count in runs:
                yield from each(DIGITS, entries, kib, run_count)
    if HBASE in wanted:
        cells = (64 if quick else 1024) * MIB // 200
        yield from each(HBASE, cells, 64, 1, QUICK_HBASE_RATES if quick else ERROR_RATES)
    if PATHS in wanted:
        yield from each(PATHS, 8000 if quick else 100_000, 4, 4)


def _strategies(plan: Plan, seed: int, repetition: int) -> Iterator[StrategyTask]:
    for strategy in STRATEGIES:
        for rate in ERROR_RATES:
            if rate is not None:
                enough = (200 if plan.quick else 1000) / rate
                trials = int(min(max(enough, 20_000), 100_000 if plan.quick else 2_000_000))
                yield StrategyTask(
                    strategy.name, STRATEGY_KEY_COUNT, rate, trials, seed, repetition
                )
