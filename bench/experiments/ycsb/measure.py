"""Measures an engine in a group of workloads, in its own process."""

from __future__ import annotations

import gc
import os
import time
from typing import Any, Final

import numpy

from ...engines.base import Store, engine_named
from ...harness import plugins
from ...harness.intervals import percentile
from ...harness.workers import alone
from ...workloads.distributions import generator, uniform
from ...workloads.keys import Values
from .drive import Dictionary, Driven, drive
from .keys import record_keys
from .rows import NOT_A_TIME, OPERATION_TIMES, PERCENTILES, Row
from .tasks import Task
from .workloads import (
    LOAD,
    VALUE_BYTES,
    WORKLOADS,
    Kind,
    Operations,
    loading,
    most_inserts,
    operations_of,
)

CHECKED: Final = 1000  # records read back after each workload


def measure(task: Task, directory: str) -> list[Row]:
    """Measure in a new process, with nothing left in memory."""
    return alone(measure_here, task, directory)


def measure_here(task: Task, directory: str) -> list[Row]:
    """The rows of one task, the load and each workload; none of an engine without counters."""
    plugins.load(task.plugin_files)
    if task.settings.count and not _counts(task, directory):
        return []
    return _Run(task, directory).rows()


def _counts(task: Task, directory: str) -> bool:
    """Whether the engine counts anything."""
    path = os.path.join(directory, "empty")
    os.mkdir(path)
    store = engine_named(task.engine).open(path, task.settings)
    try:
        return bool(store.counters())
    finally:
        store.close()


class _Run:
    """A running task: the store's directory, and the expected values of its records."""

    def __init__(self, task: Task, directory: str) -> None:
        self._task = task
        self._directory = os.path.join(directory, "store")
        os.mkdir(self._directory)
        self._seed = str(task.seed)
        most = sum(most_inserts(WORKLOADS[name], task.operations) for name in task.workloads)
        self._keys = record_keys(task.records + most)
        self._values = Values(VALUE_BYTES, task.seed)
        self._value_numbers = numpy.zeros(len(self._keys), dtype=numpy.int64)
        self._present = 0

    def rows(self) -> list[Row]:
        task = self._task
        rows = [self._row(LOAD, loading(self._keys[: task.records], self._values))]
        for name in task.workloads:
            operations = operations_of(
                WORKLOADS[name],
                self._keys,
                self._present,
                task.operations,
                self._values,
                self._seed,
            )
            rows.append(self._row(name, operations))
        return rows

    def _open(self) -> Store:
        return engine_named(self._task.engine).open(self._directory, self._task.settings)

    def _row(self, name: str, operations: Operations) -> Row:
        task, present = self._task, self._present
        store = self._open()
        try:
            # The collector must not search the benchmark's own objects while the clock runs.
            gc.collect()
            gc.freeze()
            before = store.counters()
            driven = drive(store, operations)
            after = store.counters()
            began = time.perf_counter()
            store.settle()
            settled_s = time.perf_counter() - began
            self._note_writes(operations)
            wrong = self._wrong(store, name)
        finally:
            store.close()
        return Row(
            engine=task.engine,
            engine_version=engine_named(task.engine).version(),
            workload=name,
            group="".join(task.workloads),
            is_timed=not task.settings.count,
            records=task.records,
            operations=len(operations),
            cache_size_bytes=task.settings.cache_size_bytes,
            write_buffer_size_bytes=task.settings.write_buffer_size_bytes,
            bits_per_key=task.settings.bits_per_key,
            present_records=present,
            read_count=operations.count(Kind.READ),
            update_count=operations.count(Kind.UPDATE),
            insert_count=operations.count(Kind.INSERT),
            scan_count=operations.count(Kind.SCAN),
            rmw_count=operations.count(Kind.RMW),
            found_count=driven.found,
            scanned_entries=driven.scanned,
            wrong_count=wrong,
            data_block_reads=_difference("data_block_reads", before, after),
            filter_negatives=_difference("filter_negatives", before, after),
            **(NOT_A_TIME if task.settings.count else self._times(operations, driven, settled_s)),
        )

    def _times(self, operations: Operations, driven: Driven, settled_s: float) -> dict[str, Any]:
        """The columns that are times, by name."""
        entries = dict.fromkeys(self._keys[: self._present], b"")
        floor = drive(Dictionary(entries), operations)
        found: dict[str, Any] = {
            "operations_per_s": len(operations) / (driven.elapsed_ns / 1e9),
            "us_per_operation": driven.elapsed_ns / 1e3 / len(operations),
            "loop_us_per_operation": floor.elapsed_ns / 1e3 / len(operations),
            "settle_s": settled_s,
        }
        kinds = numpy.array(operations.kinds)
        for kind, prefix in OPERATION_TIMES.items():
            took_us = driven.took_ns[kinds == kind] / 1e3
            found |= {f"{prefix}_us_p{part}": percentile(took_us, part) for part in PERCENTILES}
        return found

    def _note_writes(self, operations: Operations) -> None:
        written = operations.value_numbers >= 0
        # The last of several writes to a record remains.
        self._value_numbers[operations.numbers[written]] = operations.value_numbers[written]
        self._present += operations.count(Kind.INSERT)

    def _wrong(self, store: Store, name: str) -> int:
        """The number of sampled records without their last written value."""
        draw = generator("ycsb check", self._seed, name)
        return sum(
            store.get(self._keys[number]) != self._values.of(int(self._value_numbers[number]))
            for number in uniform(self._present, CHECKED, draw).tolist()
        )


def _difference(name: str, before: dict[str, int], after: dict[str, int]) -> int | None:
    """The growth of a counter; None if the engine does not have it."""
    return after[name] - before[name] if name in after else None
