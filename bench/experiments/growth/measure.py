"""Measures sizes side by side: each stage is of one size, in a process of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from bench.experiments.growth.counting import count_reads, watch_cache
from bench.experiments.growth.filling import fill
from bench.experiments.growth.memory import measure_memtable, measure_opening
from bench.experiments.growth.rows import ProcessPuts, Row, Setting, ThreadPuts, columns
from bench.experiments.growth.tasks import Sizes, Task, copy_of
from bench.experiments.growth.timing import Puts, measure_batches, measure_puts, measure_reads
from bench.harness.workers import alone
from lsmkv.options import Background

P = ParamSpec("P")
T = TypeVar("T")
_MODES: Final[tuple[Background, ...]] = ("thread", "process")


def measure(sizes: Sizes, directory: str) -> list[Row]:
    """Fill a store of each size and count; then take times, of every size in each repetition."""
    stores = {task: os.path.join(directory, str(task.entries)) for task in sizes.tasks}
    counts = {task: _counts(task, store) for task, store in stores.items()}
    rows = []
    for repetition in range(sizes.tasks[0].repetitions):
        # The order alternates, so that drift of the machine hits all sizes alike.
        for task in sizes.tasks[:: 1 if repetition % 2 == 0 else -1]:
            times = _times(task, stores[task], repetition)
            rows.append(Row(**columns(_setting(task, repetition), *counts[task], *times)))
    return sorted(rows, key=lambda row: (row.entries, row.repetition))


def _counts(task: Task, store: str) -> tuple[Any, ...]:
    """The parts of a row that are the same in each repetition."""
    tree = alone(fill, task, store)
    reads = alone(count_reads, task, store)
    cache = alone(watch_cache, task, store)
    opening = alone(measure_opening, task, store)
    return tree, reads, cache, opening, alone(measure_memtable, task, store)


def _times(task: Task, store: str, repetition: int) -> tuple[Any, ...]:
    """The parts of a row that one repetition adds."""
    warm = alone(measure_reads, task, store, repetition)
    puts: dict[Background, Puts] = {}
    for mode in _MODES[:: 1 if repetition % 2 == 0 else -1]:
        puts[mode] = _on_a_copy(measure_puts, task, store, mode, repetition)
    batches = _on_a_copy(measure_batches, task, store, repetition)
    thread = ThreadPuts(**_named("thread", puts["thread"]))
    return warm, thread, ProcessPuts(**_named("process", puts["process"])), batches


def _setting(task: Task, repetition: int) -> Setting:
    return Setting(
        entries=task.entries,
        style=task.style,
        scale=task.scale,
        lookups=task.lookups,
        window=task.window,
        repetition=repetition,
        seed=task.seed,
    )


def _on_a_copy(
    stage: Callable[Concatenate[Task, str, P], T],
    task: Task,
    store: str,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """The result of a stage that writes: on a copy of the store, which is then removed."""
    copy = copy_of(store, store + "-copy")
    try:
        return alone(stage, task, copy, *args, **kwargs)
    finally:
        shutil.rmtree(copy)


def _named(mode: Background, puts: Puts) -> dict[str, Any]:
    """The columns of a row for the puts of one mode."""
    return {f"{mode}_{name}": figure for name, figure in asdict(puts).items()}
