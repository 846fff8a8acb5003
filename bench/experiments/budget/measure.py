"""Measures one memory of ``budget``: the same writes and lookups, with Monkey's rates and a budget."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any, Final

import lsmkv
from bench.experiments.budget.rows import Row
from bench.experiments.budget.tasks import HOT, Task, monkey_rate
from bench.workloads.keys import Values, absent_key, present_key, shuffled
from lsmkv.options import KIB

_VALUE_BYTES: Final = 100
_ENTRY_BYTES: Final = 125
_FLUSHES: Final = 64
_LOOKUPS_PER_KEY: Final = 4  # that are counted; as many as keys go before
FORM: Final = lsmkv.Options(
    compression="none",
    block_cache_size_bytes=0,
    read_compaction_rate_bytes=0,
    level0_compaction_trigger=4,
    size_ratio=4,
    background="thread",
)


def measure(task: Task, directory: str) -> tuple[Row, ...]:
    """Monkey's row, and that of a budget of as many bytes as Monkey's filters took in one run.

    In the tree Monkey's are written again, with a rate for the bytes that those of the budget took there.
    """
    monkey = _row(task, "monkey", directory, _monkey(task.bits_per_key))
    budget = _row(task, "budget", directory, {"filter_memory_bytes": monkey.filter_bytes})
    bits = task.bits_per_key * budget.tree_bits_per_key / monkey.tree_bits_per_key
    again = _row(task, "monkey", directory, _monkey(bits))
    return replace(
        monkey,
        tree_runs=again.tree_runs,
        tree_bits_per_key=again.tree_bits_per_key,
        tree_wasted_reads=again.tree_wasted_reads,
    ), budget


def _monkey(bits_per_key: float) -> dict[str, Any]:
    return {"filter_allocation": "monkey", "error_rate": monkey_rate(bits_per_key)}


def _row(task: Task, allocation: str, directory: str, options: dict[str, Any]) -> Row:
    """Write all keys, look up, write half of them again, count; compact all, and count again."""
    flushed = task.keys // _FLUSHES
    size_bytes = max(16 * KIB, flushed * _ENTRY_BYTES)
    form = FORM.replace(table_size_bytes=size_bytes, level1_size_bytes=4 * size_bytes, **options)
    order = shuffled(task.keys, task.seed)
    asked = task.keys * _LOOKUPS_PER_KEY
    with (
        TemporaryDirectory(dir=directory) as path,
        lsmkv.open(os.path.join(path, "store"), form) as db,
    ):
        _write(db, order, flushed, task.seed)
        _wasted(db, task, task.keys)
        _write(db, shuffled(task.keys, task.seed + 1)[: task.keys // 2], flushed, task.seed)
        tree, tree_reads = db.inspect(), _wasted(db, task, asked)
        db.compact_range(force=True)
        run, run_reads = db.inspect(), _wasted(db, task, asked)
    return Row(
        hot_share=task.hot_share,
        allocation=allocation,
        bits_per_key=task.bits_per_key,
        key_count=task.keys,
        lookup_count=asked,
        seed=task.seed,
        tree_runs=sum(len(level.runs) for level in tree.levels),
        tree_bits_per_key=8 * tree.filter_bytes / task.keys,
        tree_wasted_reads=tree_reads,
        tables=sum(1 for _ in run.tables()),
        filter_bytes=run.filter_bytes,
        wasted_reads=run_reads,
    )


def _write(db: lsmkv.DB, numbers: list[int], flushed: int, seed: int) -> None:
    """Write entries, so many for each flush, and let the tree settle after each."""
    values = Values(_VALUE_BYTES, seed)
    for at in range(0, len(numbers), flushed):
        with db.write_batch() as batch:
            for number in numbers[at : at + flushed]:
                batch.put(present_key(number), values.of(number))
        db.flush()
        db.wait_until_settled()


def _wasted(db: lsmkv.DB, task: Task, count: int) -> int:
    """The blocks that lookups of ``count`` different absent keys read."""
    dice = random.Random(f"budget/{task.seed}/{count}")
    hot_keys = round(task.keys * HOT)
    before = db.stats().block_reads
    for at in range(count):
        is_hot = dice.random() < task.hot_share
        number = dice.randrange(hot_keys) if is_hot else dice.randrange(hot_keys, task.keys - 1)
        if db.get(absent_key(number) + b"%d" % at) is not None:
            raise AssertionError(f"{task}: wrong answer")
    return db.stats().block_reads - before
