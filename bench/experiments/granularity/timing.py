"""Times of lookups with everything in memory, and of their parts alone."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import lsmkv
from bench.experiments.granularity.shapes import BLOCK_KEYS
from bench.harness.intervals import percentiles
from bench.harness.stopwatch import each_us, no_collection
from bench.harness.table_readers import open_tables
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.policy import policy_named
from lsmkv.inspection.store_info import StoreInfo
from lsmkv.options import MIB, Options
from lsmkv.sstable.reader import TableReader

_WARM_CACHE_BYTES: Final = 1024 * MIB
_TURNS: Final = 5
_PART_KEYS: Final = 500
_BUILD_KEYS: Final = 4096


@dataclass(frozen=True, slots=True)
class Times:
    """The columns of the same names."""

    absent_warm_us_p50: float
    absent_warm_us_p95: float
    absent_warm_us_p99: float
    present_warm_us_p50: float
    present_warm_us_p95: float
    present_warm_us_p99: float
    fence_search_ns: float
    filter_probe_ns: float
    filter_build_ns_per_key: float


NO_TIMES: Final = Times(*[float("nan")] * len(dataclasses.fields(Times)))
"""The times of filters that the experiment adds, whose lookups are no store's."""


def time_store(
    path: str, options: Options, info: StoreInfo, absent: Sequence[bytes], present: Sequence[bytes]
) -> Times:
    """Times of the store, with every needed block in the cache."""
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=_WARM_CACHE_BYTES) as db:
        for key in (*absent, *present):
            db.get(key)
        gone, here = each_us(db.get, absent), each_us(db.get, present)
    fence_ns, probe_ns = _parts_ns(open_tables(path, info, "resident"), absent[:_PART_KEYS])
    missing, found = percentiles(gone), percentiles(here)
    return Times(
        missing.p50,
        missing.p95,
        missing.p99,
        found.p50,
        found.p95,
        found.p99,
        fence_ns,
        probe_ns,
        _build_ns_per_key(options),
    )


def _parts_ns(tables: Sequence[TableReader], keys: Sequence[bytes]) -> tuple[float, float]:
    """Times of an index search and a filter probe.

    Each goes through all tables that span the key.
    """
    searches: list[tuple[Callable[[bytes], int], list[bytes]]] = []
    probes: list[tuple[Callable[[int, int], bool], list[tuple[int, int]]]] = []
    for table in tables:
        meta = table.meta
        inside = [key for key in keys if meta.smallest <= key <= meta.largest]
        searches.append((table.index.find, inside))
        if table.filters.exist:
            found = [
                (table.index.find(key), table.filters.hash_of(key, hash_key(key))) for key in inside
            ]
            probes.append((table.filters.may_hold, [pair for pair in found if pair[0] >= 0]))
    return (
        _least_ns(lambda: _search_all(searches), sum(len(keys) for _, keys in searches)),
        _least_ns(lambda: _probe_all(probes), sum(len(pairs) for _, pairs in probes)),
    )


def _search_all(searches: list[tuple[Callable[[bytes], int], list[bytes]]]) -> None:
    for find, keys in searches:
        for key in keys:
            find(key)


def _probe_all(probes: list[tuple[Callable[[int, int], bool], list[tuple[int, int]]]]) -> None:
    for ask, pairs in probes:
        for block, part_hash in pairs:
            ask(block, part_hash)


def _build_ns_per_key(options: Options) -> float:
    """Time to build filters of hashed keys, per block or table."""
    policy = policy_named(options.filter_policy)
    hashes = [hash_key(b"%016d" % number) for number in range(_BUILD_KEYS)]
    size = BLOCK_KEYS if options.filter_granularity == "block" else _BUILD_KEYS
    parts = [hashes[at : at + size] for at in range(0, _BUILD_KEYS, size)]
    if policy.name == "none":
        return float("nan")

    def build_all() -> None:
        for part in parts:
            policy.build(part, options.error_rate)

    return _least_ns(build_all, _BUILD_KEYS)


def _least_ns(work: Callable[[], None], operations: int) -> float:
    """The least time of an operation, its loop included."""
    if not operations:
        return float("nan")
    spent = []
    with no_collection():
        for _ in range(_TURNS):
            began = time.perf_counter_ns()
            work()
            spent.append(time.perf_counter_ns() - began)
    return min(spent) / operations
