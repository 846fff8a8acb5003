"""Measures one store of ``openings``: opens it anew, and counts what lookups of absent keys read."""

from __future__ import annotations

import os
from typing import Final

import lsmkv
from lsmkv.options import Options
from lsmkv.stats import Stats

from ...harness.run_stores import write_runs
from ...harness.shapes import exact_rate
from ...workloads.distributions import generator
from .rows import Row
from .tasks import LOOKUPS_PER_KEY, Task

_TAILS: Final = 1 << 20
_ENOUGH_READS: Final = 5000
"""Block reads after which no more lookups are counted: 1.4 % of them is a standard deviation."""


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
    asked, many = block_slope(path, task)
    followed = [opening(path, task, number) for number in range(task.openings)]
    rows = []
    for lookups_per_key in LOOKUPS_PER_KEY:
        at = min(lookups_per_key, task.followed)
        here = [each[at] for each in followed if at in each]
        if not here:
            continue
        is_extrapolated = lookups_per_key > task.followed
        loads = [stats.filter_read_bytes for stats in here]
        rows.append(
            Row(
                run_count=task.run_count,
                block_size_bytes=task.block_size_bytes,
                error_rate=task.error_rate,
                lookups_per_key=lookups_per_key,
                key_count=task.key_count,
                request_cost_bytes=task.request_cost_bytes,
                error_rate_exact=exact,
                filter_bits_per_key=8 * info.filter_bytes / task.key_count,
                data_bytes=info.size_bytes - 2 * info.filter_bytes,
                counted_lookups=asked,
                counted_block_reads=many.block_reads,
                counted_block_bytes=many.block_read_bytes,
                openings=len(here),
                is_extrapolated=is_extrapolated,
                filter_requests=sum(stats.filter_reads for stats in here) / len(here),
                filter_bytes=sum(loads) / len(loads),
                filter_bytes_least=min(loads),
                filter_bytes_most=max(loads),
                index_requests=here[0].index_reads,
                index_bytes=here[0].index_read_bytes,
                direct_block_reads=None
                if is_extrapolated
                else sum(stats.block_reads for stats in here),
            )
        )
    return rows


def absent_keys(task: Task, number: int) -> list[bytes]:
    """Different absent keys in random order, others for each ``number`` below 2^20."""
    draw = generator(task.seed, "openings", number)
    order = draw.permutation(task.key_count - 1).tolist()
    # After the present key of the same digits: shorter keys come first.
    return [b"%016d%05x" % (2 * at, number % _TAILS) for at in order]


def block_slope(path: str, task: Task) -> tuple[int, Stats]:
    """Many lookups without a cache, and what they read: what the filters let pass."""
    asked = number = 0
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        while asked < task.most_lookups and db.stats().block_reads < _ENOUGH_READS:
            keys = absent_keys(task, task.openings + number)[: task.most_lookups - asked]
            _ask(db, keys)
            asked += len(keys)
            number += 1
        return asked, db.stats()


def opening(path: str, task: Task, number: int) -> dict[float, Stats]:
    """What one opening has read after each number of lookups per key, up to ``task.followed``."""
    keys = absent_keys(task, number)
    found = {}
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        asked = 0
        for lookups_per_key in LOOKUPS_PER_KEY:
            if lookups_per_key > task.followed:
                break
            wanted = min(len(keys), round(lookups_per_key * task.key_count))
            if not wanted:
                continue
            _ask(db, keys[asked:wanted])
            asked = wanted
            found[lookups_per_key] = db.stats()
    return found


def _ask(db: lsmkv.DB, keys: list[bytes]) -> None:
    get = db.get
    for key in keys:
        if get(key) is not None:
            raise AssertionError(f"{key!r} is not in the store")
