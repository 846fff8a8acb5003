"""One repetition: every engine in a process of its own, which take turns at each phase.

All processes are alive at once, and one works at a time, so that drift of the machine hits all
engines alike.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import bench.engines  # registers the built-in ones  # noqa: F401
from bench.engines.base import engine_named
from bench.experiments.peers.outcome import Outcome
from bench.experiments.peers.phases import PHASES
from bench.experiments.peers.stores import Stores
from bench.experiments.peers.tasks import Task
from bench.harness import plugins, process_meter
from bench.harness.workers import Worker

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase on one engine."""

    task: Task
    engine: str
    engine_version: str
    phase: str
    outcome: Outcome


def measure(task: Task, directory: str) -> list[Measured]:
    """Measure every phase on every engine in turn.

    Raises:
        RuntimeError: an engine failed; the message names engine and phase.
    """
    found: list[Measured] = []
    direct_reads = process_meter.takes_direct_reads(directory)
    with ExitStack() as stack:
        workers = {engine: stack.enter_context(Worker()) for engine in task.order()}
        for engine, worker in workers.items():
            path = os.path.join(directory, engine)
            os.mkdir(path)
            _call(worker, engine, "starting", _begin, task, engine, path, direct_reads)
        versions = {name: engine_named(name).version() for name in task.engines}
        for phase in task.phases:
            for engine, worker in workers.items():
                outcome = _call(worker, engine, phase, _measure_phase, phase)
                found.append(Measured(task, engine, versions[engine], phase, outcome))
        for engine, worker in workers.items():
            _call(worker, engine, "closing", _end)
    return found


def _call(
    worker: Worker,
    engine: str,
    what: str,
    function: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    try:
        return worker.call(function, *args, **kwargs)
    except Exception as error:
        raise RuntimeError(f"{engine}: {what} failed: {error!r}") from error


# These run in the workers, each of which has the stores of one engine.

_stores: list[Stores] = []


def _begin(task: Task, engine: str, directory: str, direct_reads: bool) -> None:
    plugins.load(task.plugins)
    _stores.append(Stores(task, engine, directory, direct_reads=direct_reads))
    gc.collect()
    gc.freeze()  # the collector skips modules while something is timed


def _measure_phase(name: str) -> Outcome:
    return PHASES[name](_stores[0])


def _end() -> None:
    _stores[0].close()
