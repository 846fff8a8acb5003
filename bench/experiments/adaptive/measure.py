"""Measures one load of ``adaptive``: the same writes and lookups in a store of each kind of filters.

Each store is settled after every write buffer, so that compactions do not depend on timing: all counts
repeat for a seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Final

import lsmkv
from bench.experiments.adaptive.rows import Row
from bench.experiments.adaptive.tasks import (
    BITS,
    BUDGET,
    HOWS,
    LEARNING,
    NEW_KEYS,
    PHASES,
    POINTS,
    STEPS,
    Task,
)
from bench.harness.shapes import run_count
from bench.workloads.distributions import exact_ranks, generator, uniform
from bench.workloads.keys import Values, absent_key, present_key

VALUE_BYTES: Final = 100
HOT_RANGE: Final = 0.1
HOT_LOOKUPS: Final = 0.9
"""The part of the key range that is hot in a phase, and the part of the lookups that ask there."""

_EXPONENT: Final = 1.0


def measure(task: Task, directory: str) -> list[Row]:
    """The rows of all kinds of filters; the first one's memory is what the others may take.

    A budget is held after a compaction of the whole store; meanwhile filters may take more.  So the
    budget that takes that memory on average is found by a trial.
    """

    def rows_of(how: str, memory_bytes: float, name: str) -> list[Row]:
        path = os.path.join(directory, name)
        return list(_of_filters(task, how, path, round(memory_bytes), bits))

    bits = BITS
    rows = rows_of(HOWS[0], 0, HOWS[0])
    memory_bytes = _memory_bytes(rows)
    bits = 8 * memory_bytes / mean(row.entry_count for row in rows)
    trial = rows_of(BUDGET, memory_bytes, "trial")
    asked_bytes = memory_bytes * memory_bytes / _memory_bytes(trial)
    for how in HOWS[1:]:
        rows += rows_of(how, asked_bytes, how)
    return rows


def _memory_bytes(rows: Sequence[Row]) -> float:
    return mean(row.memory_bytes for row in rows)


def _of_filters(task: Task, how: str, path: str, memory_bytes: int, bits: float) -> Iterator[Row]:
    values, size = Values(VALUE_BYTES, task.seed), task.buffer_keys
    writes = generator(task.seed, "adaptive", "writes")
    with lsmkv.open(path, task.options(how, memory_bytes, bits)) as db:
        db.bulk_load([(present_key(n), values.of(n)) for n in range(task.key_count)])
        for phase in range(PHASES):
            asked = lookups(task, phase)
            for point in range(POINTS):
                wasted = passed = memory = entries = count = 0
                for _ in range(STEPS):
                    _write(db, values, uniform(task.key_count, size, writes).tolist())
                    keys = [next(asked) for _ in range(task.lookups)]
                    done = _ask(db, keys)
                    wasted += done.block_reads
                    passed += done.filter_false_positives + done.unfiltered_probes
                    info = db.inspect()
                    memory += info.filter_memory_bytes
                    entries += info.entry_count
                    count += len(keys)
                is_recounted = point == POINTS - 1 and how != LEARNING
                yield Row(
                    load=task.load,
                    how=how,
                    repetition=task.repetition,
                    seed=task.seed,
                    key_count=task.key_count,
                    phase=phase,
                    point=point,
                    lookup_count=count,
                    wasted_reads=wasted,
                    passed=passed,
                    recounted=_recount(path, keys) if is_recounted else -1,
                    last_reads=done.block_reads if is_recounted else -1,
                    memory_asked_bytes=memory_bytes if how == BUDGET else 0,
                    memory_bytes=memory // STEPS,
                    entry_count=entries // STEPS,
                    run_count=run_count(info),
                )


def _write(db: lsmkv.DB, values: Values, numbers: Sequence[int]) -> None:
    with db.write_batch() as batch:
        for number in numbers:
            batch.put(present_key(number), values.of(number))
    db.flush()
    db.wait_until_settled()


def _ask(db: lsmkv.DB, keys: Sequence[bytes]) -> lsmkv.Stats:
    before, get = db.stats(), db.get
    for key in keys:
        if get(key) is not None:
            raise AssertionError(f"{key!r} is not in the store")
    return db.stats() - before


def _recount(path: str, keys: Sequence[bytes]) -> int:
    """The blocks that lookups of ``keys`` search, as another handle explains them."""
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        return sum(len(step.blocks) for key in keys for step in db.explain(key).runs)


def lookups(task: Task, phase: int) -> Iterator[bytes]:
    """The absent keys of a phase, without an end."""
    draw = generator(task.seed, "adaptive", task.load, phase)
    hot_count = int(HOT_RANGE * task.key_count)
    # The hot tenths of two phases are never the same.
    first = hot_count * int(_tenths(task)[phase])
    order = draw.permutation(hot_count)
    asked = 0
    while True:
        everywhere = uniform(task.key_count, task.lookups, draw)
        exponent = 0.0 if task.load == NEW_KEYS else _EXPONENT
        hot = first + order[exact_ranks(hot_count, exponent, task.lookups, draw)]
        is_hot = draw.random(task.lookups) < HOT_LOOKUPS
        for number in [*map(int, hot * is_hot + everywhere * ~is_hot)]:
            key = absent_key(number)
            asked += 1
            yield key + b"-%d-%d" % (phase, asked) if task.load == NEW_KEYS else key


def _tenths(task: Task) -> Sequence[int]:
    tenths: list[int] = generator(task.seed, "adaptive", "hot").permutation(10).tolist()
    return tenths
