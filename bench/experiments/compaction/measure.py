"""Measuring one configuration: load a store chunk by chunk, and look at it after each.

The store is settled after every chunk, so that what compaction finds to merge never depends on how
fast it was: all counts repeat for a seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

import lsmkv
from bench.experiments.compaction.loads import (
    CHUNK_ENTRIES,
    ENTRY_BYTES,
    Model,
    chunks,
    user_bytes,
)
from bench.experiments.compaction.rows import Row
from bench.harness import write_cost
from bench.workloads.keys import absent_key, present_key
from lsmkv.options import CompactionStyle, FilterAllocation

SCALE: Final = 4096
"""Write buffer, table and level sizes are the defaults divided by this: the tree has their shape."""
ABSENT_LOOKUPS: Final = 800
PRESENT_LOOKUPS: Final = 200
SCANS: Final = 10
SCAN_ENTRIES: Final = 100
WINDOWS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One configuration.

    Attributes:
        key_count: keys that the load draws from.
        chunk_count: write buffers that are written; the second half is looked at.
        stride: reads are measured after every so many chunks.
    """

    load: str
    style: CompactionStyle
    size_ratio: int
    error_rate: float
    allocation: FilterAllocation
    key_count: int
    chunk_count: int
    stride: int
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.load} {self.key_count}, {self.style} T={self.size_ratio}, "
            f"{self.error_rate * 100:g} % {self.allocation}"
        )


@dataclass(frozen=True, slots=True)
class State:
    """The tree after a chunk, and what the chunk had written."""

    user_bytes: int
    written_bytes: int
    live_bytes: int
    stored_bytes: int
    run_count: int
    level_count: int
    entry_count: int
    filter_bytes: int
    expected_absent_reads: float


@dataclass(frozen=True, slots=True)
class Reads:
    """Data blocks read per operation, in the same state of the tree; and answers that were wrong."""

    absent: float
    present: float
    scan: float
    expected_absent: float
    wrong_answers: int


def options_of(task: Task) -> lsmkv.Options:
    """The options of its store: the defaults scaled down, the cache off."""
    default = lsmkv.Options()
    return lsmkv.Options(
        compaction=task.style,
        size_ratio=task.size_ratio,
        error_rate=task.error_rate,
        filter_allocation=task.allocation,
        write_buffer_size_bytes=default.write_buffer_size_bytes // SCALE,
        table_size_bytes=default.table_size_bytes // SCALE,
        level1_size_bytes=default.level1_size_bytes // SCALE,
        read_compaction_rate_bytes=0,  # the tree is to be what writing makes of it
        block_cache_size_bytes=0,
        compression="none",
    )


def measure(task: Task, directory: str) -> Row:
    """Load a store below ``directory``, and count."""
    model = Model(task.key_count, task.seed)
    states: list[State] = []
    reads: list[Reads] = []
    chunk_s: list[float] = []
    with lsmkv.open(os.path.join(directory, "store"), options_of(task)) as db:
        for operations in chunks(task.load, task.key_count, task.chunk_count, task.seed):
            before = db.stats()
            written = model.apply(operations)
            started = time.perf_counter()
            _write(db, written)
            chunk_s.append(time.perf_counter() - started)
            states.append(_state(db, before, user_bytes(operations), model))
            if len(states) > task.chunk_count // 2 and len(states) % task.stride == 0:
                draw = random.Random(f"reads/{task.seed}/{len(states)}")
                reads.append(_reads(db, model, draw, states[-1].expected_absent_reads))
        total = db.stats()
    return _row(task, states, reads, total, chunk_s)


def _write(db: lsmkv.DB, written: Sequence[tuple[bytes, bytes | None]]) -> None:
    with db.write_batch() as batch:
        for key, value in written:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
    db.flush()
    db.wait_until_settled()


def _state(db: lsmkv.DB, before: lsmkv.Stats, given_bytes: int, model: Model) -> State:
    done = db.stats() - before
    store = db.inspect()
    live = model.live_numbers()
    return State(
        user_bytes=given_bytes,
        written_bytes=done.flush_bytes + done.compaction_write_bytes,
        live_bytes=len(live) * ENTRY_BYTES,
        stored_bytes=store.size_bytes,
        run_count=sum(len(level.runs) for level in store.levels),
        level_count=sum(1 for level in store.levels[1:] if level.runs),
        entry_count=store.entry_count,
        filter_bytes=store.filter_bytes,
        expected_absent_reads=write_cost.expected_absent_reads(store, live),
    )


