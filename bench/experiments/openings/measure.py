"""Measures one store of ``openings``: opens it anew, and counts what lookups of absent keys read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import lsmkv
from bench.experiments.openings.rows import Row
from bench.experiments.openings.tasks import LOOKUPS_PER_KEY, RESIDENCIES, Task
from bench.harness.run_stores import write_runs
from bench.harness.shapes import exact_rate
from bench.workloads.distributions import generator
from lsmkv.options import FilterResidency, Options
from lsmkv.stats import Stats
from lsmkv.storage.storage import Storage

_EVERYTHING: Final = 1 << 40
_TAILS: Final = 1 << 20
_ENOUGH_READS: Final = 5000
"""Block reads after which no more lookups are counted: 1.4 % of them is a standard deviation."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What an opening has read after some lookups."""

    filter_requests: int
    filter_bytes: int
    block_reads: int
    block_bytes: int
    index_requests: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class Slope:
    """Block reads of many lookups."""

    lookups: int
    block_reads: int
    block_bytes: int


def measure(task: Task, directory: str) -> list[Row]:
    """The rows of one store below ``directory``, which is empty."""
    path = os.path.join(directory, "store")
    is_off = task.error_rate == 1
    options = Options(
        error_rate=0.5 if is_off else task.error_rate,
        filter_policy="none" if is_off else "bloom",
        block_size_bytes=task.block_size_bytes,
        fit_pages=False,  # the same blocks with any filters
    )
    write_runs(path, task.key_count, task.run_count, task.seed, options)
    with lsmkv.open(path, options, read_only=True, block_cache_size_bytes=0) as db:
        info = db.inspect()
        exact = 1.0 if is_off else exact_rate(db)
    slope = block_slope(path, task)
    rows = []
    for residency in RESIDENCIES:
        followed = [opening(path, task, residency, number) for number in range(task.openings)]
        for lookups_per_key in LOOKUPS_PER_KEY:
            at = min(lookups_per_key, task.followed)
            here = [each[at] for each in followed if at in each]
            if not here:
                continue
            loads = [reads.filter_bytes for reads in here]
            rows.append(
                Row(
                    run_count=task.run_count,
                    block_size_bytes=task.block_size_bytes,
                    error_rate=task.error_rate,
                    residency=residency,
                    lookups_per_key=lookups_per_key,
                    key_count=task.key_count,
                    seed=task.seed,
                    request_cost_bytes=task.request_cost_bytes,
                    error_rate_exact=exact,
                    filter_bits_per_key=8 * info.filter_bytes / task.key_count,
                    data_bytes=info.size_bytes - 2 * info.filter_bytes,
                    counted_lookups=slope.lookups,
                    counted_block_reads=slope.block_reads,
                    counted_block_bytes=slope.block_bytes,
                    openings=len(here),
                    is_extrapolated=lookups_per_key > task.followed,
                    filter_requests=sum(reads.filter_requests for reads in here) / len(here),
                    filter_bytes=sum(loads) / len(loads),
                    filter_bytes_least=min(loads),
                    filter_bytes_most=max(loads),
                    index_requests=here[0].index_requests,
                    index_bytes=here[0].index_bytes,
                    direct_block_reads=None
                    if lookups_per_key > task.followed or residency == "cached"
                    else sum(reads.block_reads for reads in here),
                )
            )
    return rows


def absent_keys(task: Task, number: int) -> list[bytes]:
    """Different absent keys in random order, one after each present key but the last.

    Those of another ``number`` are others: none comes twice below 2^20.
    """
    draw = generator(task.seed, "openings", number)
    order = draw.permutation(task.key_count - 1).tolist()
    # After the present key of the same digits: shorter keys come first.
    return [b"%016d%05x" % (2 * at, number % _TAILS) for at in order]


def block_slope(path: str, task: Task) -> Slope:
    """Block reads of resident filters without a cache: each lookup reads what its filters let pass."""
    storage = Storage()
    asked = number = 0
    with lsmkv.open(path, storage=storage, read_only=True, block_cache_size_bytes=0) as db:
        while asked < task.most_lookups and storage.stats.block_reads < _ENOUGH_READS:
            keys = absent_keys(task, task.openings + number)[: task.most_lookups - asked]
            _ask(db, keys)
            asked += len(keys)
            number += 1
        done = db.stats()
    return Slope(asked, done.block_reads, done.block_read_bytes)


def opening(path: str, task: Task, residency: FilterResidency, number: int) -> dict[float, Reads]:
    """What one opening has read after each number of lookups per key, up to ``task.followed``.

    Resident filters have no block cache beside them.  Cached ones have one that holds everything, so that
    each chunk is loaded once.
    """
    storage = Storage()
    keys = absent_keys(task, number)
    cache = _EVERYTHING if residency == "cached" else 0
    found = {}
    with lsmkv.open(
        path,
        storage=storage,
        read_only=True,
        filter_residency=residency,
        block_cache_size_bytes=cache,
    ) as db:
        asked = 0
        for lookups_per_key in LOOKUPS_PER_KEY:
            if lookups_per_key > task.followed:
                break
            wanted = min(len(keys), round(lookups_per_key * task.key_count))
            if not wanted:
                continue
            _ask(db, keys[asked:wanted])
            asked = wanted
            found[lookups_per_key] = _reads(storage.stats)
    return found


def _ask(db: lsmkv.DB, keys: list[bytes]) -> None:
    get = db.get
    for key in keys:
        if get(key) is not None:
            raise AssertionError(f"{key!r} is not in the store")


def _reads(stats: Stats) -> Reads:
    return Reads(
        stats.filter_reads,
        stats.filter_read_bytes,
        stats.block_reads,
        stats.block_read_bytes,
        stats.index_reads,
        stats.index_read_bytes,
    )
