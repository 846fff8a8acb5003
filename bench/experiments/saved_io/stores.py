"""The stores of ``saved-io``: writes them, counts lookups in them, and states what their filters cost.

Counts come from lookups with lsmkv's block cache off: each search of a block is a read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lsmkv

from ...harness.filter_answers import Answers, answers, section_bytes
from ...harness.intervals import Interval
from ...harness.run_stores import put_all, settings_of_runs
from ...harness.shapes import exact_rate, filter_disk_bytes
from ...workloads.keys import chunks
from .datasets import PREFIXES, RANGES, Content
from .tasks import StoreTask


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
    filter_page_bytes: int
    index_memory_bytes: int
    index_page_bytes: int
    filter_build_ns: int
    load_s: float


def build(task: StoreTask, data: Content, directory: str) -> Built:
    """Write the store: ``task.runs`` runs, each with every ``runs``-th entry of a random order."""
    policy = "bloom" if task.policy in PREFIXES else task.policy
    options = lsmkv.Options(
        error_rate=0.01 if task.error_rate is None else task.error_rate,
        filter_policy="none" if task.error_rate is None else policy,
        filter_key=filter_key(task),
        block_size_bytes=task.block_size_bytes,
        fit_pages=False,  # the same blocks with any filters
    )
    entries = list(data.entries)
    random.Random(f"order/{task.seed}").shuffle(entries)
    entries.sort(key=lambda entry: entry[0] not in data.first)
    began = time.perf_counter()
    with lsmkv.open(directory, settings_of_runs(options), error_if_exists=True) as db:
        for part in chunks(entries, task.runs):
            put_all(db, part)
            db.flush()
        load_s = time.perf_counter() - began
        view = db.inspect()
        sections = section_bytes(directory, view)
        return Built(
            entry_count=view.entry_count,
            table_count=len(list(view.tables())),
            block_count=view.block_count,
            data_bytes=view.size_bytes,
            error_rate_exact=None if task.error_rate is None else exact_rate(db),
            filter_bytes=view.filter_bytes,
            filter_disk_bytes=filter_disk_bytes(view),
            filter_memory_bytes=view.filter_memory_bytes,
            filter_page_bytes=sections.filter_page_bytes,
            index_memory_bytes=sections.index_memory_bytes,
            index_page_bytes=sections.index_page_bytes,
            filter_build_ns=db.stats().filter_build_ns,
            load_s=load_s,
        )


def filter_key(task: StoreTask) -> lsmkv.filters.FilterKey:
    """The part of keys that the store's filters hold."""
    if task.policy not in PREFIXES:
        return lsmkv.WholeKey()
    return lsmkv.FixedPrefix(RANGES[task.dataset] - PREFIXES[task.policy])


@dataclass(frozen=True, slots=True)
class Counted:
    """The lookups of some keys, counted twice: by the store, and filter by filter."""

    stats: lsmkv.Stats
    answers: Answers

    @property
    def miscounted(self) -> int:
        """By how much the two counts differ, all together."""
        stats, found = self.stats, self.answers
        pairs = (
            (stats.filter_false_positives, sum(found.hits)),
            (stats.filter_negatives + stats.filter_false_positives, sum(found.trials)),
            (stats.block_reads, found.block_reads),
            (stats.block_read_bytes, found.block_read_bytes),
        )
        return sum(abs(ours - theirs) for ours, theirs in pairs)


def count(directory: str, keys: Sequence[bytes]) -> Counted:
    """Look ``keys`` up in a newly opened, uncached store."""
    with lsmkv.open(directory, read_only=True, block_cache_size_bytes=0) as db:
        for key in keys:
            db.get(key)
        stats = db.stats()
    return Counted(stats, answers(directory, keys))


def counts(built: Built, counted: Counted) -> dict[str, Any]:
    """The columns that are counted."""
    stats, found = counted.stats, counted.answers
    trials = sum(found.trials)
    return {
        "found_count": stats.get_hits,
        **rate_columns(found.interval()),
        "filters_asked_half": _most_asked(found.trials),
        "filter_trials": trials,
        "filter_negatives": stats.filter_negatives,
        "filter_false_positives": stats.filter_false_positives,
        "miscounted": counted.miscounted,
        "data_block_reads": stats.block_reads,
        "data_block_read_bytes": stats.block_read_bytes,
        "data_block_page_bytes": found.block_page_bytes,
        "filter_reads": stats.filter_reads,
        "filter_read_bytes": stats.filter_read_bytes,
        "filter_page_bytes": built.filter_page_bytes,
        "index_read_bytes": stats.index_read_bytes,
        "index_page_bytes": built.index_page_bytes,
        **shape_and_costs(built),
    }


def rate_columns(rate: Interval | None) -> dict[str, Any]:
    return {
        "error_rate_measured": rate.rate if rate else None,
        "error_rate_low": rate.low if rate else None,
        "error_rate_high": rate.high if rate else None,
        "design_effect": rate.design_effect if rate else None,
    }


def _most_asked(trials: Sequence[int]) -> int:
    """The fewest filters that half of the questions went to.

    >>> _most_asked([1, 7, 1, 1]), _most_asked([2, 2, 2, 2])
    (1, 2)
    """
    left, count = sum(trials) / 2, 0
    for asked in sorted(trials, reverse=True):
        if left <= 0:
            break
        left -= asked
        count += 1
    return count


def shape_and_costs(built: Built) -> dict[str, Any]:
    keys = built.entry_count
    return {
        "entry_count": keys,
        "table_count": built.table_count,
        "block_count": built.block_count,
        "data_bytes": built.data_bytes,
        "error_rate_exact": built.error_rate_exact,
        "filter_bytes": built.filter_bytes,
        "filter_bits_per_key": 8 * built.filter_bytes / keys,
        "filter_bytes_per_key": built.filter_bytes / keys,
        "filter_disk_bytes_per_key": built.filter_disk_bytes / keys,
        "filter_memory_bytes_per_key": built.filter_memory_bytes / keys,
        "index_memory_bytes_per_key": built.index_memory_bytes / keys,
        "filter_build_ns_per_key": built.filter_build_ns / keys,
    }
