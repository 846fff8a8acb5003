"""The timed loop: one operation after the other, with the clock around each."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

import numpy

from ...workloads.distributions import Numbers
from .workloads import Kind, Operations


class Target(Protocol):
    """The part of :class:`bench.engines.base.Store` that the loop needs."""

    get: Callable[[bytes], bytes | None]
    put: Callable[[bytes, bytes], object]

    def scan(self, start: bytes | None, limit: int | None) -> int:
        """Walk over up to ``limit`` entries, and return their number."""


@dataclass(frozen=True, slots=True)
class Driven:
    """The times of the operations, and their results.

    Attributes:
        elapsed_ns: from before the first operation to after the last.
        took_ns: the time of each operation.
        found: reads that returned a value, those of read-modify-writes included.
        scanned: entries that scans walked over.
    """

    elapsed_ns: int
    took_ns: Numbers
    found: int
    scanned: int


def drive(store: Target, operations: Operations) -> Driven:
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
            # The store may have replaced ``get`` after a write.
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
    """A dict without scans in a store's place: it times the loop."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.get: Callable[[bytes], bytes | None] = entries.get
        self.put: Callable[[bytes, bytes], object] = entries.__setitem__

    def scan(self, start: bytes | None, limit: int | None) -> int:
        """Nothing."""
        return 0
