"""Memory of stores and memtables, by store and system."""

from __future__ import annotations

import gc
import os
import shutil
from typing import Final

import lsmkv
from bench.experiments.growth import theory
from bench.experiments.growth.rows import MemtableMemory, OpenMemory
from bench.experiments.growth.tasks import VALUE_BYTES, Task
from bench.workloads.keys import KEY_BYTES, present_key

_MEMTABLE_ENTRIES: Final = 100_000
_LARGE_BUFFER_BYTES: Final = 1 << 30
_PRIVATE: Final = ("Private_Clean:", "Private_Dirty:")


def private_bytes() -> int | None:
    """This process's private memory; None if the kernel hides it."""
    gc.collect()
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            fields = [line.split() for line in file]
    except OSError:
        return None
    return sum(int(line[1]) * 1024 for line in fields if line[0] in _PRIVATE)


def _growth(before: int | None) -> int | None:
    now = private_bytes()
    return None if before is None or now is None else now - before


def measure_opening(task: Task, directory: str) -> OpenMemory:
    """Measure the memory of opening the store and using every table.

    The process has already loaded all code.
    """
    with lsmkv.open(directory + "-other", task.options()) as db:
        db[b"key"] = b"value"
        db.flush()
        db.get(b"key")
        db.inspect()
    shutil.rmtree(directory + "-other")
    before = private_bytes()
    with lsmkv.open(directory, task.options(block_cache_size_bytes=0), read_only=True) as db:
        store = db.inspect()
        private = _growth(before)
        usage = db.memory_usage()
    blocks = sum(table.block_count for table in store.tables())
    return OpenMemory(
        index_bytes=usage.indexes,
        index_bytes_expected=theory.index_bytes_per_key(store.entry_count / blocks, KEY_BYTES),
        filter_bytes=usage.filters,
        filter_bytes_expected=theory.filter_bytes_per_key(db.options.error_rate),
        open_private_bytes=private,
    )


def measure_memtable(task: Task, directory: str) -> MemtableMemory:
    """Fill a memtable with keys and values of their own objects."""
    count = min(task.entries, _MEMTABLE_ENTRIES)
    tail = os.urandom(VALUE_BYTES - 4)  # the content does not change the memory
    large = task.options(write_buffer_size_bytes=_LARGE_BUFFER_BYTES)
    with lsmkv.open(directory + "-memtable", large) as db:
        db[b"key"] = b"value"
        reported, before = db.memory_usage().memtables, private_bytes()
        for number in range(count):
            db.put(present_key(number), number.to_bytes(4, "big") + tail)
        private = _growth(before)
        reported = db.memory_usage().memtables - reported
    shutil.rmtree(directory + "-memtable")
    return MemtableMemory(
        memtable_entries=count,
        memtable_bytes_reported=reported / count,
        memtable_bytes_private=None if private is None else private / count,
    )
