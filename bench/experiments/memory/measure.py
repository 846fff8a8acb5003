"""Measures one store of ``memory``: writes it, and counts lookups with the cache in its steady state."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import lsmkv
from lsmkv.options import MIB, Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.reader import TableReader
from lsmkv.stats import Stats
from lsmkv.storage.storage import ReadKind, Storage

from ...engines.base import Settings
from ...engines.rocksdb_engine import RocksDBStore
from ...harness.page_storage import PageStorage
from ...harness.ribbon_sizes import fit
from ...harness.run_stores import entries_of, put_all, write_runs
from ...harness.shapes import block_keys, exact_rate
from ...workloads.keys import shuffled
from . import tasks
from .rows import Row
from .workloads import Lookups, Workload

EQUAL: Final = "equal"
_NEVER: Final = 1000
_FILL_STEP: Final = 1000
_FILL_LOOKUPS: Final = 20_000
_SMALL_BUFFER_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True)
class Store:
    """A closed store, and what its filters take."""

    path: str
    options: Options
    filter_bytes: int
    index_bytes: int
    chunk_bytes: int
    error_rate_exact: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """How filters and blocks share ``budget_bytes``; a cache below 0: filters exceed them."""

    residency: str
    budget_bytes: int
    cache_bytes: int
    budget_share: float | None = None
    row_cache_share: float | None = None


def measure(task: tasks.Task, directory: str) -> list[Row]:
    """The rows of one store below ``directory``, which is empty."""
    parts = {
        tasks.SPLIT: _split,
        tasks.RESIDENCY: _residency,
        tasks.PRESET: _preset,
        tasks.DIRECT: _direct,
    }
    return list(parts[task.part](task, directory))


def _split(task: tasks.Task, directory: str) -> Iterator[Row]:
    if task.filters == tasks.ROCKSDB:
        yield from _rocksdb(task, directory)
        return
    store = _filtered_store(task, directory)
    held_bytes = store.filter_bytes + store.index_bytes
    memories = [
        Memory("resident", budget, budget - held_bytes, share) for share, budget in _budgets(task)
    ]
    yield from _rows(task, store, memories, tasks.PRESENT_SHARES)


def _budgets(task: tasks.Task) -> list[tuple[float, int]]:
    data_bytes = task.key_count * tasks.ENTRY_BYTES
    return [(share, round(share * data_bytes)) for share in tasks.BUDGETS]


def _rocksdb(task: tasks.Task, directory: str) -> Iterator[Row]:
    """RocksDB's rows: one run, with row caches of several sizes."""
    bits = -math.log2(task.error_rate) / math.log(2)  # of a Bloom filter; 0 for a rate of 1
    settings = Settings(bits_per_key=bits, block_size_bytes=task.block_size_bytes, count=True)
    db = RocksDBStore(directory, settings)
    for key, value in entries_of(shuffled(task.key_count, task.seed), task.seed):
        db.put(key, value)
    db.compact()
    filter_bytes = db.filter_bytes()
    db.close()
    options = Options(filter_granularity="table")
    store = Store(directory, options, filter_bytes, 0, 0, None)
    for workload, (share, budget), row_share in product(
        _workloads(task, tasks.PRESENT_SHARES), _budgets(task), tasks.ROW_CACHES
    ):
        warming = workload.lookups(task.warming_lookups(workload.present_share), "warming")
        counted = workload.lookups(task.lookups(workload.present_share), "counted")
        filling = workload.filling(min(_FILL_LOOKUPS, task.lookup_count))
        held_bytes = _rocksdb_held_bytes(directory, settings, filling)
        memory = Memory("resident", budget, budget - held_bytes, share, row_share)
        found: dict[str, Any] = {}
        if memory.cache_bytes >= 0:
            row_bytes = int(memory.cache_bytes * row_share)
            sized = replace(settings, cache_size_bytes=memory.cache_bytes - row_bytes)
            db = RocksDBStore(directory, sized, row_cache_size_bytes=row_bytes)
            _ask_rocksdb(db, Lookups(filling, [True] * len(filling)))
            _ask_rocksdb(db, warming)
            found = _ask_rocksdb(db, counted)
            db.close()
            found["index_memory_bytes"] = held_bytes
        yield _row(task, store, memory, workload, found)


def _rocksdb_held_bytes(directory: str, settings: Settings, keys: list[bytes]) -> int:
    """The memory of open tables: index and filters."""
    db = RocksDBStore(directory, settings)
    try:
        for key in keys[:_FILL_STEP]:
            db.get(key)
        return db.metadata_memory_bytes()
    finally:
        db.close()


