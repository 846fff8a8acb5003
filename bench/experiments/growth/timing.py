"""Times: warm reads, opening, and sustained writes of single puts and of batches."""

from __future__ import annotations

import gc
import os
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy

import lsmkv
from bench.experiments.growth.rows import Batches, WarmTimes
from bench.experiments.growth.tasks import BATCH, SEEK_ENTRIES, VALUE_BYTES, Task
from bench.harness import process_meter
from bench.workloads.keys import absent_key, present_key
from lsmkv.options import Background

_MEMORY_PART: Final = 3  # a cache takes at most a third of the machine's memory
_CACHE_SLACK: Final = 1.3  # memory of cached blocks by their raw bytes, with a margin
_SCAN_ENTRIES: Final = 200_000


def _us(job: Callable[[], int]) -> float:
    """Microseconds per operation of a job, which returns their number."""
    gc.collect()  # earlier garbage must not cost time here
    started = time.perf_counter()
    count = job()
    return (time.perf_counter() - started) / count * 1e6


def measure_reads(task: Task, directory: str, repetition: int) -> WarmTimes:
    """Lookups, seeks, a scan and an opening; each repetition has other keys.

    Read compaction is off: it would drop cached blocks, and change the tree between repetitions.
    """
    with lsmkv.open(directory, read_only=True) as db:
        needed = int(_CACHE_SLACK * sum(table.raw_bytes for table in db.inspect().tables()))
    capacity = min(needed, machine_bytes() // _MEMORY_PART)
    options = task.options(block_cache_size_bytes=capacity, read_compaction_rate_bytes=0)
    return _read(task, directory, options, capacity / needed, repetition)


def machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read(
    task: Task, directory: str, options: lsmkv.Options, share: float, repetition: int
) -> WarmTimes:
    below = max(1, int(task.entries * share))
    numbers = task.sample(f"warm {repetition}", task.lookups, below)
    starts = numbers[: max(1, len(numbers) // 10)]
    scan_entries = min(task.entries, _SCAN_ENTRIES)

    def opening() -> int:
        opened.append(lsmkv.open(directory, options))
        opened[0].get(present_key(numbers[0]))
        return 1

    opened: list[lsmkv.DB] = []
    open_us = _us(opening)
    with opened[0] as db:

        def gets(keys: Sequence[bytes]) -> Callable[[], int]:
            def job() -> int:
                get = db.get
                for key in keys:
                    get(key)
                return len(keys)

            return job

        def seeks() -> int:
            for key in seek_keys:
                for _ in islice(db.items(start=key), SEEK_ENTRIES):
                    pass
            return len(seek_keys)

        def scan() -> int:
            first = present_key((task.entries - scan_entries) // 2)
            return sum(1 for _ in islice(db.items(start=first), scan_entries))

        # Keys are new objects for each pass: Python remembers the hash of a used one.
        for _pass in ("into the cache", "from it"):
            before = db.stats()
            hits = [present_key(number) for number in numbers]
            absent = [absent_key(number) for number in numbers]
            seek_keys = [present_key(number) for number in starts]
            times = [_us(gets(hits)), _us(gets(absent)), _us(seeks)]
            misses = (db.stats() - before).block_cache_misses
        scan()
        return WarmTimes(
            warm_share=share,
            warm_misses=misses,
            get_hit_us=times[0],
            get_miss_us=times[1],
            seek_us=times[2],
            scan_us=_us(scan),
            open_us=open_us,
        )


@dataclass(frozen=True, slots=True)
class Puts:
    """The columns of a sustained write of single puts."""

    put_us: float
    put_settled_us: float
    put_us_p50: float
    put_us_p99: float
    put_us_p999: float
    put_us_max: float
    slowdowns: int
    stops: int
    peak_memory_bytes: int


def measure_puts(task: Task, directory: str, background: Background, repetition: int) -> Puts:
    """Overwrite keys one by one, and time each put.

    Keys and values are made between the puts, outside the clock: objects made before would hide the
    memory of the memtable.
    """
    numbers = array("q", task.overwrites(f"puts {repetition}"))
    taken = array("q", bytes(8 * len(numbers)))
    tail = bytes(VALUE_BYTES - 8)
    clock = time.perf_counter_ns
    memory_before = process_meter.restart_peak_memory()
    with lsmkv.open(directory, task.options(background=background)) as db:
        put = db.put
        for place, number in enumerate(numbers):
            key, value = present_key(number), place.to_bytes(8, "big") + tail
            began = clock()
            put(key, value)
            taken[place] = clock() - began
        began = clock()
        db.flush()
        db.wait_until_settled()
        settling = clock() - began
        peak = process_meter.peak_memory_bytes() - memory_before
        stats = db.stats()
    each = numpy.array(taken) / 1000
    at = [float(found) for found in numpy.percentile(each, (50, 99, 99.9, 100))]
    return Puts(
        put_us=float(each.mean()),
        put_settled_us=float(each.mean()) + settling / 1000 / len(each),
        put_us_p50=at[0],
        put_us_p99=at[1],
        put_us_p999=at[2],
        put_us_max=at[3],
        slowdowns=stats.write_slowdowns,
        stops=stats.write_stops,
        peak_memory_bytes=peak,
    )


def measure_batches(task: Task, directory: str, repetition: int) -> Batches:
    """Overwrite keys in batches of 1000, made outside the clock."""
    numbers = task.overwrites(f"batches {repetition}")
    tail = bytes(VALUE_BYTES - 8)
    taken = 0.0
    with lsmkv.open(directory, task.options()) as db:
        for start in range(0, len(numbers), BATCH):
            pairs = [
                (present_key(number), number.to_bytes(8, "big") + tail)
                for number in numbers[start : start + BATCH]
            ]
            began = time.perf_counter()
            with db.write_batch() as batch:
                for key, value in pairs:
                    batch.put(key, value)
            taken += time.perf_counter() - began
        began = time.perf_counter()
        db.flush()
        db.wait_until_settled()
        settling = time.perf_counter() - began
    return Batches(
        batch_us=taken / len(numbers) * 1e6,
        batch_settled_us=(taken + settling) / len(numbers) * 1e6,
    )
