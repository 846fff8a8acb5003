"""Scenario ``refresh`` of the part ``load``: threads read a handle that another thread refreshes.

The handle is read-only, beside a writing process that flushes and compacts all the time.  Each write is
a batch that sets or deletes all keys of a group, and its number says which.  The writer tells by shared
memory which write of each group it has begun and done: what a reader finds of a group must be its
state after one write, not before the last that was done when the handle was refreshed, and never
before what the same thread has seen already.

``python -m torture.load.refresh STORE SEED TOLD BACKGROUND`` is the writer.  It ends when its standard
input does, and says what it has done as a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.disturbance import hasty_switches
from torture.framework.part import UnsoundError
from torture.load.clients import Crew, in_order
from torture.load.scenario import BACKGROUNDS, SMALL, Job, Traces

GROUPS: Final = 150
KEYS: Final = 8
"""Of each group."""
READERS: Final = 3
_ABSENT_EVERY: Final = 5
_PATIENCE_S: Final = 30.0
_WRITER_PAUSE_S: Final = 0.001
_LONGEST_PADDING_BYTES: Final = 120
_LONGEST_RANGE: Final = 12


def group_key(group: int, at: int) -> bytes:
    """A key of a group."""
    return b"g%04d/%d" % (group, at)


def group_value(group: int, at: int, number: int) -> bytes | None:
    """What a key of a group is set to by a write; None if that deletes it, or it is the 0th, none."""
    if number == 0 or (number + at) % _ABSENT_EVERY == 0:
        return None
    padding = b"." * (number * 7919 % _LONGEST_PADDING_BYTES)
    return b"%d/%d:%d:%s" % (group, at, number, padding)


class Told:
    """What the writer tells of each group, in memory that processes share.

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
    """What one thread has seen.  It never sees time go back."""

    def __init__(self, floors: list[int], ceilings: memoryview | list[int]) -> None:
        self._floors = floors
        self._ceilings = ceilings
        self._seen = [0] * GROUPS

    def floor(self, group: int) -> int:
        """To be asked before a look: what it must find at least."""
        return max(self._floors[group], self._seen[group])

    def see_group(self, group: int, found: dict[bytes, bytes], floor: int) -> None:
        """Check what one look found of a whole group."""
        ceiling = self._ceilings[group]
        for number in self._numbers(found, floor, ceiling):
            values = ((group_key(group, at), group_value(group, at, number)) for at in range(KEYS))
            if found == {key: value for key, value in values if value is not None}:
                self._seen[group] = number
                return
        raise UnsoundError(
            f"group {group} is as after no write from {floor} to {ceiling}: {_shown(found)}"
        )

    def see_value(self, group: int, at: int, value: bytes | None, floor: int) -> int:
        """Check what one look found of a key; the first write that it can be of."""
        ceiling = self._ceilings[group]
        found = {} if value is None else {group_key(group, at): value}
        for number in self._numbers(found, floor, ceiling):
            if group_value(group, at, number) == value:
                self._seen[group] = number
                return number
        raise UnsoundError(
            f"key {at} of group {group} is as after no write from {floor} to {ceiling}: {value!r}"
        )

    @staticmethod
    def _numbers(found: dict[bytes, bytes], floor: int, ceiling: int) -> range:
        """The writes that it can be of: the one that a value names, or any."""
        for value in found.values():
            with contextlib.suppress(ValueError, IndexError):
                number = int(value.split(b":")[1])
                return range(number, number + 1) if floor <= number <= ceiling else range(0)
        return range(floor, min(ceiling, floor + _ABSENT_EVERY) + 1)


def _shown(found: dict[bytes, bytes]) -> str:
    return str({key: value[:20] for key, value in found.items()})


# --- reading -------------------------------------------------------------------------------------


class RefreshReader:
    """One thread's looks at the handle; with ``looks_up_only``, many single ones.

    Attributes:
        counts: looks of each kind.
    """

    def __init__(
        self, db: lsmkv.DB, checker: Checker, dice: random.Random, *, looks_up_only: bool = False
    ) -> None:
        self._weights = (50, 0, 0, 0) if looks_up_only else (50, 15, 15, 5)
        self._db = db
        self._checker = checker
        self._dice = dice
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        """One look."""
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
        """What is held over refreshes stays as it is."""
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
    """Write in another process, read and refresh here, until the time is up."""
    job.directory.mkdir(parents=True, exist_ok=True)
    path = job.directory / "told"
    told = Told(path)
    lsmkv.open(job.path, SMALL).close()  # so that there is a store
    traces = Traces()
    with _writer(job, path) as process, hasty_switches(job.dice("switches")):
        with lsmkv.open(job.path, SMALL, read_only=True) as db:
            floors = [0] * GROUPS
            readers = [
                RefreshReader(
                    db,
                    Checker(floors, told.begun),
                    job.dice(f"reader {at}"),
                    looks_up_only=at == 0,
                )
                for at in range(READERS)
            ]

            def refresh() -> None:
                if process.poll() is not None:
                    raise UnsoundError(f"the writer ended with {process.returncode}")
                done = list(told.done)
                try:
                    db.refresh()
                except lsmkv.BackgroundError:  # the store changed each time that it was looked at
                    job.counts["refreshes given up"] += 1
                    return
                floors[:] = done
                job.counts["refreshes"] += 1

            Crew(job.seconds).run([*(reader.step for reader in readers), refresh])
            for reader in readers:
                job.counts.update(reader.counts)
        job.counts.update(_ended(process))
    traces.check()
    with lsmkv.open(job.path, SMALL, create_if_missing=False) as db:
        checker = Checker(list(told.done), told.done)
        for group in range(GROUPS):
            prefix = b"g%04d/" % group
            checker.see_group(group, dict(db.items(prefix=prefix)), told.done[group])


@contextlib.contextmanager
def _writer(job: Job, path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "torture.load.refresh"]
    with subprocess.Popen(
        [*command, str(job.path), str(job.seed), str(path), job.variant],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _ended(process: subprocess.Popen[str]) -> dict[str, int]:
    """What the writer counted."""
    try:
        output, _ = process.communicate("", timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise UnsoundError("the writer does not end") from None
    if process.returncode:
        raise UnsoundError(f"the writer ended with {process.returncode}")
    counts: dict[str, int] = json.loads(output)
    return counts


# --- the writing process -------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """The writer; returns its exit status."""
    path, seed, shared, background = arguments
    dice = random.Random(f"writer {seed}")
    told = Told(Path(shared))
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    with lsmkv.open(path, SMALL.replace(**BACKGROUNDS[background])) as db:
        while not ended.is_set():
            for _ in range(10):
                _write(db, told, dice.randrange(GROUPS), sync=dice.random() < 0.01)
            time.sleep(_WRITER_PAUSE_S)  # for the others
        stats = db.stats()
    counts = {"writes": sum(told.done), "flushes": stats.flushes, "compactions": stats.compactions}
    print(json.dumps(counts))
    return 0


def _write(db: lsmkv.DB, told: Told, group: int, *, sync: bool) -> None:
    number = told.begun[group] + 1
    told.begun[group] = number
    with db.write_batch(sync=sync) as batch:
        for at in range(KEYS):
            key, value = group_key(group, at), group_value(group, at, number)
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
    told.done[group] = number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
