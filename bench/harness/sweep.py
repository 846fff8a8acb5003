"""Runs an experiment's tasks: one after the other, or in processes.

A task is data, and a module's function measures it, so any ``concurrent.futures.Executor`` will do.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from . import plugins

T = TypeVar("T")
M = TypeVar("M")
Step = Callable[[str], None]


def sweep(
    measure: Callable[[T, str], M],
    tasks: Sequence[T],
    executor: Executor | None,
    *,
    work: str | None = None,
    plugin_files: Sequence[str] = (),
    step: Step = lambda _: None,
) -> list[M]:
    """The results of ``measure(task, directory)`` in order of tasks; the first error cancels others."""
    if executor is None:
        results = []
        for task in tasks:
            results.append(_run(measure, task, work, plugin_files))
            step(str(task))
        return results
    futures: dict[Future[M], int] = {}
    try:
        for number, task in enumerate(tasks):
            futures[executor.submit(_run, measure, task, work, plugin_files)] = number
        found: dict[int, M] = {}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            step(str(tasks[futures[future]]))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [found[number] for number in range(len(tasks))]


def _run(
    measure: Callable[[T, str], M], task: T, work: str | None, plugin_files: Sequence[str]
) -> M:
    plugins.load(plugin_files)
    with tempfile.TemporaryDirectory(prefix="lsmkv-bench-", dir=work) as directory:
        return measure(task, directory)


@contextmanager
def executor_for(jobs: int) -> Iterator[Executor | None]:
    """The executor of ``--jobs``; None for one job, here."""
    if jobs == 1:
        yield None
        return
    # spawn: the workers share no state, open file or thread with this process.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool
