"""The stores of ``saved-io``: writes them, counts lookups in them, and states what their filters cost.

Counts come from lookups with lsmkv's block cache off: each search of a block is a read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import lsmkv
from bench.experiments.saved_io.datasets import Dataset
from bench.experiments.saved_io.tasks import StoreTask
from bench.harness.intervals import rate_interval
from bench.harness.shapes import block_count, exact_rate, filter_disk_bytes
from bench.workloads.keys import chunks

_NEVER: Final = 1000
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class Built:
    """The shape of a new store, and the cost of its filters."""

    entry_count: int
    table_count: int
    block_count: int
    data_bytes: int
    error_rate_exact: float | None
    filter_bytes: int
    filter_disk_bytes: int
    filter_memory_bytes: int
    filter_build_ns: int
    load_s: float


def build(task: StoreTask, data: Dataset, directory: str) -> Built:
    """Write the store: ``task.runs`` runs, each with every ``runs``-th entry of a random order."""
    options = lsmkv.Options(
        error_rate=0.01 if task.error_rate is None else task.error_rate,
        filter_policy="none" if task.error_rate is None else task.policy,
        block_size_bytes=task.block_size_bytes,
        compression="none",
        write_buffer_size_bytes=4096 * lsmkv.options.MIB,
        level0_compaction_trigger=_NEVER,
        level0_slowdown_trigger=_NEVER,
        level0_stop_trigger=_NEVER,
    )
    entries = list(data.entries)
    random.Random(f"order/{task.seed}").shuffle(entries)
    began = time.perf_counter()
    with lsmkv.open(directory, options, error_if_exists=True) as db:
        for part in chunks(entries, task.runs):
            for at in range(0, len(part), _BATCH):
                with db.write_batch() as batch:
                    for key, value in part[at : at + _BATCH]:
                        batch.put(key, value)
            db.flush()
        load_s = time.perf_counter() - began
        view = db.inspect()
        return Built(
            entry_count=view.entry_count,
            table_count=len(list(view.tables())),
            block_count=block_count(view),
            data_bytes=view.size_bytes,
            error_rate_exact=None if task.error_rate is None else exact_rate(db),
            filter_bytes=view.filter_bytes,
            filter_disk_bytes=filter_disk_bytes(view),
            filter_memory_bytes=view.filter_memory_bytes,
            filter_build_ns=db.stats().filter_build_ns,
            load_s=load_s,
        )


def count(directory: str, keys: Sequence[bytes]) -> lsmkv.Stats:
    """The counters of looking up ``keys`` in a newly opened, uncached store."""
    with lsmkv.open(directory, read_only=True, block_cache_size_bytes=0) as db:
        for key in keys:
            db.get(key)
        return db.stats()


def rates(exact: float | None, counted: lsmkv.Stats) -> dict[str, Any]:
    hits = counted.filter_false_positives
    trials = hits + counted.filter_negatives
    low, high = rate_interval(hits, trials) if trials else (None, None)
    return {
        "error_rate_exact": exact,
        "error_rate_measured": hits / trials if trials else None,
        "error_rate_low": low,
        "error_rate_high": high,
        "filter_negatives": counted.filter_negatives,
        "filter_false_positives": hits,
    }


def costs(built: Built) -> dict[str, Any]:
    keys = built.entry_count
    return {
        "filter_bytes": built.filter_bytes,
        "filter_bits_per_key": 8 * built.filter_bytes / keys,
        "filter_bytes_per_key": built.filter_bytes / keys,
        "filter_disk_bytes_per_key": built.filter_disk_bytes / keys,
        "filter_memory_bytes_per_key": built.filter_memory_bytes / keys,
        "filter_build_ns_per_key": built.filter_build_ns / keys,
    }
