"""The timed loop: operations done to a store one after the other, with the clock around each."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

import numpy

from bench.experiments.ycsb.workloads import Kind, Operations
from bench.workloads.distributions import Numbers


class Target(Protocol):
    """What the loop needs of a :class:`bench.engines.base.Store`."""

    get: Callable[[bytes], bytes | None]
    put: Callable[[bytes, bytes], object]

    def scan(self, start: bytes | None, limit: int | None) -> int:
        """Walk over up to ``limit`` entries from ``start`` on; how many there were."""


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of it.

    Attributes:
        elapsed_ns: from before the first operation to after the last.
        took_ns: each operation's time.
        found: reads, those of read-modify-writes included, that gave a value.
        scanned: entries that scans walked over.
    """

    elapsed_ns: int
    took_ns: Numbers
    found: int
    scanned: int


def drive(store: Target, operations: Operations) -> Driven:
    """Do the operations, in order."""
    read, scan, rmw = int(Kind.READ), int(Kind.SCAN), int(Kind.RMW)
    found = scanned = 0
    took = array("q")
    note, clock = took.append, perf_counter_ns
    began = clock()
    for kind, key, value, length in zip(
        operations.kinds, operations.keys, operations.values, operations.lengths, strict=True
    ):
        started = clock()
        if kind == read:
            # store.get anew each time: after a write a store may have put another one there.
            if store.get(key) is not None:
                found += 1
        elif kind == scan:
            scanned += store.scan(key, length)
        else:
            if kind == rmw and store.get(key) is not None:
                found += 1
            store.put(key, value)
        note(clock() - started)
    elapsed = clock() - began
    return Driven(elapsed, numpy.array(took, dtype=numpy.int64), found, scanned)


class Dictionary:
    """A Python dict in a store's place, which does not scan: what the loop itself takes."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.get: Callable[[bytes], bytes | None] = entries.get
        self.put: Callable[[bytes, bytes], object] = entries.__setitem__

    def scan(self, start: bytes | None, limit: int | None) -> int:
        """Nothing."""
        return 0
