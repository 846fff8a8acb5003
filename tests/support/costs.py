"""Counts what one kind of operation of the counted kinds costs, without a clock.

Counted are the bytecode instructions that the interpreter executes and the Python functions that it
calls (``sys.settrace`` with ``f_trace_opcodes``), in the thread that asks and in those that the store
starts meanwhile, and what the store counts itself.  Instructions see a loop that goes round more
often, calls stand out when one more is made for each key.  Both are the same from run to run,
waiting apart: how often a thread is woken is up to the system, so ``threading`` is left out.  What
one C function does is not seen (sorting more, copying more): for that there is
``tools.instructions``.
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
from bench.workloads.operations import COUNTED
from lsmkv.filters import bloom

COMPILED = not str(bloom.__file__).endswith(".py")
_NOT_COUNTED = (operations.__file__, threading.__file__)


@dataclass(frozen=True, slots=True)
class Cost:
    """What all operations of one kind cost together.

    Attributes:
        instructions: bytecode instructions executed.
        calls: Python functions called, and generators resumed.
        counters: what of :class:`lsmkv.Stats` repeats exactly, by name; those that stayed zero are
            left out.
    """

    instructions: int
    calls: int
    counters: dict[str, int]


class _Tracer:
    """Counts calls and instructions of every frame but those of the operations themselves."""

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
    """What the operations of the kind ``name`` cost, in a store that is made in ``directory``."""
    kind = COUNTED[name]
    keys = operations.Keys()
    operations.make_counted_store(directory, keys)
    tracer = _Tracer()
    traced = sys.gettrace()
    try:
        with lsmkv.open(directory, kind.options) as db:
            work = kind.begin(db, keys)
            before = db.stats()
            gc.disable()  # finalizers of others would be counted
            threading.settrace(tracer.enter)  # the store starts its threads when it needs them
            sys._getframe().f_trace_opcodes = True  # or Python 3.12 leaves out the first ones
            sys.settrace(tracer.enter)
            work()
            cost = Cost(tracer.instructions, tracer.calls, _exact(db.stats() - before))
    finally:  # the store's threads have ended; Python 3.12 may crash when they are traced no more
        sys.settrace(traced)
        threading.settrace(None)
        gc.enable()
    return cost


def _exact(stats: lsmkv.Stats) -> dict[str, int]:
    """The counters that are whole numbers other than zero and no times."""
    counted = {item.name: getattr(stats, item.name) for item in fields(stats)}
    return {
        name: value
        for name, value in counted.items()
        if type(value) is int and value and not name.endswith("_ns")
    }
