"""Counts of random operations without a cache, and of a small cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Final

import lsmkv
from bench.experiments.growth import theory
from bench.experiments.growth.rows import CacheUse, Reads
from bench.experiments.growth.tasks import SEEK_ENTRIES, Task
from bench.workloads.keys import absent_key, present_key
from lsmkv.sstable.read_ahead import CACHED_BLOCKS

_CACHE_SHARE: Final = 32
_HOT_SHARE: Final = 4
_LEAST_CACHE_BYTES: Final = 32 * 1024
_SAMPLE_EVERY: Final = 32  # operations between two looks at the cache


def count_reads(task: Task, directory: str) -> Reads:
    """Look up keys and short ranges; count, and check every answer."""
    values = task.values()
    absent = task.sample("absent", task.lookups)
    present = task.sample("present", task.lookups)
    starts = task.sample("seeks", max(1, task.lookups // 10))
    with lsmkv.open(directory, task.options(block_cache_size_bytes=0), read_only=True) as db:
        expected = theory.expected(db.inspect(), task.entries, SEEK_ENTRIES)
        marks = [db.stats()]
        wrong = sum(db.get(absent_key(number)) is not None for number in absent)
        marks.append(db.stats())
        wrong += sum(db.get(present_key(number)) != values.of(number) for number in present)
        marks.append(db.stats())
        for start in starts:
            stop = min(task.entries, start + SEEK_ENTRIES)
            wanted = [(present_key(number), values.of(number)) for number in range(start, stop)]
            wrong += list(islice(db.items(start=present_key(start)), SEEK_ENTRIES)) != wanted
        marks.append(db.stats())
    misses, hits, seeks = (after - before for before, after in pairwise(marks))
    return Reads(
        fence_comparisons=expected.fence_comparisons,
        fence_comparisons_least=expected.fence_comparisons_least,
        absent_lookups=misses.gets,
        absent_filters=_filters_asked(misses),
        absent_filters_expected=expected.absent_filters,
        absent_false_positives=misses.filter_false_positives,
        filter_rate_expected=expected.filter_rate,
        absent_block_reads=misses.block_reads,
        absent_reads_expected=expected.absent_reads,
        present_lookups=hits.gets,
        present_filters=_filters_asked(hits),
        present_false_positives=hits.filter_false_positives,
        present_block_reads=hits.block_reads,
        present_reads_expected=expected.present_reads,
        seeks=len(starts),
        seek_block_reads=seeks.block_reads,
        seek_reads_expected=expected.seek_reads,
        seek_reads_without_fences=expected.seek_reads_without_fences,
        wrong_answers=wrong,
    )


def _filters_asked(stats: lsmkv.Stats) -> int:
    return stats.filter_negatives + stats.filter_true_positives + stats.filter_false_positives


def watch_cache(task: Task, directory: str) -> CacheUse:
    """Count the effect of a scan and lookups on cached hot keys."""
    with lsmkv.open(directory, read_only=True) as db:
        tables = list(db.inspect().tables())
    block_bytes = sum(table.raw_bytes for table in tables)
    block_count = sum(table.block_count for table in tables)
    budget = max(_LEAST_CACHE_BYTES, block_bytes // _CACHE_SHARE)
    hot_count = max(1, task.entries * budget // block_bytes // _HOT_SHARE)
    first = (task.entries - hot_count) // 2
    hot = [present_key(number) for number in range(first, first + hot_count)]
    probes = hot[:: max(1, task.entries // block_count)]  # about one for each block
    options = task.options(block_cache_size_bytes=budget)
    with lsmkv.open(directory, options, read_only=True) as db:
        for _ in range(2):  # the second lookup finds each block in the cache
            db.multi_get(hot)
        before = _hit_rate(db, probes)
        peak = db.memory_usage().block_cache
        for place, _ in enumerate(db.items()):
            if place % _SAMPLE_EVERY == 0:
                peak = max(peak, db.memory_usage().block_cache)
        after_scan = _hit_rate(db, probes)
        for place, number in enumerate(task.sample("cold", 2 * block_count // _CACHE_SHARE)):
            db.get(present_key(number))
            if place % _SAMPLE_EVERY == 0:
                peak = max(peak, db.memory_usage().block_cache)
        after_lookups = _hit_rate(db, probes)
        return CacheUse(
            cache_budget_bytes=budget,
            cache_peak_bytes=max(peak, db.memory_usage().block_cache),
            cache_evictions=db.stats().block_cache_evictions,
            scan_cached_bytes=CACHED_BLOCKS * len(tables) * block_bytes // block_count,
            hot_keys=hot_count,
            hot_hit_rate_before=before,
            hot_hit_rate_after_scan=after_scan,
            hot_hit_rate_after_lookups=after_lookups,
        )


def _hit_rate(db: lsmkv.DB, keys: Sequence[bytes]) -> float:
    """The share of the needed blocks that was in the cache."""
    before = db.stats()
    db.multi_get(keys)
    asked = db.stats() - before
    return asked.block_cache_hits / max(1, asked.block_cache_hits + asked.block_cache_misses)
