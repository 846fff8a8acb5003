"""Scenario ``slow-disk`` of the part ``load``: tables take long to write, and writers are held back.

Every append to a table and every sync of one is delayed, while writers write as fast as they can.  No
more memtables may wait than the options allow, and their memory is bounded.  The counters must show
that writers were held back, and no write may be lost.
"""

from __future__ import annotations

import time
from typing import Final

import lsmkv
from lsmkv.stats import Stats
from torture.crash.slow_storage import SlowStorage
from torture.framework.part import UnsoundError
from torture.framework.store_checks import Traces, check_files
from torture.load.clients import Crew, Reader, Writer, check_groups, new_ledger
from torture.load.scenario import SMALL, Job, check_tidy

_GROUPS: Final = 2
_KEYS: Final = 1000
_SYNC_S: Final = 0.05
_APPEND_S: Final = 0.002
_LARGEST_WRITE_BYTES: Final = 8192  # a batch of twelve keys is smaller
_MOST_WAITING: Final = 2
_LOOK_S: Final = 0.01
_PATIENCE_S: Final = 20.0  # for the store to hold back writers

OPTIONS: Final[dict[str, lsmkv.Options]] = {
    # Flushes fall behind: memtables wait.
    "flushes": SMALL.replace(
        max_immutable_memtables=_MOST_WAITING,
        level0_compaction_trigger=4,
        level0_slowdown_trigger=100,
        level0_stop_trigger=200,
    ),
    # Compactions fall behind: level 0 grows.
    "compactions": SMALL.replace(
        max_immutable_memtables=_MOST_WAITING,
        level0_compaction_trigger=2,
        level0_slowdown_trigger=2,
        level0_stop_trigger=4,
        table_size_bytes=4096,
    ),
}
"""Options by variant."""


def is_held_back(stats: Stats, variant: str) -> bool:
    """Whether writers were stopped, and slowed where level 0 grows."""
    stopped = stats.write_stops > 0 and stats.write_stop_s > 0.0
    slowed = stats.write_slowdowns > 0 and stats.write_slowdown_s > 0.0
    return stopped if variant == "flushes" else stopped and slowed


def check_held_back(stats: Stats, variant: str) -> None:
    """UnsoundError if the counters do not show that writers were held back."""
    if not is_held_back(stats, variant):
        raise UnsoundError(
            f"the disk is slow, but writers are not held back: {stats.write_stops} stops "
            f"({stats.write_stop_s:.3f} s), {stats.write_slowdowns} slowdowns "
            f"({stats.write_slowdown_s:.3f} s)"
        )


def check_bounded(waiting: int, memory_bytes: int, options: lsmkv.Options) -> None:
    """UnsoundError if more or larger memtables wait than the options allow."""
    most = options.max_immutable_memtables
    largest = options.write_buffer_size_bytes + _LARGEST_WRITE_BYTES
    if waiting > most or memory_bytes > (most + 1) * largest:
        raise UnsoundError(f"{waiting} memtables wait, {most} may; all use {memory_bytes} bytes")


def run(job: Job) -> None:
    """Write for a time, watch the memtables, and check the contents."""
    options = OPTIONS[job.variant]
    storage = SlowStorage(time.sleep, sync_s=_SYNC_S, append_s=_APPEND_S, path_suffix=".sst")
    ledgers = [new_ledger(group, _KEYS) for group in range(_GROUPS)]
    traces = Traces()
    with lsmkv.open(job.path, options, storage=storage) as db:
        writers = [
            Writer(db, ledger, job.dice(f"writer {at}")) for at, ledger in enumerate(ledgers)
        ]
        reader = Reader(db, ledgers, job.dice("reader"))

        def watch() -> None:
            waiting = len(db.inspect().memtable_key_counts) - 1
            check_bounded(waiting, db.memory_usage().memtable_bytes, options)
            job.counts["looks at memtables"] += 1
            time.sleep(_LOOK_S)

        def read() -> None:
            reader.step()
            time.sleep(_LOOK_S)

        given_up = job.deadline() + _PATIENCE_S
        while True:
            Crew(job.seconds).run([*(writer.step for writer in writers), watch, read])
            if is_held_back(db.stats(), job.variant) or time.monotonic() > given_up:
                break
        reader.end()
        storage.sync_s = storage.append_s = 0.0
        done = [ledger.done for ledger in ledgers]
        check_groups(ledgers, dict(db.items()), done, done)
        check_tidy(db)
        stats = db.stats()
    check_held_back(stats, job.variant)
    traces.check()
    job.counts.update(
        {
            "writes": sum(done),
            "write_stops": stats.write_stops,
            "write_slowdowns": stats.write_slowdowns,
            "reads": sum(reader.counts.values()),
        }
    )
    with lsmkv.open(job.path, SMALL, create_if_missing=False) as db:
        check_groups(ledgers, dict(db.items()), done, done)
        check_files(db)
