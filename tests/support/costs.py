"""Counts what the counted kinds of operation cost, without a clock.

It counts the interpreter's bytecode instructions and calls of Python functions (``sys.settrace`` with
``f_trace_opcodes``), in the asking thread and in those that the store starts meanwhile, and it takes
the store's own counters.  Extra iterations of a loop show in the instructions, an extra call for each
key in the calls.  Both repeat from run to run, except for waiting: the system decides how often a
thread wakes, so ``threading`` is left out.  Work inside a C function (sorting or copying more) does not
show: ``tools.instructions`` counts that.
"""

from __future__ import annotations

import gc
import sys
import threading
from dataclasses import dataclass, fields
from types import FrameType
from typing import Any

import lsmkv
from bench.workloads import operations
from bench.workloads.operations import COUNTED, Work
from lsmkv.filters import bloom

COMPILED = not str(bloom.__file__).endswith(".py")
_NOT_COUNTED = (operations.__file__, threading.__file__)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of all operations of one kind together.

    Attributes:
        instructions: bytecode instructions executed.
        calls: Python functions called, and generators resumed.
        counters: counters of :class:`lsmkv.Stats` that repeat exactly, by name, without zeros.
    """

    instructions: int
    calls: int
    counters: dict[str, int]


class _Tracer:
    """Counts calls and instructions of all frames except the operations' own."""

    def __init__(self) -> None:
        self.calls = 0
        self.instructions = 0

    def enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename in _NOT_COUNTED:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self.calls += 1
        return self.within

    def within(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            self.instructions += 1
        return self.within


def measure(name: str, directory: str) -> Cost:
    """The cost of one kind of operation, in a new store."""
    kind = COUNTED[name]
    keys = operations.Keys()
    operations.make_counted_store(directory, keys, "bloom")  # the default of interpreted builds
    tracer = _Tracer()
    traced = sys.gettrace()
    try:
        with lsmkv.open(directory, kind.options.replace(filter_policy="bloom")) as db:
            work = kind.begin(db, keys)
            before = db.stats()
            gc.disable()  # finalizers of others would be counted
            threading.settrace(tracer.enter)  # the store starts its threads when it needs them
            sys._getframe().f_trace_opcodes = True  # or Python 3.12 leaves out the first ones
            sys.settrace(tracer.enter)
            work()
            cost = Cost(tracer.instructions, tracer.calls, _exact(db.stats() - before))
    finally:  # Python 3.12 may crash if tracing ends before the store's threads do
        sys.settrace(traced)
        threading.settrace(None)
        gc.enable()
    return cost


def instructions(work: Work) -> int:
    """The bytecode instructions of ``work`` in this thread."""
    tracer = _Tracer()
    traced = sys.gettrace()
    gc.disable()
    try:
        sys.settrace(tracer.enter)
        work()
    finally:
        sys.settrace(traced)
        gc.enable()
    return tracer.instructions


def _exact(stats: lsmkv.Stats) -> dict[str, int]:
    """The counters that are whole numbers other than zero, and not times."""
    counted = {item.name: getattr(stats, item.name) for item in fields(stats)}
    return {
        name: value
        for name, value in counted.items()
        if type(value) is int and value and not name.endswith("_ns")
    }
