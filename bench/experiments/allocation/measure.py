"""Measures one tree of ``allocation``: writes its runs, and counts what lookups read."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import lsmkv
from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.tasks import Task
from bench.harness.run_stores import VALUE_BYTES, settings_of_runs
from bench.workloads.keys import Values, absent_key, present_key, shuffled
from lsmkv.stats import Stats

_PRESENT: Final = 10_000
_BATCH: Final = 1000


def measure(task: Task, directory: str) -> Row:
    """The row of one tree below ``directory``, which is empty."""
    path = os.path.join(directory, "store")
    rates = task.tree.rates(task.allocation, task.bits_per_key)
    runs = task.tree.runs()
    write_tree(path, runs, rates, task.seed)
    count = sum(runs)
    draw = random.Random(f"allocation/{task.seed}")
    between = count - 1
    absent = [absent_key(n) for n in draw.sample(range(between), min(task.lookups, between))]
    present = [present_key(n) for n in draw.sample(range(count), min(_PRESENT, count))]
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        gone, here = _look_up(db, absent), _look_up(db, present)
        info = db.inspect()
    if gone.get_hits or here.get_hits != len(present):
        raise AssertionError(f"{task}: wrong answers")
    is_monkey = task.allocation == "monkey"
    return Row(
        style=task.tree.style,
        size_ratio=task.tree.size_ratio,
        level_count=task.tree.level_count,
        allocation=task.allocation,
        bits_per_key=task.bits_per_key,
        key_count=count,
        seed=task.seed,
        lookup_count=len(absent),
        run_entries=tuple(runs),
        filter_bits_per_key=8 * info.filter_bytes / count,
        filters_asked=gone.filter_negatives + gone.filter_false_positives,
        unfiltered_reads=gone.unfiltered_probes,
        wasted_reads=gone.block_reads,
        present_reads=here.block_reads / len(present),
        formula_reads=task.tree.reads(task.allocation, task.bits_per_key),
        exact_reads=math.fsum(table.expected_rate or 0.0 for table in info.tables()),
        endless_reads=task.tree.monkey_reads(task.bits_per_key) if is_monkey else None,
    )


def write_tree(path: str, runs: Sequence[int], rates: Sequence[float], seed: int) -> None:
    """Write runs of so many keys, the newest first, with filters of these rates; 1 for none.

    Each is a table; every key is in one of them, and all span about the whole range.
    """
    values = Values(VALUE_BYTES, seed)
    numbers = shuffled(sum(runs), seed)
    parts = [numbers[low:high] for low, high in pairwise(accumulate(runs, initial=0))]
    for part, rate in reversed(list(zip(parts, rates, strict=True))):
        form = lsmkv.Options(filter_granularity="table")
        filters = form.replace(error_rate=rate) if rate < 1 else form.replace(filter_policy="none")
        options = settings_of_runs(filters)
        with lsmkv.open(path, options) as db:
            for at in range(0, len(part), _BATCH):
                with db.write_batch() as batch:
                    for number in part[at : at + _BATCH]:
                        batch.put(present_key(number), values.of(number))
            db.flush()


def _look_up(db: lsmkv.DB, keys: Sequence[bytes]) -> Stats:
    before = db.stats()
    for key in keys:
        db.get(key)
    return db.stats() - before
