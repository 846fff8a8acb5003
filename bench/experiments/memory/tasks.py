"""The configurations of ``memory``: stores, budgets, workloads and caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lsmkv.options import KIB, MIB, Options

from ...engines.base import engine_named
from ...harness.experiment import Plan
from ...harness.run_stores import VALUE_BYTES
from ...workloads.keys import KEY_BYTES

SPLIT: Final = "split"
RESIDENCY: Final = "residency"
PRESET: Final = "preset"
DIRECT: Final = "direct"
PARTS: Final = (SPLIT, RESIDENCY, PRESET)
"""``split``: filters and cache out of one budget.  ``residency``: filters in memory, in the cache, or
off, by the size of the cache.  ``preset``: ``Options.small_memory()`` by the number of keys.  With them
goes ``direct``, a check that pages are counted as a device reads them."""

NO_FILTER: Final = "none"
ROCKSDB: Final = "rocksdb"
ROW_CACHES: Final = (0.0, 0.5, 0.8)
"""The row cache of RocksDB, by what its filters and index leave; the block cache gets the rest."""
RATES: Final = (0.1, 0.01, 0.001, 0.0001)
"""Error rates of Bloom filters; ribbon filters get the bytes of each."""

BUDGETS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Filters, index and caches together, by the bytes of all entries."""

LAWS: Final = ("uniform", "zipf", "hot")
PRESENT_SHARES: Final = (0.0, 0.5, 1.0)
CACHES: Final = tuple(
    round(kib * KIB) for kib in (0, 16, 64, 128, 192, 256, 512, 1024, 4096, 16384)
)
PRESET_KEYS: Final = tuple(
    round(millions * 1_000_000) for millions in (0.25, 0.5, 0.75, 1, 1.5, 2, 4)
)
ENTRY_BYTES: Final = KEY_BYTES + VALUE_BYTES + 7  # bytes of an entry in a block
_DIRECT_LOOKUPS: Final = 2000
_CHEAP_TIMES: Final = 10
_WARMING_TIMES: Final = 10


@dataclass(frozen=True, slots=True)
class Task:
    """One store, asked in every way of its part.

    Attributes:
        filters: ``bloom``, ``ribbon`` or ``none``; or ``rocksdb``, whose filters are Bloom's.
        error_rate: of Bloom filters, 1 for none of RocksDB's; ribbon filters get the bytes of these.
        lookup_count: lookups that are counted; ten times as many where filters spare nearly all reads.
        scale: divides keys and cache of the preset.
    """

    part: str
    filters: str
    error_rate: float
    run_count: int
    block_size_bytes: int
    key_count: int
    lookup_count: int
    seed: int
    scale: int = 1

    def lookups(self, present_share: float) -> int:
        """The lookups that are counted of a workload."""
        is_cheap = self.part == SPLIT and self.filters != NO_FILTER and not present_share
        return self.lookup_count * (_CHEAP_TIMES if is_cheap else 1)

    def warming_lookups(self, present_share: float) -> int:
        """The lookups before these, which warm the caches.

        Ten times as many where caches find out what to keep: blocks or entries, of present keys.
        """
        finds_out = self.part == SPLIT and present_share > 0
        return self.lookup_count * _WARMING_TIMES if finds_out else self.lookups(present_share)

    def __str__(self) -> str:
        if self.part == SPLIT:
            rate = "" if self.filters == NO_FILTER else f" {self.error_rate * 100:g} %"
            return f"{self.part}, {self.filters}{rate}, {self.run_count} runs"
        return f"{self.part}, {self.key_count:,} keys, {self.block_size_bytes // KIB} KiB"


def tasks(plan: Plan) -> list[Task]:
    given = plan.options
    keys = given.keys or (20_000 if plan.quick else 100_000)
    lookups = given.lookups or (2000 if plan.quick else 10_000)
    scale = given.scale or (16 if plan.quick else 1)
    runs = given.runs or ((1,) if plan.quick else (1, 4))
    parts = given.parts
    common = (keys, lookups, plan.seed)
    found = []
    if SPLIT in parts:
        kinds = [(NO_FILTER, RATES[0]), *((kind, p) for kind in ("bloom", "ribbon") for p in RATES)]
        found += [
            Task(SPLIT, kind, rate, count, 4 * KIB, *common)
            for count in runs
            for kind, rate in kinds
        ]
        if engine_named(ROCKSDB).is_installed() and 1 in runs:
            found += [Task(SPLIT, ROCKSDB, rate, 1, 4 * KIB, *common) for rate in (1.0, *RATES[:3])]
    if RESIDENCY in parts:
        # Twice the keys: more chunks of filters.
        found += [
            Task(RESIDENCY, "bloom", 0.01, 1, kib * KIB, 2 * keys, lookups, plan.seed)
            for kib in (4, 64)
        ]
    if PRESET in parts:
        rate = Options.small_memory().error_rate
        found += [
            Task(PRESET, "bloom", rate, 1, 4 * KIB, count // scale, lookups, plan.seed, scale)
            for count in PRESET_KEYS
        ]
    direct_lookups = min(lookups, _DIRECT_LOOKUPS)
    return [*found, Task(DIRECT, "bloom", 0.1, 1, 4 * KIB, keys, direct_lookups, plan.seed)]


def preset_cache_bytes(task: Task) -> int:
    return MIB // task.scale
