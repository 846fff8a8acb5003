"""Measures one configuration of ``saved-io``: builds a store, and counts.

Counts come from lookups through the page cache, with lsmkv's block cache off: each search of a block
is a read.  The cold pass reads with ``O_DIRECT``, past the page cache, so that the operating system
counts the same reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import lsmkv

from ...harness.block_device import NOT_TOLD, block_device
from ...harness.process_meter import os_read_bytes
from ...workloads.keys import lookups
from . import rows
from .datasets import RANGES, Content, content
from .equal import measure_equal
from .limited import Limited, limited_columns, limited_pass
from .ranges import range_rows
from .stores import Built, Counted, build, count, counts
from .tasks import EqualTask, StoreTask, Task


def measure(task: Task, directory: str) -> list[rows.Row]:
    """The rows of one configuration; ``directory`` is empty."""
    if isinstance(task, EqualTask):
        return list(measure_equal(task, directory))
    return list(_measure_store(task, directory))


def _measure_store(task: StoreTask, directory: str) -> Iterator[rows.Row]:
    data = content(task.dataset, task.entries, task.seed, task.own)
    built = build(task, data, directory)
    if task.dataset in RANGES:
        yield from range_rows(task, built, directory, [key for key, _ in data.entries])
        return
    for asked in _of_trace(data.trace, directory) if data.trace else _drawn(task, data):
        keys = asked.keys
        counted = count(directory, keys)
        cold = cold_pass(directory, keys[: task.cold_lookups])
        limited = None
        if task.limited_lookups is not None:
            limited = limited_pass(directory, built.data_bytes, keys[: task.limited_lookups])
        yield _row(task, built, asked, counted, cold, limited)


@dataclass(frozen=True, slots=True)
class Asked:
    """Lookups, and the part of them whose key is there."""

    lookups_of: str
    hit_ratio: float
    keys: Sequence[bytes]


def _drawn(task: StoreTask, data: Content) -> Iterator[Asked]:
    present = [key for key, _ in data.entries]
    for hit_ratio in task.hit_ratios:
        keys = lookups(present, data.absent, hit_ratio, task.lookups, task.seed)
        yield Asked(rows.DRAWN, hit_ratio, keys)


def _of_trace(trace: Sequence[bytes], directory: str) -> Iterator[Asked]:
    """All lookups of a trace, those of absent keys, and those of present ones, as the store tells."""
    with lsmkv.open(directory, read_only=True) as db:
        held = {key: key in db for key in dict.fromkeys(trace)}
    present = [key for key in trace if held[key]]
    yield Asked(rows.TRACE, len(present) / len(trace), trace)
    if 0 < len(present) < len(trace):
        yield Asked(rows.TRACE_ABSENT, 0.0, [key for key in trace if not held[key]])
        yield Asked(rows.TRACE_PRESENT, 1.0, present)


@dataclass(frozen=True, slots=True)
class Cold:
    """The cold pass: lookups, and bytes by our count and the system's."""

    counted_bytes: int
    os_bytes: int | None
    os_check: str


def cold_pass(directory: str, keys: Sequence[bytes]) -> Cold:
    """Open the store with direct reads and look up ``keys``; the block cache is off."""
    if not keys:
        return Cold(0, None, "not told: counted only")
    before = os_read_bytes("thread-self")
    try:
        with lsmkv.open(
            directory, read_only=True, block_cache_size_bytes=0, direct_reads=True
        ) as db:
            for key in keys:
                db.get(key)
            stats = db.stats()
    except OSError as error:
        return Cold(0, None, f"not told: {error.strerror or error}")
    counted = stats.block_read_bytes + stats.filter_read_bytes + stats.index_read_bytes
    after = os_read_bytes("thread-self")
    if before is None or after is None:
        return Cold(counted, None, "not told: the system has no /proc/thread-self/io")
    if after == before and block_device(directory)["device"] == NOT_TOLD:
        return Cold(counted, None, "not told: no block device has these files")
    return Cold(counted, after - before, os_check(counted, after - before))


def os_check(counted_bytes: int, os_bytes: int) -> str:
    """Whether the system's count is ours, within 1 %.

    >>> os_check(1_000_000, 1_004_096), os_check(1_000_000, 1_020_000)
    ('agrees', 'FAILED')
    """
    close = abs(os_bytes - counted_bytes) <= rows.OS_TOLERANCE * counted_bytes
    return "agrees" if close else "FAILED"


def _row(
    task: StoreTask,
    built: Built,
    asked: Asked,
    counted: Counted,
    cold: Cold,
    limited: Limited | None,
) -> rows.Row:
    return rows.Row(
        dataset=task.dataset,
        filter_policy=task.policy,
        block_size_bytes=task.block_size_bytes,
        run_count=task.runs,
        lookups_of=asked.lookups_of,
        hit_ratio=asked.hit_ratio,
        error_rate_requested=task.error_rate,
        lookup_count=len(asked.keys),
        **counts(built, counted),
        counted_read_bytes=cold.counted_bytes,
        os_read_bytes=cold.os_bytes,
        os_check=cold.os_check,
        load_s=built.load_s,
        **limited_columns(limited),
    )
