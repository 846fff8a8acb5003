"""Replays a trace on one engine, in a process of its own whose read calls are counted from outside.

The engine replays it twice.  The first time only the writes, which tells how many bytes of filters and
indexes the tree has when it has most of them; the second time all of it, with a block cache of the rest
of the memory.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final
from unittest.mock import patch

import lsmkv

from ...engines.base import KIB, Settings, Store, engine_named
from ...engines.leveldb_engine import map_taker
from ...engines.lsmkv_engine import LsmkvStore
from ...engines.rocksdb_engine import RocksDBStore
from ...harness import plugins
from ...harness.block_trace import BlockTrace, write_oracle_general
from ...harness.process_meter import Calls, KernelCalls
from ...harness.read_counter import FileReads, Preloaded, best_way, preloaded
from ...harness.workers import alone
from .rows import Row
from .steps import Step, Survey, Who, steps, survey
from .tasks import Task

_LEAST_CACHE_BYTES: Final = 8 * KIB
_ROOM: Final = 4  # buffers in a write buffer: only settling flushes
_LEVEL1_TABLES: Final = 8  # as in lsmkv's defaults
_POOL_BYTES: Final = 1 << 20
_STRIDE: Final = 7919  # a prime: values of neighbours differ
_QUIET_S: Final = 0.01
_QUIET_LOOKS: Final = 4
_MOST_LOOKS: Final = 1000
_LOOKUPS: Final = frozenset[Who](("absent", "present"))


def measure(task: Task, directory: str) -> list[Row]:
    """Replay in a new process that loads the counting library, if there is a C compiler."""
    with ExitStack() as stack:
        library = stack.enter_context(preloaded()) if best_way() == "preload" else None
        if library is not None:
            stack.enter_context(patch.dict(os.environ, library.environment))
        return alone(measure_here, task, directory, library)


def measure_here(task: Task, directory: str, library: Preloaded | None) -> list[Row]:
    """The rows of one task, in this process."""
    plugins.load(task.plugin_files)
    kept = map_taker(os.path.join(directory, "maps"), True) if task.engine == "leveldb" else None
    found = survey(task.trace)
    writes = _Replay(task, os.path.join(directory, "writes"), found, None)
    for step in writes.steps():
        if step.who in ("write", "settle"):
            writes.do(step)
        if step.who == "settle":
            writes.metadata_bytes = max(writes.metadata_bytes, writes.store.metadata_bytes())
    writes.touch()
    writes.store.close()
    whole = _Replay(task, os.path.join(directory, "whole"), found, library, writes.metadata_bytes)
    rows = whole.rows()
    if task.blocks:
        blocks = BlockTrace()
        noted = _Replay(task, os.path.join(directory, "blocks"), found, None, blocks=blocks)
        for step in noted.steps():
            noted.do(step)
        noted.store.close()
        write_oracle_general(task.blocks, blocks.accesses)
    whole.store.close()
    del kept
    return rows


def _once_quiet(kernel: KernelCalls) -> Calls:
    """The calls so far, once there are no more: LevelDB compacts because of reads, in a thread."""
    calls, same = kernel.so_far(), 0
    for _ in range(_MOST_LOOKS):
        time.sleep(_QUIET_S)
        later = kernel.so_far()
        same = same + 1 if later == calls else 0
        if same == _QUIET_LOOKS:
            break
        calls = later
    return calls


@dataclass(slots=True)
class _Tally:
    """What one window counts."""

    operations: set[int] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    calls: dict[Who, Calls] = field(default_factory=dict)
    wrong: int = 0
    block_reads: int | None = None
    outside_reads: int | None = None
    maps: int | None = None


class _Replay:
    """One pass over a trace, in a new store.

    Attributes:
        metadata_bytes: of filters and indexes, which the memory has beside the cache.
    """

    def __init__(
        self,
        task: Task,
        path: str,
        found: Survey,
        library: Preloaded | None,
        metadata_bytes: int = 0,
        blocks: BlockTrace | None = None,
    ) -> None:
        os.mkdir(path)
        self._task, self._path, self._found, self._library = task, path, found, library
        self._engine = engine_named(task.engine)
        self.metadata_bytes = metadata_bytes
        self._cache_bytes = max(_LEAST_CACHE_BYTES, task.memory_bytes - metadata_bytes)
        self._blocks = blocks
        self._now_s = 0
        self._noise = random.Random(f"values/{task.seed}").randbytes(_POOL_BYTES)
        self.store = self._opened()

    def _opened(self) -> Store:
        task, buffer_bytes = self._task, self._task.trace.buffer_bytes
        settings = Settings(
            bits_per_key=task.bits_per_key,
            cache_size_bytes=self._cache_bytes,
            write_buffer_size_bytes=_ROOM * buffer_bytes,
            count=True,
        )
        if task.engine == "lsmkv":
            options = lsmkv.Options(
                filter_policy=task.policy,
                block_cache_size_bytes=0 if self._blocks else self._cache_bytes,
                write_buffer_size_bytes=_ROOM * buffer_bytes,
                level1_size_bytes=_LEVEL1_TABLES * buffer_bytes,
                table_size_bytes=buffer_bytes,
                compression="none",
                background="thread",  # its reads are this process's
                read_around=False,  # it looks at single bytes, to see what memory keeps
                read_compaction_rate_bytes=0,  # when they come depends on time
            )
            return LsmkvStore(
                self._path, settings, options, lambda: float(self._now_s), self._blocks
            )
        if task.engine == "rocksdb":
            return RocksDBStore(self._path, settings, table_size_bytes=buffer_bytes)
        return self._engine.open(self._path, settings)

    def steps(self) -> Iterator[Step]:
        return steps(self._task.trace, self._found.keys, expires=self._engine.expires)

    def touch(self) -> None:
        """Ask once in each way, so that nothing is imported later."""
        self.store.get(b"-")
        self.store.multi_get([b"-"])
        self.store.scan(None, 1)
        self.store.counters()

    def do(self, step: Step) -> bool:
        """Do a step, and return whether its answer is right."""
        store, operation = self.store, step.operation
        self._now_s = step.now_s
        if step.who in _LOOKUPS:
            return (store.get(operation.keys[0]) is not None) == bool(step.expected)
        if step.who == "multi-get":
            found = store.multi_get(operation.keys)
            return len(found) - found.count(None) == step.expected
        if step.who == "scan":
            # All engines stop at the last entry of the range: not all can be given its end.
            limit = step.expected
            return store.scan(operation.keys[0], limit, operation.is_reverse) == limit
        if step.who == "settle":
            store.settle()
        elif operation.kind == "delete":
            store.delete(operation.keys[0])
        elif operation.ttl_s and self._engine.expires:
            store.put_expiring(operation.keys[0], self._value(step), operation.ttl_s)
        else:
            store.put(operation.keys[0], self._value(step))
        return True

    def _value(self, step: Step) -> bytes:
        size_bytes = step.operation.value_bytes
        start = step.number * _STRIDE % _POOL_BYTES
        found = self._noise[start : start + size_bytes]
        while len(found) < size_bytes:
            found += self._noise[: size_bytes - len(found)]
        return found

    def rows(self) -> list[Row]:
        """Replay all of the trace, and count by window."""
        tallies = [_Tally() for _ in range(min(self._task.windows, self._found.operations))]
        kernel = KernelCalls()

        def window_of(step: Step) -> int:
            return step.number * len(tallies) // self._found.operations

        for window, steps_of in groupby(self.steps(), window_of):
            read = list(steps_of)  # now: the trace is a file, too
            tally, before = tallies[window], self._outside()
            self._count(tally, read, kernel)
            if before is not None:
                tally.outside_reads = self._reads_since(before)
                tally.maps = before.maps
        return [self._row(window, tally) for window, tally in enumerate(tallies)]

    def _outside(self) -> FileReads | None:
        return None if self._library is None else self._library.reads().under(self._path)

    def _count(self, tally: _Tally, steps_of: Sequence[Step], kernel: KernelCalls) -> None:
        def add(who: Who, made: Calls) -> None:
            tally.calls[who] = tally.calls.get(who, Calls()).plus(made)

        blocks = self._block_reads()
        before = kernel.so_far()
        for who, same in groupby(steps_of, lambda step: step.who):
            is_aside = who not in _LOOKUPS and who != "write"
            blocks_before = self._block_reads() if is_aside else None
            outside_before = None
            if who == "settle" and self._library is not None:
                add(who, _once_quiet(kernel).since(before))
                outside_before = self._outside()
                before = kernel.so_far()
            for step in same:
                tally.operations.add(step.number)
                tally.done[step.operation.kind if who == "write" else who] += 1
                tally.done["entries"] += step.expected if who == "scan" else 0
                tally.wrong += not self.do(step)
            now = _once_quiet(kernel) if who == "settle" else kernel.so_far()
            made = now.since(before)
            if outside_before is not None:
                # Threads that end and begin make the C library read a file of its own.
                made = made._replace(reads=self._reads_since(outside_before))
                now = kernel.so_far()
            add(who, made)
            before = now
            if blocks is not None and blocks_before is not None:
                blocks += (self._block_reads() or 0) - blocks_before
        add("settle", _once_quiet(kernel).since(before))
        if blocks is not None:
            tally.block_reads = (self._block_reads() or 0) - blocks

    def _reads_since(self, before: FileReads) -> int:
        after = self._outside()
        assert after is not None
        return after.calls - before.calls

    def _block_reads(self) -> int | None:
        """Data blocks, filters and indexes that lookups and scans have read; None: it does not count."""
        counters = self.store.counters()
        if "data_block_reads" not in counters:
            return None
        return counters["data_block_reads"] + counters.get("metadata_reads", 0)

    def _row(self, window: int, tally: _Tally) -> Row:
        task = self._task

        def calls(who: Who) -> Calls:
            return tally.calls.get(who, Calls())

        compactions = calls("write").plus(calls("settle"))
        lookups = calls("absent").plus(calls("present")).plus(calls("multi-get"))
        return Row(
            engine=task.engine,
            engine_version=self._engine.version(),
            policy=task.policy,
            trace=os.path.basename(task.trace.path),
            format=task.trace.format,
            window=window,
            buffer_bytes=task.trace.buffer_bytes,
            memory_bytes=task.memory_bytes,
            metadata_bytes=self.metadata_bytes,
            cache_bytes=self._cache_bytes,
            operations=len(tally.operations),
            puts=tally.done["put"],
            deletes=tally.done["delete"],
            absent_lookups=tally.done["absent"],
            present_lookups=tally.done["present"],
            multi_gets=tally.done["multi-get"],
            scans=tally.done["scan"],
            scanned_entries=tally.done["entries"],
            wrong_answers=tally.wrong,
            lookup_block_reads=tally.block_reads,
            absent_reads=calls("absent").reads,
            present_reads=calls("present").reads,
            multi_get_reads=calls("multi-get").reads,
            scan_reads=calls("scan").reads,
            compaction_reads=compactions.reads,
            lookup_read_bytes=lookups.read_bytes,
            scan_read_bytes=calls("scan").read_bytes,
            compaction_read_bytes=compactions.read_bytes,
            written_bytes=sum(each.written_bytes for each in tally.calls.values()),
            outside_reads=tally.outside_reads,
            maps=tally.maps,
        )
