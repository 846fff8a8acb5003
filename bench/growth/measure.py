"""Measuring one size: its stages, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from bench.growth.counting import count_reads, watch_cache
from bench.growth.filling import fill
from bench.growth.memory import measure_memtable, measure_opening
from bench.growth.rows import ProcessPuts, Row, Setting, ThreadPuts, columns
from bench.growth.task import Task, copy_of
from bench.growth.timing import Puts, measure_batches, measure_puts, measure_reads
from lsmkv.options import Background

P = ParamSpec("P")
T = TypeVar("T")
_MODES: Final[tuple[Background, ...]] = ("thread", "process")


def alone(stage: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a stage finds in a new process, whose memory and caches nothing has touched before."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(stage, *args, **kwargs).result()


def measure(task: Task, directory: str) -> list[Row]:
    """Fill one store, and measure it: counts once, times in each repetition."""
    store = os.path.join(directory, "store")
    tree = alone(fill, task, store)
    reads = alone(count_reads, task, store)
    cache = alone(watch_cache, task, store)
    opening = alone(measure_opening, task, store)
    memtable = alone(measure_memtable, task, store)
    warm = alone(measure_reads, task, store)
    rows = []
    for repetition in range(task.repetitions):
        setting = Setting(
            entries=task.entries,
            style=task.style,
            scale=task.scale,
            lookups=task.lookups,
            window=task.window,
            repetition=repetition,
            seed=task.seed,
        )
        # Every second repetition begins with the other mode: what the machine does, it does to both.
        puts: dict[Background, Puts] = {}
        for mode in _MODES[:: 1 if repetition % 2 == 0 else -1]:
            puts[mode] = _on_a_copy(measure_puts, task, store, mode, repetition)
        batches = _on_a_copy(measure_batches, task, store, repetition)
        thread = ThreadPuts(**_named("thread", puts["thread"]))
        processes = ProcessPuts(**_named("process", puts["process"]))
        counts = (tree, reads, cache, opening, memtable)
        times = (warm[repetition], thread, processes, batches)
        rows.append(Row(**columns(setting, *counts, *times)))
    return rows


def _on_a_copy(
    stage: Callable[Concatenate[Task, str, P], T],
    task: Task,
    store: str,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What a stage that writes finds, on a copy of the store, which is removed."""
    copy = copy_of(store, store + "-copy")
    try:
        return alone(stage, task, copy, *args, **kwargs)
    finally:
        shutil.rmtree(copy)


def _named(mode: Background, puts: Puts) -> dict[str, Any]:
    """The columns of a row for the puts of one mode."""
    return {f"{mode}_{name}": figure for name, figure in asdict(puts).items()}
