"""Fills a store so that its shape and counts repeat."""

from __future__ import annotations

from collections.abc import Sequence

import lsmkv
from bench.experiments.growth import theory
from bench.experiments.growth.model import bytes_written
from bench.experiments.growth.rows import Tree
from bench.experiments.growth.tasks import BATCH, ENTRY_BYTES, Task
from bench.harness.shapes import block_count, run_count
from bench.harness.write_cost import write_amplification
from bench.workloads.keys import present_key
from lsmkv.inspection.store_info import StoreInfo


def fill(task: Task, directory: str) -> Tree:
    """Make the store in ``directory``: each key once, in random order, in batches.

    It is flushed and settled after every write buffer, so that compactions depend on the keys and not
    on timing.
    """
    values = task.values()
    flushed: list[int] = []
    with lsmkv.open(directory, task.options()) as db:
        for numbers in task.write_buffers():
            for start in range(0, len(numbers), BATCH):
                with db.write_batch() as batch:
                    for number in numbers[start : start + BATCH]:
                        batch.put(present_key(number), values.of(number))
            db.flush()
            db.wait_until_settled()
            flushed.append(len(numbers))
        return _tree(task, db, flushed)


def _tree(task: Task, db: lsmkv.DB, flushed: Sequence[int]) -> Tree:
    stats, store, options = db.stats(), db.inspect(), db.options
    user_bytes = task.entries * ENTRY_BYTES
    deepest = max(level.number for level in store.levels if level.runs)
    tables = list(store.tables())
    return Tree(
        level_count=deepest,
        level_count_expected=theory.level_count(store.size_bytes, options),
        run_count=run_count(store),
        table_count=len(tables),
        block_count=block_count(store),
        entries_stored=store.entry_count,
        table_bytes=store.size_bytes,
        raw_block_bytes=sum(table.raw_bytes for table in tables),
        user_bytes=user_bytes,
        flush_bytes=stats.flush_bytes,
        compaction_write_bytes=stats.compaction_write_bytes,
        write_amplification=(stats.flush_bytes + stats.compaction_write_bytes) / user_bytes,
        write_amplification_textbook=write_amplification(task.style, options.size_ratio, deepest),
        write_amplification_model=_modelled_bytes(task, flushed, store, stats) / user_bytes,
    )


def _modelled_bytes(
    task: Task, flushed: Sequence[int], store: StoreInfo, stats: lsmkv.Stats
) -> float:
    """The bytes that the fill wrote, by the model."""
    options = task.options()
    # A table is closed by the size of its data; index and filters come on top.
    data_bytes = sum(table.stored_bytes for table in store.tables())
    return bytes_written(
        [entries * stats.flush_bytes / task.entries for entries in flushed],
        task.entries,
        options,
        options.table_size_bytes * store.size_bytes / data_bytes,
    )
