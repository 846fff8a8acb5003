"""Scenario ``torn-reads`` of the part ``load``: a log grows during one read of it.

First single logs: each page of a read has an age of its own between the read's start and end.  The
reader must report no damage in an undamaged log, and any damage before a sync mark.  Then whole stores:
a writer works between two pages of a read, with syncs, flushes, compactions and reopenings.
``refresh`` and ``verify`` must find no damage, and a state between those before and after the read.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.changes import Contents
from torture.framework.part import UnsoundError
from torture.framework.store_checks import check_files
from torture.load.nonatomic_reads import AgedLog, AgedStorage, TornStorage
from torture.load.scenario import SMALL, Job

_STEPS: Final = 60
_READS: Final = 20
_LOOKS: Final = 5
_KEYS: Final = 40
_PAGES_BYTES: Final = (64, 512, 4096)
_OPTIONS: Final = SMALL.replace(write_buffer_size_bytes=12_000)


def run(job: Job) -> None:
    """Try logs and stores in turn until the time is up."""
    deadline = job.deadline()
    number = 0
    while number < 2 or time.monotonic() < deadline:
        number += 1
        dice = job.dice(f"torn {number}")
        if number % 2:
            job.counts.update(try_log(job.directory / f"{number:06}.log", dice, job.variant))
        else:
            job.counts.update(try_store(job.directory / f"store-{number}", dice, job.variant))


def try_log(path: Path, dice: random.Random, order: str) -> Counter[str]:
    """Read one log many times, undamaged and damaged."""
    counts: Counter[str] = Counter()
    log = AgedLog(path, 7, dice, _STEPS)
    path.unlink()
    for _ in range(_READS):
        now, page_bytes = dice.randrange(_STEPS), dice.choice(_PAGES_BYTES)
        storage = AgedStorage(log.history, now, order, page_bytes, dice)
        log.read(storage)
        counts["torn reads of logs"] += storage.torn
        if log.counts[now][1] > log.ends[0]:
            history, places = log.damaged(dice, now)
            try:
                log.read(AgedStorage(history, now, order, page_bytes, dice))
            except lsmkv.CorruptionError as error:
                if error.offset not in places:
                    reason = f"damage in bytes {places} is reported at {error.offset}"
                    raise UnsoundError(reason) from None
            else:
                raise UnsoundError(f"damage in bytes {places} is not reported")
            counts["damaged logs reported"] += 1
    return counts


class _Steps:
    """A writer; the contents of its store depend only on the number of writes ``done``."""

    def __init__(self, path: Path, dice: random.Random) -> None:
        self.done = 0
        self._path = path
        self._dice = dice
        self.db = lsmkv.open(path, _OPTIONS)

    def take(self) -> None:
        """Make a few writes, and now and then some upkeep."""
        for _ in range(self._dice.randint(1, 8)):
            self.done += 1
            key, value = entry(self.done)
            self.db.put(key, value, sync=self._dice.random() < 0.25)
        chance = self._dice.random()
        if chance < 0.02:
            self.db.flush()
        elif chance < 0.03:
            self.db.compact_range()
        elif chance < 0.04:
            self.db.close()
            self.db = lsmkv.open(self._path, _OPTIONS)


def entry(number: int) -> tuple[bytes, bytes]:
    return b"key-%02d" % (number * 7 % _KEYS), b"%d:%s" % (number, b"v" * (number % 90))


def try_store(path: Path, dice: random.Random, order: str) -> Counter[str]:
    """Read one store while a writer changes it."""
    counts: Counter[str] = Counter()
    writer = _Steps(path, dice)
    storage = TornStorage(writer.take, order, dice.choice(_PAGES_BYTES), dice)
    try:
        with lsmkv.open(path, read_only=True, storage=storage) as reader:
            for _ in range(_LOOKS):
                before = writer.done
                reader.refresh()
                check_state(dict(reader.items()), before, writer.done)
                check_files(reader)
                counts["refreshes between whose pages a writer wrote"] += 1
                writer.take()
        counts["writes between pages"] += writer.done
    finally:
        writer.db.close()
    return counts


def check_state(found: Contents, at_least: int, at_most: int) -> None:
    """UnsoundError if ``found`` is not a state within the bounds."""
    newest = max((int(value.partition(b":")[0]) for value in found.values()), default=0)
    expected = dict(entry(number) for number in range(max(1, newest - _KEYS + 1), newest + 1))
    if found != expected or not at_least <= newest <= at_most:
        raise UnsoundError(
            f"{len(found)} entries, the newest of write {newest}, are not the contents after a write "
            f"from {at_least} to {at_most}"
        )
