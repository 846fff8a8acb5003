"""Counts the wasted reads of one store, with and without learning."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Final

import lsmkv
from bench.experiments.learning import rivals
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tasks import CACHES, DRIFT, HOT_BLOCK, Task
from bench.workloads.distributions import Zipfian, exact_ranks, generator
from bench.workloads.keys import Values, absent_key, present_key, shuffled
from lsmkv.storage.storage import Storage

VALUE_BYTES: Final = 100
DRIFT_PARTS: Final = 10


def measure(task: Task, directory: str) -> tuple[Row, ...]:
    """The same lookups in the same store without learning, with it, and by its rivals."""
    path = os.path.join(directory, "store")
    options = lsmkv.Options(
        filter_policy="ribbon",
        error_rate=task.error_rate,
        fit_pages=False,  # the same blocks with any filters
        compression="none",
        read_compaction_rate_bytes=0,
    )
    _write(path, options, task)
    if task.load == CACHES:
        absent, present = lookups(task)
    else:
        absent, present = list(drawn(task)), []
    ordinary = _count(path, options, task, absent, present)
    learning = _count(path, options.replace(adaptive_filters=True), task, absent, present)
    if task.load == CACHES:
        return ordinary, learning
    passing = _passing(path, absent)
    again = sum(key in passing for key in absent)
    first = len(passing)
    ordinary = dataclasses.replace(ordinary, counted_again=again)
    learning = dataclasses.replace(learning, counted_again=first)
    keys = [present_key(number) for number in range(task.key_count)]
    learnt_bytes = round(learning.learnt_bits_per_key * task.key_count / 8)
    found = [
        rivals.lru([key for key in absent if key in passing], learnt_bytes),
        rivals.stacked(absent, passing, keys),
        rivals.adaptive_quotient(absent, keys),
    ]
    return (
        ordinary,
        learning,
        *(
            dataclasses.replace(
                ordinary,
                how=rival.name,
                wasted_reads=rival.reads,
                false_positives=rival.reads,
                counted_again=-1,
                learnt_bits_per_key=rival.bits / task.key_count,
                filter_bits_per_key=0.0,
                filter_bits_per_key_before=0.0,
            )
            for rival in found
        ),
    )


def _passing(path: str, absent: list[bytes]) -> set[bytes]:
    """The keys that filters let pass, by a question to each without a lookup."""
    with lsmkv.open(path, read_only=True) as db:
        return {key for key in dict.fromkeys(absent) if db.explain(key).false_positives}


def drawn(task: Task) -> Iterator[bytes]:
    """The absent keys of a load, one for each lookup."""
    draw = generator(task.seed, "learning", task.load)
    if task.load == HOT_BLOCK:
        middle = present_key(task.key_count // 2)
        keys = [middle + b"-%d" % number for number in range(task.key_count)]
    else:
        keys = [absent_key(number) for number in range(task.key_count)]
    exponent = 1.0 if task.load in (DRIFT, HOT_BLOCK) else float(task.load.removeprefix("Zipf "))
    parts = DRIFT_PARTS if task.load == DRIFT else 1
    for _ in range(parts):
        order = draw.permutation(task.key_count)
        ranks = exact_ranks(task.key_count, exponent, task.lookup_count // parts, draw)
        yield from [keys[number] for number in order[ranks]]


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
        filter_bytes, before_bytes = after.filter_memory_bytes, before.filter_memory_bytes
        return Row(
            load=task.load,
            how="list" if options.adaptive_filters else "nothing",
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
            filter_bits_per_key=8 * filter_bytes / task.key_count,
            filter_bits_per_key_before=8 * before_bytes / task.key_count,
            counted_again=-1,
            learnt_bits_per_key=8 * (filter_bytes - before_bytes) / task.key_count,
            lookup_us=1e6 * elapsed_s / (len(absent) + len(present)),
        )
