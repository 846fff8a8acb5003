"""One repetition: every engine in a process of its own, which take turns at each pass of each phase.

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

from ...engines.base import engine_named
from ...harness import plugins
from ...harness.block_device import takes_direct_reads
from ...harness.workers import Worker
from .outcome import Outcome, Passes
from .phases import PHASES
from .stores import Stores
from .tasks import Task

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase on one engine, with an outcome for each pass."""

    task: Task
    engine: str
    engine_version: str
    phase: str
    outcomes: tuple[Outcome, ...]


def measure(task: Task, directory: str) -> list[Measured]:
    """Measure every phase on every engine in turn; RuntimeError names engine and phase."""
    found: list[Measured] = []
    direct_reads = takes_direct_reads(directory)
    with ExitStack() as stack:
        workers = {engine: stack.enter_context(Worker()) for engine in task.order()}
        for engine, worker in workers.items():
            path = os.path.join(directory, engine)
            os.mkdir(path)
            _call(worker, engine, "starting", _begin, task, engine, path, direct_reads)
        versions = {name: engine_named(name).version() for name in task.engines}
        for phase in task.phases:
            outcomes: dict[str, list[Outcome]] = {engine: [] for engine in workers}
            for number in range(task.passes if PHASES[phase].repeated else 1):
                for engine in task.order(number):
                    outcome = _call(workers[engine], engine, phase, _measure_pass, phase)
                    outcomes[engine].append(outcome)
            for engine, worker in workers.items():
                _call(worker, engine, phase, _end_phase)
                found.append(
                    Measured(task, engine, versions[engine], phase, tuple(outcomes[engine]))
                )
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
_phase: list[Passes] = []


def _begin(task: Task, engine: str, directory: str, direct_reads: bool) -> None:
    plugins.load(task.plugins)
    _stores.append(Stores(task, engine, directory, direct_reads=direct_reads))
    gc.collect()
    gc.freeze()  # the collector skips modules while something is timed


def _measure_pass(name: str) -> Outcome:
    """The next pass of the phase, which the first one prepares."""
    if not _phase:
        _phase.append(PHASES[name].outcomes(_stores[0]))
    return next(_phase[0])


def _end_phase() -> None:
    _phase.pop().close()


def _end() -> None:
    _stores[0].close()
