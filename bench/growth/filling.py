"""Filling the store of one size, in a way that makes its shape and its counts repeat."""

from __future__ import annotations

import lsmkv
from bench.compaction.theory import write_amplification
from bench.growth import theory
from bench.growth.rows import Tree
from bench.growth.task import BATCH, ENTRY_BYTES, Task
from bench.workloads.keys import present_key


def fill(task: Task, directory: str) -> Tree:
    """Make the store in ``directory``: each key once, in random order, in batches.

    It is flushed after every write buffer and left until no compaction is due, so that what
    compaction finds to merge depends on the keys and not on timing.
    """
    values = task.values()
    flushes = 0
    with lsmkv.open(directory, task.options()) as db:
        for numbers in task.write_buffers():
            for start in range(0, len(numbers), BATCH):
                with db.write_batch() as batch:
                    for number in numbers[start : start + BATCH]:
                        batch.put(present_key(number), values.of(number))
            db.flush()
            db.wait_until_settled()
            flushes += 1
        return _tree(task, db, flushes)


def _tree(task: Task, db: lsmkv.DB, flushes: int) -> Tree:
    stats, store, options = db.stats(), db.inspect(), db.options
    user_bytes = task.entries * ENTRY_BYTES
    deep = sum(1 for level in store.levels[1:] if level.runs)
    tables = list(store.tables())
    return Tree(
        level_count=sum(1 for level in store.levels if level.runs),
        level_count_expected=theory.level_count(store.size_bytes, options),
        run_count=sum(len(level.runs) for level in store.levels),
        table_count=len(tables),
        block_count=sum(table.block_count for table in tables),
        entries_stored=store.entry_count,
        table_bytes=store.size_bytes,
        raw_block_bytes=sum(table.raw_bytes for table in tables),
        user_bytes=user_bytes,
        flush_bytes=stats.flush_bytes,
        compaction_write_bytes=stats.compaction_write_bytes,
        write_amplification=(stats.flush_bytes + stats.compaction_write_bytes) / user_bytes,
        write_amplification_textbook=write_amplification(task.style, options.size_ratio, deep),
        write_amplification_model=(
            theory.leveled_write_amplification(flushes, options)
            if task.style == "leveled"
            else None
        ),
    )
