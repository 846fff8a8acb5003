"""The configurations of ``adaptive``: loads, and the filters that are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import lsmkv
from bench.harness.experiment import Plan

NEW_KEYS: Final = "new keys"
POPULAR_KEYS: Final = "popular keys"
LOADS: Final = (NEW_KEYS, POPULAR_KEYS)
"""Absent keys that are never asked for again, and ones whose popularity follows a Zipf law."""

BITS: Final = 8.0
"""Bits per key of one rate in place of Monkey's; what the others take is the memory of Monkey's."""

UNIFORM: Final = "uniform"
MONKEY: Final = "monkey"
LEARNING: Final = "learning"
BUDGET: Final = "budget"
HOWS: Final = (MONKEY, UNIFORM, LEARNING, BUDGET)

PHASES: Final = 3
POINTS: Final = 5
"""Points of the chart in each phase."""

STEPS: Final = 4
"""Write buffers in each point, with lookups after each: all of a phase rewrite the last level."""

BUFFERS: Final = 20
"""The keys, by those of a write buffer."""

SIZE_RATIO: Final = 4
_ENTRY_BYTES: Final = 128
_LIST_BITS: Final = 0.25  # the most that a list of learnt keys may take (``bench learning``)


@dataclass(frozen=True, slots=True)
class Task:
    """One load on a store of ``key_count`` keys for each kind of filters."""

    load: str
    key_count: int
    lookups: int  # of each step
    seed: int
    repetition: int

    def __str__(self) -> str:
        return f"{self.load}, repetition {self.repetition}"

    @property
    def buffer_keys(self) -> int:
        return self.key_count // BUFFERS

    def options(self, how: str, memory_bytes: int, bits: float) -> lsmkv.Options:
        """The options of a store: a small tree of several levels, without a cache.

        ``bits``: of the filters for each key; ``memory_bytes``: those of all of them.
        """
        buffer_bytes = self.buffer_keys * _ENTRY_BYTES
        filters: dict[str, dict[str, Any]] = {
            MONKEY: {"error_rate": _rate(bits), "filter_allocation": "monkey"},
            UNIFORM: {"error_rate": _rate(bits)},
            LEARNING: {"error_rate": _rate(bits - _LIST_BITS), "adaptive_filters": True},
            BUDGET: {"filter_memory_bytes": memory_bytes},
        }
        return lsmkv.Options(
            table_size_bytes=2 * buffer_bytes,
            level1_size_bytes=2 * buffer_bytes,
            size_ratio=SIZE_RATIO,
            read_compaction_rate_bytes=0,  # only writes shape the tree
            block_cache_size_bytes=0,
            compression="none",
            fit_pages=False,  # the same blocks with any filters
            background="thread",
            **filters[how],
        )


def _rate(bits: float) -> float:
    return math.exp(-bits * math.log(2.0) ** 2)


def tasks(plan: Plan) -> list[Task]:
    """Every load in each repetition, which has a seed of its own."""
    keys = plan.options.keys or (8_000 if plan.quick else 100_000)
    repetitions = range(plan.options.repetitions or (1 if plan.quick else 5))
    return [
        Task(load, keys, keys // 25, plan.seed + number, number)
        for load in LOADS
        for number in repetitions
    ]
