"""Scenario ``refresh`` of the part ``load``: threads read a handle that another thread refreshes.

The handle is read-only, beside a writing process that flushes and compacts all the time.  Each write is
a batch that sets or deletes every key of one group, as its number says.  The writer publishes in shared
memory which write of each group it has begun and done.  A reader must find a group as it was after one
write: not before the last write that was done when the handle was refreshed, and never before a
write that the same thread has seen.

``python -m torture.load.refresh STORE SEED PROGRESS BACKGROUND`` is the writer.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import random
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.changes import Contents, write_batch
from torture.framework.disturbance import hasty_switches
from torture.framework.part import UnsoundError
from torture.framework.python_child import finish, running, stdin_closed
from torture.framework.store_checks import Traces
from torture.load.clients import Crew, in_order
from torture.load.scenario import BACKGROUNDS, SMALL, Job

GROUPS: Final = 150
KEYS: Final = 8  # keys of each group
READERS: Final = 3
_ABSENT_EVERY: Final = 5
_PATIENCE_S: Final = 30.0
_WRITER_PAUSE_S: Final = 0.001
_LONGEST_PADDING_BYTES: Final = 120
_LONGEST_RANGE: Final = 12


def group_key(group: int, at: int) -> bytes:
    return b"g%04d/%d" % (group, at)


def group_value(group: int, at: int, number: int) -> bytes | None:
    """The value that write ``number`` gives a key of a group; None if the key is absent then."""
    if number == 0 or (number + at) % _ABSENT_EVERY == 0:
        return None
    padding = b"." * (number * 7919 % _LONGEST_PADDING_BYTES)
    return b"%d/%d:%d:%s" % (group, at, number, padding)


class Progress:
    """The writer's progress, in memory that the processes share.

    Attributes:
        begun, done: number of the last write that was begun, and done, by group.
    """

    def __init__(self, path: Path) -> None:
        size = 8 * GROUPS
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), size)
        numbers = memoryview(self._mapped).cast("I")
        self.begun = numbers[:GROUPS]
        self.done = numbers[GROUPS:]


class Checker:
    """Checks that no group goes back for a thread, between ``floors`` and ``ceilings`` by group."""

    def __init__(self, floors: list[int], ceilings: memoryview | list[int]) -> None:
        self._floors = floors
        self._ceilings = ceilings
        self._seen = [0] * GROUPS

    def floor(self, group: int) -> int:
        """The least write that a new look at the group must find."""
        return max(self._floors[group], self._seen[group])

    def see_group(self, group: int, found: Contents, floor: int) -> None:
        """Check the entries that one look found in a whole group."""
        ceiling = self._ceilings[group]
        for number in self._numbers(found, floor, ceiling):
            values = ((group_key(group, at), group_value(group, at, number)) for at in range(KEYS))
            if found == {key: value for key, value in values if value is not None}:
                self._seen[group] = number
                return
        raise UnsoundError(
            f"group {group} matches no write from {floor} to {ceiling}: {_shown(found)}"
        )

    def see_value(self, group: int, at: int, value: bytes | None, floor: int) -> int:
        """Check the value that one look found; return the first write that explains it."""
        ceiling = self._ceilings[group]
        found = {} if value is None else {group_key(group, at): value}
        for number in self._numbers(found, floor, ceiling):
            if group_value(group, at, number) == value:
                self._seen[group] = number
                return number
        raise UnsoundError(
            f"key {at} of group {group} matches no write from {floor} to {ceiling}: {value!r}"
        )

    @staticmethod
    def _numbers(found: Contents, floor: int, ceiling: int) -> range:
        """Writes that may explain ``found``: the one that a value names, or any."""
        for value in found.values():
            with contextlib.suppress(ValueError, IndexError):
                number = int(value.split(b":")[1])
                return range(number, number + 1) if floor <= number <= ceiling else range(0)
        return range(floor, min(ceiling, floor + _ABSENT_EVERY) + 1)


def _shown(found: Contents) -> str:
    return str({key: value[:20] for key, value in found.items()})


# --- reading -------------------------------------------------------------------------------------


class RefreshReader:
    """One thread that reads the handle; with ``looks_up_only`` it makes only single lookups."""

    def __init__(
        self, db: lsmkv.DB, checker: Checker, dice: random.Random, *, looks_up_only: bool = False
    ) -> None:
        self._weights = (50, 0, 0, 0) if looks_up_only else (50, 15, 15, 5)
        self._db = db
        self._checker = checker
        self._dice = dice
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        """Make one random read and check it."""
        looks = (self._get, self._multi_get, self._scan, self._hold)
        (look,) = self._dice.choices(looks, self._weights)
        look()
        self.counts[look.__name__.strip("_")] += 1

    def _get(self) -> None:
        group, at = self._dice.randrange(GROUPS), self._dice.randrange(KEYS)
        floor = self._checker.floor(group)
        self._checker.see_value(group, at, self._db.get(group_key(group, at)), floor)

    def _multi_get(self) -> None:
        group = self._dice.randrange(GROUPS)
        floor = self._checker.floor(group)
        values = self._db.multi_get([group_key(group, at) for at in range(KEYS)])
        for at, value in enumerate(values):  # each is looked up by itself, in this order
            floor = self._checker.see_value(group, at, value, floor)

    def _scan(self) -> None:
        first = self._dice.randrange(GROUPS)
        groups = range(first, min(GROUPS, first + self._dice.randint(1, _LONGEST_RANGE)))
        reverse = self._dice.random() < 0.5
        floors = [self._checker.floor(group) for group in groups]
        view = self._db.items(start=b"g%04d" % first, stop=b"g%04d" % groups.stop, reverse=reverse)
        found = in_order(list(iter(view)), reverse=reverse)
        for group, floor in zip(groups, floors, strict=True):
            prefix = b"g%04d/" % group
            part = {key: value for key, value in found.items() if key.startswith(prefix)}
            self._checker.see_group(group, part, floor)

    def _hold(self) -> None:
        """A snapshot and an iterator stay the same over refreshes."""
        group = self._dice.randrange(GROUPS)
        with self._db.snapshot() as snapshot:
            items = dict(snapshot.items(prefix=b"g%04d/" % group))
            iterator = iter(snapshot.items())
            begun = list(islice(iterator, 10))
            time.sleep(self._dice.random() * 0.02)
            if dict(snapshot.items(prefix=b"g%04d/" % group)) != items:
                raise UnsoundError("a snapshot changed over a refresh")
            if begun + list(iterator) != list(iter(snapshot.items())):
                raise UnsoundError("an iterator changed over a refresh")


def run(job: Job) -> None:
    """Write in another process; read and refresh here."""
    job.directory.mkdir(parents=True, exist_ok=True)
    path = job.directory / "progress"
    progress = Progress(path)
    lsmkv.open(job.path, SMALL).close()  # readers need a store
    traces = Traces()
    writer = running("torture.load.refresh", job.path, job.seed, path, job.variant)
    with writer as process, hasty_switches(job.dice("switches")):
        with lsmkv.open(job.path, SMALL, read_only=True) as db:
            floors = [0] * GROUPS
            readers = [
                RefreshReader(
                    db,
                    Checker(floors, progress.begun),
                    job.dice(f"reader {at}"),
                    looks_up_only=at == 0,
                )
                for at in range(READERS)
            ]

            def refresh() -> None:
                if process.poll() is not None:
                    raise UnsoundError(f"the writer ended with {process.returncode}")
                done = list(progress.done)
                try:
                    db.refresh()
                except lsmkv.BackgroundError:  # the store changed during each attempt
                    job.counts["refreshes given up"] += 1
                    return
                floors[:] = done
                job.counts["refreshes"] += 1

            Crew(job.seconds).run([*(reader.step for reader in readers), refresh])
            for reader in readers:
                job.counts.update(reader.counts)
        job.counts.update(finish(process, _PATIENCE_S))
    traces.check()
    with lsmkv.open(job.path, SMALL, create_if_missing=False) as db:
        checker = Checker(list(progress.done), progress.done)
        for group in range(GROUPS):
            prefix = b"g%04d/" % group
            checker.see_group(group, dict(db.items(prefix=prefix)), progress.done[group])


# --- the writing process -------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    """Write until the parent ends this process, and print counts."""
    path, seed, shared, background = arguments
    dice = random.Random(f"writer {seed}")
    progress = Progress(Path(shared))
    ended = stdin_closed()
    with lsmkv.open(path, SMALL.replace(**BACKGROUNDS[background])) as db:
        while not ended.is_set():
            for _ in range(10):
                _write(db, progress, dice.randrange(GROUPS), sync=dice.random() < 0.01)
            time.sleep(_WRITER_PAUSE_S)  # leaves the processors to the readers
        stats = db.stats()
    writes = sum(progress.done)
    counts = {"writes": writes, "flushes": stats.flushes, "compactions": stats.compactions}
    print(json.dumps(counts))


def _write(db: lsmkv.DB, progress: Progress, group: int, *, sync: bool) -> None:
    number = progress.begun[group] + 1
    progress.begun[group] = number
    changes = [(group_key(group, at), group_value(group, at, number)) for at in range(KEYS)]
    write_batch(db, changes, sync=sync)
    progress.done[group] = number


if __name__ == "__main__":
    main(sys.argv[1:])
