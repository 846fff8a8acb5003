"""Measures one tree with one use of filter memory: counts first, then times."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import lsmkv
from bench.experiments.granularity.contenders import Contender
from bench.experiments.granularity.expected import expect_absent, table_spans
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.shapes import BLOCK_KEYS, Load, PlannedTable, fill, plan
from bench.experiments.granularity.tasks import Effort, Task
from bench.experiments.granularity.timing import open_tables, time_store
from bench.harness.intervals import effective_trials, rate_interval
from bench.harness.shapes import filter_disk_bytes
from bench.workloads.keys import absent_key, passes, present_key
from lsmkv.inspection.store_info import StoreInfo
from lsmkv.stats import Stats
from reports.environment import build

HOT_SHARE: Final = 0.01
HOT_LOOKUPS: Final = 0.9
NEAR_KEYS: Final = 64


def measure(task: Task, directory: str) -> Row:
    """Build a tree; count and time its lookups."""
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
        index_bytes = db.memory_usage().indexes
    absent, present = keys_to_ask(load, effort)
    times = time_store(path, options, info, absent[: effort.timed], present[: effort.timed])
    return Row(
        **_settings(task, rate, info),
        **_sizes(task, tables, rate, path, info),
        index_bytes=index_bytes,
        **_counts(path, contender, absent, present),
        **_cached_counts(path, task, info.filter_memory_bytes),
        **dataclasses.asdict(times),
        lsmkv_build=build(),
        load_s=load_s,
    )


def keys_to_ask(load: Load, effort: Effort) -> tuple[list[bytes], list[bytes]]:
    """Absent and present keys in random order.

    A filter gives one answer to a key, however often it is asked: no key comes twice if there are
    enough.
    """
    draw = random.Random(f"granularity/{load.seed}")
    absent = [absent_key(number) for number in passes(range(load.entries - 1), effort.absent, draw)]
    present = [present_key(number) for number in passes(range(load.entries), effort.present, draw)]
    draw.shuffle(absent)
    draw.shuffle(present)
    return absent, present


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
        "absent_lookups": task.effort.absent,
        "present_lookups": task.effort.present,
        "cached_lookups": task.effort.cached,
        "cached_share": task.cache_share,
    }


def _sizes(
    task: Task, tables: Sequence[PlannedTable], rate: float, path: str, info: StoreInfo
) -> dict[str, Any]:
    entries, contender = info.entry_count, task.contender
    uniform = Contender(contender.granularity, contender.policy, "uniform")
    uniform_bytes = uniform.memory_bytes(tables, task.load.options(), rate)
    disk_bytes = filter_disk_bytes(info)
    runs = [run.entry_count for level in info.levels for run in level.runs]
    return {
        "runs": len(runs),
        "run_entries": tuple(runs),
        "block_keys": BLOCK_KEYS,
        "filter_bytes": info.filter_memory_bytes,
        "filter_bytes_per_key": info.filter_memory_bytes / entries,
        "filter_bits_per_key": info.filter_memory_bytes * 8 / entries,
        "same_rate_uniform_bits_per_key": uniform_bytes * 8 / entries,
        "filter_disk_bytes": disk_bytes,
        "filter_disk_bytes_per_key": disk_bytes / entries,
        "largest_filter_read_bytes": max(
            table.filters.bytes_to_read(block)
            for table in open_tables(path, info, "cached")
            for block in range(table.index.block_count)
        ),
        "store_bytes": info.size_bytes,
    }


def _look_up(db: lsmkv.DB, keys: Sequence[bytes]) -> Stats:
    before = db.stats()
    for key in keys:
        db.get(key)
    return db.stats() - before


def _probes(counted: Stats) -> int:
    """Filters asked: each answers no, rightly maybe, or wrongly maybe."""
    return counted.filter_negatives + counted.filter_true_positives + counted.filter_false_positives


def fence_searches(counted: Stats, contender: Contender) -> int:
    """Index searches if every table has filters or none has.

    With a filter per table only its "maybe" leads to a search.  Otherwise the search comes first, and
    ends between two blocks, at a filter, or at an unfiltered block.
    """
    if contender.granularity == "table" and contender.policy != "none":
        return counted.filter_true_positives + counted.filter_false_positives
    return counted.fence_negatives + _probes(counted) + counted.unfiltered_probes


def _counts(
    path: str, contender: Contender, absent: Sequence[bytes], present: Sequence[bytes]
) -> dict[str, Any]:
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        expected = expect_absent(table_spans(db), absent, contender.granularity)
        gone, here = _look_up(db, absent), _look_up(db, present)
    probes, hits = _probes(gone), gone.filter_false_positives
    asked = probes + gone.unfiltered_probes
    miscounted = abs(gone.range_negatives - expected.out_of_range) + abs(asked - expected.probes)
    if contender.granularity == "block":
        miscounted += abs(gone.fence_negatives - expected.between_blocks)
    repeated = len(absent) / effective_trials(Counter(absent).values())
    low, high = rate_interval(hits, probes, effective=probes / repeated)
    found: dict[str, Any] = {
        "absent_block_reads_expected": expected.block_reads / len(absent),
        "false_positives": hits,
        "filter_probes": probes,
        "false_positive_rate": hits / probes if probes else 1.0,
        "false_positive_rate_low": low,
        "false_positive_rate_high": high,
        "false_positive_rate_exact": expected.false_positives / expected.probes,
        "wrong_answers": gone.get_hits + len(present) - here.get_hits,
        "miscounted": miscounted,
    }
    for name, counted in (("absent", gone), ("present", here)):
        found |= {
            f"{name}_block_reads_per_lookup": counted.block_reads / counted.gets,
            f"{name}_read_bytes_per_lookup": counted.block_read_bytes / counted.gets,
            f"{name}_filter_probes_per_lookup": _probes(counted) / counted.gets,
            f"{name}_fence_searches_per_lookup": fence_searches(counted, contender) / counted.gets,
        }
    return found


def _random_order(entries: int, count: int, draw: random.Random) -> list[bytes]:
    return [absent_key(draw.randrange(entries)) for _ in range(count)]


def _hot_order(entries: int, count: int, draw: random.Random) -> list[bytes]:
    # Both passes use the same hundredth: caches know it from the first one.
    hot = random.Random(f"hot/{entries}").sample(range(entries), max(1, round(entries * HOT_SHARE)))
    return [
        absent_key(draw.choice(hot) if draw.random() < HOT_LOOKUPS else draw.randrange(entries))
        for _ in range(count)
    ]


def _near_order(entries: int, count: int, draw: random.Random) -> list[bytes]:
    keys: list[bytes] = []
    while len(keys) < count:
        start = draw.randrange(max(1, entries - NEAR_KEYS))
        keys += [absent_key(number) for number in range(start, start + NEAR_KEYS)]
    return keys[:count]


ORDERS: Final[dict[str, Callable[[int, int, random.Random], list[bytes]]]] = {
    "uniform": _random_order,
    "hot": _hot_order,
    "near": _near_order,
}
"""Orders of absent keys, by their part of column names."""


def _cached_counts(path: str, task: Task, filter_memory_bytes: int) -> dict[str, Any]:
    """The columns of cached filters, after as many warming lookups."""
    found: dict[str, Any] = {}
    count = task.effort.cached
    for name, order in ORDERS.items():
        draw = random.Random(f"cached/{task.load.seed}/{name}")
        with lsmkv.open(
            path,
            read_only=True,
            filter_residency="cached",
            block_cache_size_bytes=round(filter_memory_bytes * task.cache_share),
        ) as db:
            _look_up(db, order(task.load.entries, count, draw))
            counted = _look_up(db, order(task.load.entries, count, draw))
        found |= {
            f"cached_{name}_filter_reads_per_lookup": counted.filter_reads / count,
            f"cached_{name}_filter_read_bytes_per_lookup": counted.filter_read_bytes / count,
            f"cached_{name}_block_read_bytes_per_lookup": counted.block_read_bytes / count,
        }
    return found
