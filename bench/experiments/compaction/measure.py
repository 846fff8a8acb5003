"""Measures one configuration: loads a store chunk by chunk, and inspects it after each.

The store is settled after every chunk, so that compactions do not depend on timing: all counts repeat
for a seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

import lsmkv

from ...harness import write_cost
from ...harness.shapes import run_count
from ...workloads.keys import absent_key, present_key
from .loads import ENTRY_BYTES, Model, chunks, user_bytes
from .rows import Row
from .tasks import Task

ABSENT_LOOKUPS: Final = 800
PRESENT_LOOKUPS: Final = 200
SCANS: Final = 10
SCAN_ENTRIES: Final = 100
WINDOWS: Final = 4


@dataclass(frozen=True, slots=True)
class State:
    """The tree after a chunk, and the bytes that the chunk wrote."""

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
    """Data blocks read per operation in one tree, and wrong answers."""

    absent: float
    present: float
    scan: float
    expected_absent: float
    wrong_answers: int


def measure(task: Task, directory: str) -> Row:
    """Load a store below ``directory``, and count."""
    model = Model(task.key_count, task.seed)
    states: list[State] = []
    reads: list[Reads] = []
    load_s = 0.0
    with lsmkv.open(os.path.join(directory, "store"), task.options()) as db:
        for operations in chunks(task.load, task.key_count, task.chunk_count, task.seed):
            before = db.stats()
            written = model.apply(operations)
            started = time.perf_counter()
            _write(db, written)
            load_s += time.perf_counter() - started
            states.append(_state(db, before, user_bytes(operations), model))
            if len(states) > task.chunk_count // 2 and len(states) % task.stride == 0:
                draw = random.Random(f"reads/{task.seed}/{len(states)}")
                reads.append(_reads(db, model, draw, states[-1].expected_absent_reads))
        total = db.stats()
    return _row(task, states, reads, total, load_s)


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
        run_count=run_count(store),
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
    """Bytes written to tables, per byte that the user wrote."""
    return sum(state.written_bytes for state in states) / sum(state.user_bytes for state in states)


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """The columns of the mean and the most."""
    return {f"{name}_mean": sum(values) / len(values), f"{name}_max": max(values)}


def _row(
    task: Task,
    states: Sequence[State],
    reads: Sequence[Reads],
    total: lsmkv.Stats,
    load_s: float,
) -> Row:
    return Row(
        load=task.load,
        style=task.style,
        size_ratio=task.size_ratio,
        error_rate=task.error_rate,
        allocation=task.allocation,
        key_space_count=task.key_count,
        live_bytes=states[-1].live_bytes,
        user_bytes=sum(state.user_bytes for state in states),
        flush_bytes=total.flush_bytes,
        compaction_write_bytes=total.compaction_write_bytes,
        compaction_read_bytes=total.compaction_read_bytes,
        **_tree_columns(task, states[task.chunk_count // 2 :]),
        **_read_columns(reads),
        run_counts=" ".join(str(state.run_count) for state in states),
        load_s=load_s,
    )


def _tree_columns(task: Task, states: Sequence[State]) -> dict[str, Any]:
    """The columns of the second half of the load."""
    ends = [len(states) * part // WINDOWS for part in range(WINDOWS + 1)]
    windows = [write_amplification(states[low:high]) for low, high in pairwise(ends)]
    level_count = max(state.level_count for state in states)
    per_key = [state.filter_bytes / (state.live_bytes / ENTRY_BYTES) for state in states]
    per_entry = [state.filter_bytes / state.entry_count for state in states]
    return {
        "write_amplification": write_amplification(states),
        "write_amplification_min": min(windows),
        "write_amplification_max": max(windows),
        "write_amplification_expected": write_cost.write_amplification(
            task.style, task.size_ratio, level_count
        ),
        "write_burst_max": max(state.written_bytes / state.user_bytes for state in states),
        **_spread("space_amplification", [s.stored_bytes / s.live_bytes for s in states]),
        **_spread("run_count", [state.run_count for state in states]),
        "level_count": level_count,
        "filter_bytes_per_key": sum(per_key) / len(per_key),
        "filter_bytes_per_entry": sum(per_entry) / len(per_entry),
        "absent_reads_expected_max": max(state.expected_absent_reads for state in states),
    }


def _read_columns(reads: Sequence[Reads]) -> dict[str, Any]:
    absent = [each.absent for each in reads]
    return {
        "sample_count": len(reads),
        "absent_reads_mean": sum(absent) / len(absent),
        "absent_reads_expected_mean": sum(each.expected_absent for each in reads) / len(reads),
        "absent_lookup_count": len(reads) * ABSENT_LOOKUPS,
        "absent_block_reads": round(sum(absent) * ABSENT_LOOKUPS),
        **_spread("present_reads", [each.present for each in reads]),
        **_spread("scan_reads", [each.scan for each in reads]),
        "wrong_answers": sum(each.wrong_answers for each in reads),
    }
