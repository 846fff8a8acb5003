"""Stores of runs: every run spans all keys, and each key is in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import Final

import lsmkv

from ..workloads.keys import Values, chunks, present_key, shuffled

VALUE_BYTES: Final = 100
_NEVER: Final = 1000
_BATCH: Final = 1000


def settings_of_runs(options: lsmkv.Options) -> lsmkv.Options:
    """``options`` with which each flush stays a run of its own, of one error rate, uncompressed."""
    return options.replace(
        filter_allocation="uniform",
        compression="none",
        write_buffer_size_bytes=4096 * lsmkv.options.MIB,
        level0_compaction_trigger=_NEVER,
        level0_slowdown_trigger=_NEVER,
        level0_stop_trigger=_NEVER,
    )


def write_runs(
    path: str, key_count: int, run_count: int, seed: int, options: lsmkv.Options
) -> None:
    """Write a store of 16-byte keys and 100-byte values, uncompressed, in ``run_count`` flushes."""
    with lsmkv.open(path, settings_of_runs(options), error_if_exists=True) as db:
        for part in chunks(shuffled(key_count, seed), run_count):
            put_all(db, entries_of(part, seed))
            db.flush()


def write_tree(path: str, runs: Sequence[int], rates: Sequence[float], seed: int) -> None:
    """Write runs of one table each, newest first, over the whole range; a rate of 1: no filter."""
    numbers = shuffled(sum(runs), seed)
    parts = [numbers[low:high] for low, high in pairwise(accumulate(runs, initial=0))]
    for part, rate in reversed(list(zip(parts, rates, strict=True))):
        form = lsmkv.Options(filter_granularity="table", filter_policy="bloom")
        filters = form.replace(error_rate=rate) if rate < 1 else form.replace(filter_policy="none")
        with lsmkv.open(path, settings_of_runs(filters)) as db:
            put_all(db, entries_of(part, seed))
            db.flush()


def entries_of(numbers: Iterable[int], seed: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys of these numbers, with values of 100 bytes."""
    values = Values(VALUE_BYTES, seed)
    for number in numbers:
        yield present_key(number), values.of(number)


def put_all(db: lsmkv.DB, entries: Iterable[tuple[bytes, bytes]]) -> None:
    """Put entries, a thousand a batch; nothing is flushed but what is full."""
    rest = iter(entries)
    while part := list(islice(rest, _BATCH)):
        with db.write_batch() as batch:
            for key, value in part:
                batch.put(key, value)