def _ask_rocksdb(db: RocksDBStore, lookups: Lookups) -> dict[str, Any]:
    before = db.counters()["data_block_reads"]
    found = sum(db.get(key) is not None for key in lookups.keys)
    return {
        "independent_lookups": lookups.independent,
        "found_count": found,
        "present_count": sum(lookups.are_present),
        "block_reads": db.counters()["data_block_reads"] - before,
    }


def _workloads(task: tasks.Task, present_shares: tuple[float, ...]) -> Iterator[Workload]:
    for law, share in product(tasks.LAWS, present_shares):
        yield Workload(law, share, task.key_count, task.seed)


def _options(task: tasks.Task) -> Options:
    return Options(
        filter_policy="bloom",
        error_rate=task.error_rate,
        filter_allocation="uniform",
        block_size_bytes=task.block_size_bytes,
        fit_pages=False,  # the same blocks with any filters
    )


def _residency(task: tasks.Task, directory: str) -> Iterator[Row]:
    base = _options(task)
    store = _write(task, os.path.join(directory, "block"), base)
    memories = [
        Memory(kind, size, size) for kind in ("resident", "cached", "off") for size in tasks.CACHES
    ]
    memories += [
        Memory(EQUAL, size, size - store.filter_bytes)
        for size in tasks.CACHES
        if size >= store.filter_bytes
    ]
    yield from _rows(task, store, memories, (0.0, 1.0))
    table = base.replace(filter_granularity="table")
    store = _write(task, os.path.join(directory, "table"), table)
    yield from _rows(
        task, store, [Memory("cached", size, size) for size in tasks.CACHES], (0.0,), tasks.LAWS[:1]
    )


def _preset(task: tasks.Task, directory: str) -> Iterator[Row]:
    """The preset, its tree at rest: one run, in the preset's tables."""
    size = tasks.preset_cache_bytes(task)
    options = Options.small_memory().replace(
        filter_policy="bloom",  # the same filters in every build
        error_rate=task.error_rate,
        block_cache_size_bytes=size,
        fit_pages=False,
    )
    loading = options.replace(
        write_buffer_size_bytes=_SMALL_BUFFER_BYTES,
        level0_compaction_trigger=_NEVER,
        level0_slowdown_trigger=_NEVER,
        level0_stop_trigger=_NEVER,
    )
    path = os.path.join(directory, "store")
    with lsmkv.open(path, loading, error_if_exists=True) as db:
        put_all(db, entries_of(shuffled(task.key_count, task.seed), task.seed))
        db.compact_range()
    memories = [Memory(kind, size, size) for kind in ("cached", "resident", "off")]
    yield from _rows(task, _store(path, options), memories, (0.0, 1.0))


def _direct(task: tasks.Task, directory: str) -> Iterator[Row]:
    """Lookups of one workload, read directly and by way of the page cache."""
    store = _filtered_store(task, directory)
    workload = Workload("uniform", 0.5, task.key_count, task.seed)
    lookups = workload.lookups(task.lookup_count, "counted")
    for is_direct in (False, True):
        storage = PageStorage(direct_reads=is_direct)
        memory = Memory("cached", 0, 0)
        try:
            with _open(store, memory, storage) as db:
                counted = _count(db, storage, lookups)
        except OSError:
            return  # this file system has no direct reads
        if is_direct:  # what the store counts is pages then
            counted["block_page_bytes"] = counted["block_read_bytes"]
            counted["filter_page_bytes"] = counted["filter_read_bytes"]
        yield _row(task, store, memory, workload, counted)


# Stores


def _filtered_store(task: tasks.Task, directory: str) -> Store:
    base = _options(task)
    first = os.path.join(directory, "first")
    if task.filters == tasks.NO_FILTER:
        return _write(task, first, base.replace(filter_policy="none"))
    bloom = _write(task, first, base)
    if task.filters == "bloom":
        return bloom
    with lsmkv.open(first, read_only=True) as db:
        filters = block_keys(db)
    tried: list[Store] = []

    def write(rate: float) -> int:
        path = os.path.join(directory, f"try-{len(tried)}")
        tried.append(_write(task, path, base.replace(filter_policy="ribbon", error_rate=rate)))
        return tried[-1].filter_bytes

    fit(filters, bloom.filter_bytes, write)
    return tried[-1]


def _write(task: tasks.Task, path: str, options: Options) -> Store:
    write_runs(path, task.key_count, task.run_count, task.seed, options)
    return _store(path, options)


