"""Measures one tree with one use of filter memory: counts alone."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import lsmkv
from lsmkv.inspection.store_info import StoreInfo
from lsmkv.stats import Stats

from ...harness.intervals import rate_interval
from ...harness.shapes import filter_disk_bytes
from ...harness.table_readers import keys_of, open_tables
from ...workloads.keys import absent_key, present_key
from . import rocksdb
from .chunks import ChunkedStore, ChunkFile, write_chunks
from .contenders import Contender
from .expected import expect_absent, table_spans
from .orders import ORDERS, passes
from .rows import Row
from .shapes import BLOCK_KEYS, PlannedTable, fill, plan
from .tasks import Task

_ROCKSDB: Final[dict[str, bool]] = {"table": False, "partition": True}
"""The granularities that RocksDB has, and whether its filters are partitioned then."""


class _Asked(Protocol):
    """A store, or a store with filters beside it."""

    def get(self, key: bytes) -> bytes | None: ...
    def stats(self) -> Stats: ...


def measure(task: Task, directory: str) -> Row:
    """Build a tree; count its lookups."""
    load, contender, effort = task.load, task.contender, task.effort
    tables = plan(load)
    rate = task.rate(tables)
    options = contender.options(load.options(), rate)
    path = os.path.join(directory, "store")
    began = time.perf_counter()
    with lsmkv.open(path, options) as db:
        fill(db, load)
        load_s = time.perf_counter() - began
        info = db.inspect()
        index_bytes = db.memory_usage().index_bytes
    filters = None
    if contender.chunk_bytes:
        rates = [table.error_rate(options) for table in tables]
        beside = os.path.join(directory, "filters")
        filters = write_chunks(path, info, rates, contender.chunk_bytes, beside)
    store = _Store(path, info, filters)
    draw = random.Random(f"granularity/{load.seed}")
    absent = absent_keys(load.entries, effort.absent, draw)
    present = [present_key(draw.randrange(load.entries)) for _ in range(effort.present)]
    return Row(
        **_settings(task, rate, info),
        **_sizes(task, tables, rate, store),
        index_bytes=index_bytes,
        absent_lookups=len(absent),
        **_counts(store, contender, absent, present),
        **_cached_counts(store, task),
        **_rocksdb_counts(directory, store, task),
        load_s=load_s,
    )


@dataclass(frozen=True, slots=True)
class _Store:
    """A store as built, and the filters beside it."""

    path: str
    info: StoreInfo
    filters: ChunkFile | None

    @property
    def filter_bytes(self) -> int:
        return self.info.filter_memory_bytes if self.filters is None else self.filters.filter_bytes

    @contextmanager
    def opened(self, cache_bytes: int | None = None) -> Iterator[_Asked]:
        """The store with filters cached within so many bytes; None: resident, and no cache."""
        if self.filters is not None:
            with ChunkedStore(self.path, self.info, self.filters, cache_bytes) as chunked:
                yield chunked
            return
        with lsmkv.open(
            self.path,
            read_only=True,
            filter_residency="resident" if cache_bytes is None else "cached",
            block_cache_size_bytes=cache_bytes or 0,
        ) as db:
            yield db

    def largest_filter_read_bytes(self) -> int:
        if self.filters is not None:
            return max(chunk.length for chunk in self.filters.chunks())
        return max(
            table.filters.bytes_to_read(block)
            for table in open_tables(self.path, self.info, "cached")
            for block in range(table.index.block_count)
        )


def absent_keys(entries: int, count: int, draw: random.Random) -> list[bytes]:
    """Absent keys without repetition: ``count``, or all between two present keys if these are fewer."""
    between = entries - 1
    return [absent_key(number) for number in draw.sample(range(between), min(count, between))]


def _settings(task: Task, rate: float, info: StoreInfo) -> dict[str, Any]:
    contender = task.contender
    return {
        "style": task.load.style,
        "granularity": contender.granularity,
        "policy": contender.policy,
        "allocation": contender.allocation,
        "budget_bits_per_key": task.budget,
        "error_rate": rate,
        "entries": info.entry_count,
        "shape": " ".join(
            f"{level.number}:{run.entry_count}" for level in info.levels for run in level.runs
        ),
        "present_lookups": task.effort.present,
        "cached_lookups": task.effort.cached,
        "cached_share": task.cache_share,
    }


def _sizes(
    task: Task, tables: Sequence[PlannedTable], rate: float, store: _Store
) -> dict[str, Any]:
    info, filters, contender = store.info, store.filters, task.contender
    entries = info.entry_count
    uniform = Contender(contender.granularity, contender.policy, "uniform")
    uniform_bytes = uniform.memory_bytes(tables, task.load.options(), rate)
    disk_bytes = filter_disk_bytes(info) if filters is None else filters.filter_bytes
    runs = [run.entry_count for level in info.levels for run in level.runs]
    return {
        "runs": len(runs),
        "run_entries": tuple(runs),
        "block_keys": BLOCK_KEYS,
        "filter_bytes": store.filter_bytes,
        "filter_bytes_per_key": store.filter_bytes / entries,
        "filter_bits_per_key": store.filter_bytes * 8 / entries,
        "chunk_index_bytes": 0 if filters is None else filters.index_bytes,
        "same_rate_uniform_bits_per_key": uniform_bytes * 8 / entries,
        "filter_disk_bytes": disk_bytes,
        "filter_disk_bytes_per_key": disk_bytes / entries,
        "largest_filter_read_bytes": store.largest_filter_read_bytes(),
        "store_bytes": info.size_bytes + (0 if filters is None else filters.filter_bytes),
    }


def _look_up(db: _Asked, keys: Sequence[bytes]) -> Stats:
    before = db.stats()
    for key in keys:
        db.get(key)
    return db.stats() - before


def _probes(counted: Stats) -> int:
    """Filters asked: each answers no, rightly maybe, or wrongly maybe."""
    return counted.filter_negatives + counted.filter_true_positives + counted.filter_false_positives


def index_searches(counted: Stats, contender: Contender) -> int:
    """Searches of an index of blocks: only after a maybe with a filter per table or chunk."""
    if contender.asks_filter_first:
        return counted.filter_true_positives + counted.filter_false_positives
    return _probes(counted) + counted.unfiltered_probes


def _counts(
    store: _Store, contender: Contender, absent: Sequence[bytes], present: Sequence[bytes]
) -> dict[str, Any]:
    with lsmkv.open(store.path, read_only=True, block_cache_size_bytes=0) as db:
        spans = table_spans(db, store.filters)
    expected = expect_absent(spans, absent)
    with store.opened() as db:
        gone = _look_up(db, absent)
        chunk_searches = getattr(db, "chunk_searches", 0)
        here = _look_up(db, present)
    probes, hits = _probes(gone), gone.filter_false_positives
    asked = probes + gone.unfiltered_probes
    miscounted = abs(gone.range_negatives - expected.out_of_range) + abs(asked - expected.probes)
    low, high = rate_interval(hits, probes)
    found: dict[str, Any] = {
        "absent_block_reads_expected": expected.block_reads / len(absent),
        "false_positives": hits,
        "filter_probes": probes,
        "false_positive_rate": hits / probes if probes else 1.0,
        "false_positive_rate_low": low,
        "false_positive_rate_high": high,
        "false_positive_rate_exact": expected.block_reads / expected.probes,
        "absent_chunk_searches_per_lookup": chunk_searches / len(absent),
        "wrong_answers": gone.get_hits + len(present) - here.get_hits,
        "miscounted": miscounted,
    }
    for name, counted in (("absent", gone), ("present", here)):
        found |= {
            f"{name}_block_reads_per_lookup": counted.block_reads / counted.gets,
            f"{name}_read_bytes_per_lookup": counted.block_read_bytes / counted.gets,
            f"{name}_filter_probes_per_lookup": _probes(counted) / counted.gets,
            f"{name}_index_searches_per_lookup": index_searches(counted, contender) / counted.gets,
        }
    return found


def _cached_counts(store: _Store, task: Task) -> dict[str, Any]:
    """The columns of cached filters, after as many warming lookups."""
    found: dict[str, Any] = {}
    count = task.effort.cached
    for name in ORDERS:
        warming, keys = passes(name, task.load.entries, count, task.load.seed)
        with store.opened(_cache_bytes(store, task)) as db:
            _look_up(db, warming)
            counted = _look_up(db, keys)
        found |= {
            f"cached_{name}_filter_reads_per_lookup": counted.filter_reads / count,
            f"cached_{name}_filter_read_bytes_per_lookup": counted.filter_read_bytes / count,
            f"cached_{name}_block_read_bytes_per_lookup": counted.block_read_bytes / count,
        }
    return found


def _cache_bytes(store: _Store, task: Task) -> int:
    return round(store.filter_bytes * task.cache_share)


def _rocksdb_counts(directory: str, store: _Store, task: Task) -> dict[str, Any]:
    """RocksDB's own counts of cached filters, where it has such filters and is installed."""
    contender, load = task.contender, task.load
    comparable = (contender.policy, contender.allocation) == ("bloom", "uniform")
    partitioned = _ROCKSDB.get(contender.granularity)
    if task.budget is None or not comparable or partitioned is None or not rocksdb.is_installed():
        return {}
    tables = [keys_of(table) for table in open_tables(store.path, store.info, "off")]
    wanted = rocksdb.RocksFilters(task.budget, partitioned)
    return rocksdb.count_filter_reads(
        directory, tables, wanted, load, task.effort.cached, _cache_bytes(store, task)
    )
