"""Scenario ``threads`` of the part ``load``: many threads write and read one handle.

One thread writes each group of keys, others read in every way, and one does upkeep.  The ledgers
(:mod:`torture.load.ledger`) check what readers see: nothing older than an acknowledged write or than
what the reader has seen before, and each scan, cursor and snapshot as of one write.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import lsmkv
from torture.framework.part import Scale
from torture.framework.store_checks import Traces, check_files
from torture.load.clients import Crew, Reader, Writer, check_groups, new_ledger
from torture.load.ledger import Ledger
from torture.load.scenario import BACKGROUNDS, SMALL, Job, check_tidy

GROUPS: Final = 3
READERS: Final = 3
_KEYS: Final = {Scale.CI: 200, Scale.SHORT: 400, Scale.LONG: 400}  # keys of each group
MILLION: Final = "million"  # suffix of a variant that uses a million keys
_SWITCH_INTERVAL_S: Final = 5e-5  # shorter than the default
_PAUSE_S: Final = 0.05


def run(job: Job) -> None:
    """Write and read until the time is up, and check the contents."""
    background, _, size = job.variant.partition("-")
    keys = 1_000_000 // GROUPS + 1 if size == MILLION else _KEYS[job.scale]
    options = SMALL.replace(**BACKGROUNDS[background])
    if size == MILLION:
        options = options.replace(
            write_buffer_size_bytes=1 << 20, table_size_bytes=1 << 20, level1_size_bytes=4 << 20
        )
    ledgers = [new_ledger(group, keys) for group in range(GROUPS)]
    traces = Traces()
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        with lsmkv.open(job.path, options) as db:
            _work(job, db, ledgers)
            _check_contents(db, ledgers)
            check_files(db)
            check_tidy(db)
            stats = db.stats()
        job.counts.update({"flushes": stats.flushes, "compactions": stats.compactions})
        traces.check()
        with lsmkv.open(job.path, options, create_if_missing=False) as db:
            _check_contents(db, ledgers)
    finally:
        sys.setswitchinterval(before)


def _work(job: Job, db: lsmkv.DB, ledgers: list[Ledger]) -> None:
    writers = [Writer(db, ledger, job.dice(f"writer {at}")) for at, ledger in enumerate(ledgers)]
    for writer in writers:
        writer.fill()
    readers = [
        Reader(db, ledgers, job.dice(f"reader {at}"), looks_up_only=at == 0)
        for at in range(READERS)
    ]
    upkeep = job.dice("upkeep")

    def tend() -> None:
        kind = upkeep.choice(("flush", "range", "verify", "look"))
        keys = upkeep.choice(ledgers).keys
        if kind == "flush":
            db.flush()
        elif kind == "range":
            db.compact_range(upkeep.choice(keys), upkeep.choice(keys))
        elif kind == "verify":
            check_files(db)
        else:
            db.explain(upkeep.choice(keys))
            db.inspect()
            db.memory_usage()
        job.counts["upkeep"] += 1
        time.sleep(_PAUSE_S)

    crew = Crew(job.seconds)
    crew.run([*(writer.step for writer in writers), *(reader.step for reader in readers), tend])
    for reader in readers:
        reader.end()
        job.counts.update(reader.counts)
    job.counts["writes"] += sum(ledger.done for ledger in ledgers)
    job.counts["keys"] += sum(len(ledger.keys) for ledger in ledgers)


def _check_contents(db: lsmkv.DB, ledgers: list[Ledger]) -> None:
    done = [ledger.done for ledger in ledgers]
    check_groups(ledgers, dict(db.items()), done, done)