def _reads(db: lsmkv.DB, model: Model, draw: random.Random, expected_absent: float) -> Reads:
    live = model.live_numbers().tolist()
    absent = [absent_key(number) for number in draw.choices(live, k=ABSENT_LOOKUPS)]
    present = draw.choices(live, k=PRESENT_LOOKUPS)
    starts = [draw.randrange(len(live)) for _ in range(SCANS)]
    marks = [db.stats().block_reads]
    wrong = sum(1 for key in absent if db.get(key) is not None)
    marks.append(db.stats().block_reads)
    wrong += sum(1 for number in present if db.get(present_key(number)) != model.value(number))
    marks.append(db.stats().block_reads)
    for start in starts:
        expected = live[start : start + SCAN_ENTRIES]
        found = list(islice(db.items(start=present_key(live[start])), SCAN_ENTRIES))
        wrong += found != [(present_key(number), model.value(number)) for number in expected]
    marks.append(db.stats().block_reads)
    spent = [after - before for before, after in pairwise(marks)]
    return Reads(
        spent[0] / ABSENT_LOOKUPS,
        spent[1] / PRESENT_LOOKUPS,
        spent[2] / SCANS,
        expected_absent,
        wrong,
    )


def write_amplification(states: Sequence[State]) -> float:
    """Bytes of tables written, by flushes and compactions, over bytes handed to the store."""
    return sum(state.written_bytes for state in states) / sum(state.user_bytes for state in states)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _row(
    task: Task,
    states: Sequence[State],
    reads: Sequence[Reads],
    total: lsmkv.Stats,
    chunk_s: Sequence[float],
) -> Row:
    late = states[task.chunk_count // 2 :]
    ends = [len(late) * part // WINDOWS for part in range(WINDOWS + 1)]
    windows = [write_amplification(late[low:high]) for low, high in pairwise(ends)]
    space = [state.stored_bytes / state.live_bytes for state in late]
    runs = [state.run_count for state in late]
    levels = [state.level_count for state in late]
    absent = [each.absent for each in reads]
    present = [each.present for each in reads]
    scan = [each.scan for each in reads]
    return Row(
        load=task.load,
        style=task.style,
        size_ratio=task.size_ratio,
        error_rate=task.error_rate,
        allocation=task.allocation,
        key_space_count=task.key_count,
        operation_count=task.chunk_count * CHUNK_ENTRIES,
        seed=task.seed,
        live_bytes=states[-1].live_bytes,
        user_bytes=sum(state.user_bytes for state in states),
        flush_bytes=total.flush_bytes,
        compaction_write_bytes=total.compaction_write_bytes,
        compaction_read_bytes=total.compaction_read_bytes,
        compaction_count=total.compactions,
        tables_moved_count=total.tables_moved,
        write_amplification=write_amplification(late),
        write_amplification_min=min(windows),
        write_amplification_max=max(windows),
        write_amplification_expected=write_cost.write_amplification(
            task.style, task.size_ratio, max(levels)
        ),
        write_burst_max=max(state.written_bytes / state.user_bytes for state in late),
        space_amplification_mean=_mean(space),
        space_amplification_min=min(space),
        space_amplification_max=max(space),
        run_count_mean=_mean(runs),
        run_count_min=min(runs),
        run_count_max=max(runs),
        level_count=max(levels),
        filter_bytes_per_key=_mean(
            [state.filter_bytes / (state.live_bytes / ENTRY_BYTES) for state in late]
        ),
        filter_bytes_per_entry=_mean([state.filter_bytes / state.entry_count for state in late]),
        sample_count=len(reads),
        absent_reads_mean=_mean(absent),
        absent_reads_min=min(absent),
        absent_reads_max=max(absent),
        absent_reads_expected_mean=_mean([each.expected_absent for each in reads]),
        absent_reads_expected_max=max(state.expected_absent_reads for state in late),
        absent_lookup_count=len(reads) * ABSENT_LOOKUPS,
        absent_block_reads=round(sum(absent) * ABSENT_LOOKUPS),
        present_reads_mean=_mean(present),
        present_reads_min=min(present),
        present_reads_max=max(present),
        scan_reads_mean=_mean(scan),
        scan_reads_min=min(scan),
        scan_reads_max=max(scan),
        wrong_answers=sum(each.wrong_answers for each in reads),
        run_counts=" ".join(str(state.run_count) for state in states),
        load_s=sum(chunk_s),
        chunk_s_max=max(chunk_s),
    )
