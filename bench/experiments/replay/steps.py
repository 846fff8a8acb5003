"""What a trace asks of a store, step by step, and what a right answer is.

The steps follow a model of the store, which is a bit for each key.  It tells lookups of present keys from
those of absent ones, and how many entries a range has, so that all engines read the same.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice
from typing import Final, Literal

from ... import traces  # noqa: F401  (registers the forms)
from ...traces.base import Operation, format_named, read_trace

Who = Literal["absent", "present", "multi-get", "scan", "write", "settle"]
"""Who asks for reads; what reads while a store settles is a flush or a compaction."""

ENTRY_BYTES: Final = 64  # of a memtable, beside key and value; about


@dataclass(frozen=True, slots=True)
class Trace:
    """A file of a form, and where its store settles.

    Attributes:
        buffer_bytes: a store settles when so much was put; 0: only at the end.
    """

    path: str
    format: str
    buffer_bytes: int = 0

    def operations(self) -> Iterator[Operation]:
        return read_trace(self.path, format_named(self.format, self.path))


@dataclass(frozen=True, slots=True)
class Survey:
    """What a trace has.

    Attributes:
        keys: all that it puts, in order.
        operations: how many; ``time`` is none.
        put_bytes: of all puts, with those of a memtable.
        entry_bytes: keys with the largest values that they get.
    """

    keys: list[bytes]
    operations: int
    put_bytes: int
    entry_bytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a store.

    Attributes:
        number: of the operation that it is for, from 0.
        now_s: the time in the trace.
        expected: keys that are there, or entries of a range.
    """

    number: int
    now_s: int
    who: Who
    operation: Operation
    expected: int = 0


def survey(trace: Trace) -> Survey:
    """Read a trace once.  ValueError, OSError: as :func:`bench.traces.base.read_trace`."""
    sizes: dict[bytes, int] = {}
    operations = put_bytes = 0
    for operation in trace.operations():
        operations += operation.kind != "time"
        if operation.kind == "put":
            (key,) = operation.keys
            put_bytes += len(key) + operation.value_bytes + ENTRY_BYTES
            sizes[key] = max(sizes.get(key, 0), operation.value_bytes)
    if not operations:
        raise ValueError(f"{trace.path}: no operations")
    entry_bytes = sum(len(key) + size for key, size in sizes.items())
    return Survey(sorted(sizes), operations, put_bytes, entry_bytes)


class Model:
    """Which keys are there."""

    def __init__(self, keys: list[bytes]) -> None:
        self.keys = keys
        self._numbers = {key: number for number, key in enumerate(keys)}
        self._here = bytearray(len(keys))
        self._due: dict[bytes, int] = {}
        self._queue: list[tuple[int, bytes]] = []

    def has(self, key: bytes) -> bool:
        number = self._numbers.get(key)
        return number is not None and self._here[number] == 1

    def put(self, key: bytes, due_s: int | None) -> None:
        self._here[self._numbers[key]] = 1
        if due_s is None:
            self._due.pop(key, None)
        else:
            self._due[key] = due_s
            heapq.heappush(self._queue, (due_s, key))

    def delete(self, key: bytes) -> None:
        self._due.pop(key, None)
        if key in self._numbers:
            self._here[self._numbers[key]] = 0

    def gone(self, now_s: int) -> Iterator[bytes]:
        """The keys that are due, which it deletes."""
        while self._queue and self._queue[0][0] <= now_s:
            due_s, key = heapq.heappop(self._queue)
            if self._due.get(key) == due_s:
                self.delete(key)
                yield key

    def count(self, operation: Operation) -> int:
        """The entries of a range, up to its limit."""
        low, high = self._places(operation)
        found = self._here.count(1, low, high)
        return found if operation.limit is None else min(found, operation.limit)

    def within(self, operation: Operation) -> list[bytes]:
        """The keys of a range, up to its limit."""
        low, high = self._places(operation)
        found = compress(self.keys[low:high], self._here[low:high])
        return list(islice(found, operation.limit))

    def _places(self, operation: Operation) -> tuple[int, int]:
        first, *end = operation.keys
        if operation.is_reverse:
            return 0, bisect_right(self.keys, first)
        high = bisect_left(self.keys, end[0]) if end else len(self.keys)
        return bisect_left(self.keys, first), high


def steps(trace: Trace, keys: list[bytes], *, expires: bool) -> Iterator[Step]:
    """The steps of a trace that puts ``keys``.

    A deleted range is a delete of each of its keys.  In a store that does not expire, so is an entry
    that is due.
    """
    model = Model(keys)
    number = -1
    now_s = put_bytes = 0
    for operation in trace.operations():
        number += operation.kind != "time"
        if operation.time_s is not None:
            now_s = max(now_s, operation.time_s)
            for key in model.gone(now_s):
                if not expires:
                    yield Step(max(number, 0), now_s, "write", Operation("delete", (key,)))
        if operation.kind == "put":
            (key,) = operation.keys
            model.put(key, now_s + operation.ttl_s if operation.ttl_s else None)
            yield Step(number, now_s, "write", operation)
            put_bytes += len(key) + operation.value_bytes + ENTRY_BYTES
            if trace.buffer_bytes and put_bytes >= trace.buffer_bytes:
                put_bytes = 0
                yield Step(number, now_s, "settle", operation)
        elif operation.kind == "get":
            is_here = model.has(operation.keys[0])
            yield Step(number, now_s, "present" if is_here else "absent", operation, int(is_here))
        elif operation.kind == "multi-get":
            yield Step(number, now_s, "multi-get", operation, sum(map(model.has, operation.keys)))
        elif operation.kind == "scan":
            yield Step(number, now_s, "scan", operation, model.count(operation))
        elif operation.kind != "time":
            is_range = operation.kind == "delete-range"
            for key in model.within(operation) if is_range else operation.keys:
                model.delete(key)
                yield Step(number, now_s, "write", Operation("delete", (key,)))
    yield Step(number, now_s, "settle", Operation("time"))
