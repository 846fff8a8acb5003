"""Measures one store of ``wasted-reads``: writes it, and counts the blocks that absent keys read.

Each engine's own counters count.  LevelDB has none, so its block cache tells: it holds what was read.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import lsmkv
from bench.engines.base import MIB, Settings, engine_named
from bench.engines.leveldb_engine import LevelDBStore
from bench.engines.rocksdb_engine import RocksDBStore
from bench.experiments.wasted_reads.leveldb_files import filter_bytes
from bench.experiments.wasted_reads.outside import outside_reads
from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.tasks import ENTRY_BYTES, NO_FILTER, Task
from bench.harness.intervals import rate_interval
from bench.harness.ribbon_sizes import fit
from bench.harness.shapes import block_count, block_keys, exact_rate, filter_disk_bytes, run_count
from lsmkv.filters.maths.sizing import filter_bytes_for

RIBBON_BITS: Final = 1.42
"""RocksDB's ribbon filters take 0.7 of the bits that they are asked to be as good as."""

_BUFFER_BYTES: Final = 256 * MIB
_LEVELDB_CACHE_BYTES: Final = 1024 * MIB
_TRIES: Final = 12
_UNUSED: Final = 0.005  # of a budget: RocksDB's setting is tried again if more is left
_HALVINGS: Final = 50
_MOST_NATS: Final = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The counts of one store."""

    setting: float
    found: int
    filter_bytes: int
    filter_disk_bytes: int
    filters_asked: int
    block_reads: int
    outside_reads: int | None
    block_count: int | None = None
    filter_false_positives: int | None = None
    error_rate_exact: float | None = None


def measure(task: Task, directory: str) -> Row:
    """Write and ask one store below ``directory``, which is empty."""
    found = _MEASURES[task.engine](task, directory)
    passed = found.filter_false_positives
    if passed is None or task.filters == NO_FILTER:
        passed = min(found.block_reads, found.filters_asked)
    low, high = rate_interval(passed, found.filters_asked)
    return Row(
        engine=task.engine,
        engine_version=engine_named(task.engine).version(),
        filters=task.filters,
        budget_bits_per_key=task.bits_per_key,
        setting=found.setting,
        entries=task.entries,
        block_size_bytes=task.block_size_bytes,
        seed=task.seed,
        passes=task.passes,
        lookups=task.passes * (task.entries - 1),
        found=found.found,
        block_count=found.block_count,
        filter_bytes=found.filter_bytes,
        filter_bits_per_key=8 * found.filter_bytes / task.entries,
        filter_disk_bytes=found.filter_disk_bytes,
        filters_asked=found.filters_asked,
        block_reads=found.block_reads,
        outside_reads=found.outside_reads,
        filter_false_positives=found.filter_false_positives,
        error_rate_measured=passed / found.filters_asked,
        error_rate_low=low,
        error_rate_high=high,
        error_rate_exact=found.error_rate_exact,
    )


def _hits(get: Callable[[bytes], bytes | None], keys: list[bytes]) -> int:
    return sum(get(key) is not None for key in keys)


def _shuffled(task: Task, number: int) -> list[bytes]:
    keys = task.absent(number)
    random.Random(f"lookups/{task.seed}/{number}").shuffle(keys)
    return keys


# lsmkv


def _measure_lsmkv(task: Task, directory: str) -> Found:
    policy, error_rate = task.filters, 0.01
    paths = [os.path.join(directory, "first")]
    if task.filters == NO_FILTER:
        _write_lsmkv(task, paths[0], policy, error_rate)
    else:
        # The blocks are the same whatever the rate.
        _write_lsmkv(task, paths[0], policy, error_rate)
        with lsmkv.open(paths[0], read_only=True) as db:
            filters = block_keys(db)

        def write(rate: float) -> int:
            paths.append(os.path.join(directory, f"try-{len(paths)}"))
            return _write_lsmkv(task, paths[-1], policy, rate)

        if policy == "ribbon":
            error_rate = fit(filters, task.budget_bytes, write)
        else:
            error_rate = bloom_rate_within(filters, task.budget_bytes)
            write(error_rate)
    return _count_lsmkv(task, paths[-1], error_rate)


def bloom_rate_within(filters: Counter[int], budget_bytes: int) -> float:
    """The lowest rate whose Bloom filters, one for each block, take ``budget_bytes`` or less."""
    low, high = 0.0, _MOST_NATS  # -ln of the rate
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rate = math.exp(-middle)
        total = sum(count * filter_bytes_for(keys, rate) for keys, count in filters.items())
        low, high = (middle, high) if total <= budget_bytes else (low, middle)
    return math.exp(-low)


def _write_lsmkv(task: Task, path: str, policy: str, error_rate: float) -> int:
    options = lsmkv.Options(
        filter_policy=policy,
        error_rate=error_rate,
        block_size_bytes=task.block_size_bytes,
        fit_pages=False,  # the same blocks with any filters
        write_buffer_size_bytes=_BUFFER_BYTES,
        compression="none",
    )
    with lsmkv.open(path, options, error_if_exists=True) as db:
        for pairs in task.batches():
            with db.write_batch() as batch:
                for key, value in pairs:
                    batch.put(key, value)
        db.compact_range()
        return db.inspect().filter_bytes


def _count_lsmkv(task: Task, path: str, error_rate: float) -> Found:
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        info = db.inspect()
        if run_count(info) != 1:
            raise ValueError(f"{path}: {run_count(info)} runs: a lookup must ask one")
        exact = exact_rate(db) if info.filter_bytes else None
        before = db.stats()
        hits = sum(_hits(db.get, _shuffled(task, number)) for number in range(task.passes))
        counted = db.stats() - before
        return Found(
            setting=error_rate if info.filter_bytes else 0.0,
            found=hits,
            filter_bytes=info.filter_bytes,
            filter_disk_bytes=filter_disk_bytes(info),
            # A block without a filter counts as asked: it is read.
            filters_asked=counted.filter_negatives
            + counted.filter_false_positives
            + counted.unfiltered_probes,
            block_reads=counted.block_reads,
            outside_reads=outside_reads(task, path, error_rate),
            block_count=block_count(info),
            filter_false_positives=counted.filter_false_positives,
            error_rate_exact=exact,
        )


# RocksDB


def _measure_rocksdb(task: Task, directory: str) -> Found:
    """The store with the setting that comes nearest to the budget, from below."""
    setting = task.bits_per_key * (RIBBON_BITS if task.filters == "ribbon" else 1.0)
    least, most = 0.0, math.inf
    for number in range(_TRIES):
        path = os.path.join(directory, f"try-{number}")
        size_bytes = _write_rocksdb(task, path, setting)
        if size_bytes > task.budget_bytes:
            most = min(most, setting)
        elif size_bytes >= task.budget_bytes * (1 - _UNUSED) or number >= _TRIES // 2:
            return _count_rocksdb(task, path, setting)
        else:
            least = max(least, setting)
        guess = setting * task.budget_bytes / size_bytes * (1 - _UNUSED / 4)
        setting = guess if least < guess < most else (least + most) / 2
    raise SystemExit(
        f"bench: {task}: no setting of RocksDB's filters fits {task.budget_bytes:,} bytes: give more "
        "--bits or --entries"
    )


def _rocksdb(task: Task, path: str, setting: float, count: bool) -> RocksDBStore:
    settings = Settings(
        bits_per_key=setting,  # a Bloom policy; any policy asks the filters of all kinds
        cache_size_bytes=0,
        write_buffer_size_bytes=_BUFFER_BYTES,
        block_size_bytes=task.block_size_bytes,
        count=count,
    )
    return RocksDBStore(
        path, settings, ribbon_bits_per_key=setting if task.filters == "ribbon" else 0.0
    )


def _write_rocksdb(task: Task, path: str, setting: float) -> int:
    store = _rocksdb(task, path, setting, count=False)
    for pairs in task.batches():
        store.put_batch(pairs)
    store.compact()
    size_bytes = store.filter_bytes()
    store.close()
    return size_bytes


def _count_rocksdb(task: Task, path: str, setting: float) -> Found:
    store = _rocksdb(task, path, setting, count=True)
    before = store.counters()
    hits = sum(_hits(store.get, _shuffled(task, number)) for number in range(task.passes))
    counted = {name: count - before[name] for name, count in store.counters().items()}
    size_bytes, blocks = store.filter_bytes(), store.data_block_count()
    store.close()
    return Found(
        setting=setting,
        found=hits,
        filter_bytes=size_bytes,
        filter_disk_bytes=size_bytes,
        filters_asked=task.passes * (task.entries - 1),
        block_reads=counted["data_block_reads"],
        outside_reads=outside_reads(task, path, setting),
        block_count=blocks,
        filter_false_positives=counted["filter_positives"],
    )


# LevelDB


def _measure_leveldb(task: Task, directory: str) -> Found:
    """The store with the budget as its bits per key, a whole number."""
    store = _leveldb(task, directory)
    for pairs in task.batches():
        store.put_batch(pairs)
    store.compact()
    store.close()
    # Within a round no two keys are in the same block, so every read adds to a new block cache.
    stride = 2 * task.block_size_bytes // ENTRY_BYTES + 1
    hits = reads = 0
    for number in range(task.passes):
        keys = task.absent(number)
        for first in range(stride):
            store = _leveldb(task, directory)
            found, read = _read_leveldb(store, keys[first::stride])
            store.close()
            hits, reads = hits + found, reads + read
    size_bytes = filter_bytes(directory)
    return Found(
        setting=round(task.bits_per_key),
        found=hits,
        filter_bytes=size_bytes,
        filter_disk_bytes=size_bytes,
        filters_asked=task.passes * (task.entries - 1),
        block_reads=reads,
        outside_reads=outside_reads(task, directory, round(task.bits_per_key)),
    )


def _leveldb(task: Task, path: str) -> LevelDBStore:
    settings = Settings(
        bits_per_key=task.bits_per_key,
        cache_size_bytes=_LEVELDB_CACHE_BYTES,
        write_buffer_size_bytes=_BUFFER_BYTES,
        block_size_bytes=task.block_size_bytes,
        compression="zstd",  # which is Snappy here: only compressed blocks come into the block cache
    )
    return LevelDBStore(path, settings)


def _read_leveldb(store: LevelDBStore, keys: list[bytes]) -> tuple[int, int]:
    """Keys that were found, and blocks that were read."""
    get, cached_bytes = store.get, store.cached_bytes
    hits = reads = 0
    before = cached_bytes()
    for key in keys:
        hits += get(key) is not None
        after = cached_bytes()
        reads += after != before
        before = after
    return hits, reads


_MEASURES: Final[dict[str, Callable[[Task, str], Any]]] = {
    "lsmkv": _measure_lsmkv,
    "rocksdb": _measure_rocksdb,
    "leveldb": _measure_leveldb,
}