def _store(path: str, options: Options) -> Store:
    chunk = index_bytes = 0
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        info = db.inspect()
        is_per_block = info.filter_bytes and options.filter_granularity == "block"
        rate = exact_rate(db) if is_per_block else None
        stats = Stats()
        for table in info.tables():
            name = os.path.join(path, table.file_name)
            reader = TableReader(Storage(stats), name, BlockCache(0, stats), None, "off")
            index = reader.index
            index_bytes += reader.index_memory_bytes
            spans = [index.chunk_span(number) for number in range(index.chunk_count)]
            largest = max(stop - start for start, stop in spans) if is_per_block else 0
            chunk = max(chunk, largest or table.filter_bytes)
    return Store(path, options, info.filter_bytes, index_bytes, chunk, rate)


# Counts


def _rows(
    task: tasks.Task,
    store: Store,
    memories: list[Memory],
    present_shares: tuple[float, ...],
    laws: tuple[str, ...] = tasks.LAWS,
) -> Iterator[Row]:
    for law in laws:
        for share in present_shares:
            workload = Workload(law, share, task.key_count, task.seed)
            warming = workload.lookups(task.warming_lookups(share), "warming")
            counted = workload.lookups(task.lookups(share), "counted")
            filling = workload.filling(min(_FILL_LOOKUPS, task.lookup_count))
            for memory in memories:
                found: dict[str, Any] = {}
                if memory.cache_bytes >= 0:
                    found = _steady(store, memory, filling, warming, counted)
                yield _row(task, store, memory, workload, found)


def _open(store: Store, memory: Memory, storage: PageStorage) -> lsmkv.DB:
    residency: Any = "resident" if memory.residency == EQUAL else memory.residency
    options = store.options.replace(
        filter_residency=residency, block_cache_size_bytes=memory.cache_bytes
    )
    return lsmkv.open(store.path, options, storage=storage, read_only=True)


def _steady(
    store: Store, memory: Memory, filling: list[bytes], warming: Lookups, counted: Lookups
) -> dict[str, Any]:
    """Counts of the lookups after the cache was filled and warmed."""
    storage = PageStorage()
    with _open(store, memory, storage) as db:
        if memory.cache_bytes:
            _fill(db, storage.stats, filling)
        _count(db, storage, warming)
        return _count(db, storage, counted)


def _fill(db: lsmkv.DB, stats: Stats, keys: list[bytes]) -> None:
    """Look keys up until the cache begins to evict."""
    get = db.get
    for at in range(0, len(keys), _FILL_STEP):
        for key in keys[at : at + _FILL_STEP]:
            get(key)
        if stats.block_cache_evictions:
            return


def _count(db: lsmkv.DB, storage: PageStorage, lookups: Lookups) -> dict[str, Any]:
    stats = storage.stats
    before, pages = db.stats(), storage.page_bytes.copy()
    get, found, wasted = db.get, 0, 0
    for key, is_present in zip(lookups.keys, lookups.are_present, strict=True):
        if is_present:
            found += get(key) is not None
        else:
            reads = stats.block_reads
            found += get(key) is not None
            wasted += stats.block_reads - reads
    done = db.stats() - before
    return {
        "independent_lookups": lookups.independent,
        "index_memory_bytes": db.memory_usage().index_bytes,
        "found_count": found,
        "present_count": sum(lookups.are_present),
        "block_reads": done.block_reads,
        "absent_block_reads": wasted,
        "block_read_bytes": done.block_read_bytes,
        "block_page_bytes": storage.page_bytes[ReadKind.DATA] - pages[ReadKind.DATA],
        "filter_reads": done.filter_reads,
        "filter_read_bytes": done.filter_read_bytes,
        "filter_page_bytes": storage.page_bytes[ReadKind.FILTER] - pages[ReadKind.FILTER],
        "evictions": done.block_cache_evictions,
    }


def _row(
    task: tasks.Task,
    store: Store,
    memory: Memory,
    workload: Workload,
    counted: dict[str, Any],
) -> Row:
    return Row(
        part=task.part,
        filters=task.filters,
        error_rate=task.error_rate,
        granularity=store.options.filter_granularity,
        residency=memory.residency,
        run_count=task.run_count,
        block_size_bytes=task.block_size_bytes,
        budget_share=memory.budget_share,
        row_cache_share=memory.row_cache_share,
        law=workload.law,
        present_share=workload.present_share,
        key_count=task.key_count,
        lookup_count=task.lookups(workload.present_share),
        data_bytes=task.key_count * tasks.ENTRY_BYTES,
        error_rate_exact=store.error_rate_exact,
        filter_bytes=store.filter_bytes,
        chunk_bytes=store.chunk_bytes or None,
        memory_bytes=memory.budget_bytes,
        cache_bytes=memory.cache_bytes if memory.cache_bytes >= 0 else None,
        **counted,
    )
