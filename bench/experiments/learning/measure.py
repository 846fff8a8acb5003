"""Counts the wasted reads of one store, with and without learning."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Final

import lsmkv
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tasks import Task
from bench.workloads.distributions import Zipfian, generator
from bench.workloads.keys import Values, absent_key, present_key, shuffled
from lsmkv.storage.storage import Storage

VALUE_BYTES: Final = 100


def measure(task: Task, directory: str) -> tuple[Row, Row]:
    """The same lookups in the same store without learning, and then with it."""
    path = os.path.join(directory, "store")
    options = lsmkv.Options(
        filter_policy="ribbon",
        error_rate=task.error_rate,
        compression="none",
        read_compaction_rate_bytes=0,
    )
    _write(path, options, task)
    absent, present = lookups(task)
    ordinary = _count(path, options, task, absent, present)
    learning = options.replace(adaptive_filters=True)
    return ordinary, _count(path, learning, task, absent, present)


def lookups(task: Task) -> tuple[list[bytes], list[bytes]]:
    """The absent keys to look up, and, if the cache is shared, a present one after each."""
    law = Zipfian.over(task.key_count)
    absent = _drawn(law, task, absent_key, "absent")
    return absent, _drawn(law, task, present_key, "present") if task.is_shared else []


def _drawn(law: Zipfian, task: Task, key_of: Callable[[int], bytes], what: str) -> list[bytes]:
    draw = generator(task.seed, "learning", what)
    seed = int(draw.integers(1 << 32))
    by_rank = [key_of(number) for number in shuffled(task.key_count, seed)]
    return [by_rank[rank] for rank in law.ranks(task.lookup_count, draw).tolist()]


def _write(path: str, options: lsmkv.Options, task: Task) -> None:
    values = Values(VALUE_BYTES, task.seed)
    order = shuffled(task.key_count, random.Random(task.seed).getrandbits(32))
    with lsmkv.open(path, options) as db:
        for number in order:
            db[present_key(number)] = values.of(number)
        db.compact_range()


def _count(
    path: str, options: lsmkv.Options, task: Task, absent: list[bytes], present: list[bytes]
) -> Row:
    storage = Storage()
    with lsmkv.open(path, storage=storage, read_only=True) as db:
        block_bytes = sum(table.stored_bytes for table in db.inspect().tables())
    cache_bytes = round(task.cache_share * block_bytes)
    storage = Storage()
    with lsmkv.open(
        path, options.replace(block_cache_size_bytes=cache_bytes), storage=storage
    ) as db:
        before = db.inspect()
        stats = storage.stats
        get, partners = db.get, iter(present)
        in_vain = passed = 0
        began = time.perf_counter()
        for key in absent:
            reads, false_positives = stats.block_reads, stats.filter_false_positives
            if get(key) is not None:
                raise AssertionError(f"{key!r} is not in the store")
            in_vain += stats.block_reads - reads
            passed += stats.filter_false_positives - false_positives
            partner = next(partners, None)
            if partner is not None and get(partner) is None:
                raise AssertionError(f"{partner!r} is in the store")
        elapsed_s = time.perf_counter() - began
        after = db.inspect()
        return Row(
            cache_share=task.cache_share,
            is_shared=task.is_shared,
            learns=options.adaptive_filters,
            repetition=task.repetition,
            seed=task.seed,
            key_count=task.key_count,
            lookup_count=len(absent),
            present_lookup_count=len(present),
            error_rate=task.error_rate,
            cache_bytes=cache_bytes,
            block_count=sum(table.block_count for table in before.tables()),
            asked_keys=len(set(absent)),
            wasted_reads=in_vain,
            false_positives=passed,
            lessons=db.stats().filter_lessons,
            filter_bits_per_key=8 * after.filter_memory_bytes / task.key_count,
            filter_bits_per_key_before=8 * before.filter_memory_bytes / task.key_count,
            lookup_us=1e6 * elapsed_s / (len(absent) + len(present)),
        )
