"""Scenario ``processes`` of the part ``load``: readers beside a writer that is killed over and over.

The writer is that of ``torture/crash/kill_loop.py``: SIGKILL ends it, and the next one continues its
stream of operations.  After each death the loop checks that no acknowledged operation is lost.
Reading processes run all the time: they open the store read-only, refresh, and compare the entries
with the same stream.

``python -m torture.load.killed_writer STORE SEED FLOOR NUMBER`` is one of these readers.  FLOOR is a file
with the number of the last operation that the store must hold.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

import lsmkv
from lsmkv.options import Background
from torture.crash import kill_loop
from torture.framework.changes import Contents, change_model
from torture.framework.part import UnsoundError
from torture.framework.python_child import finish, running, stdin_closed
from torture.load.clients import in_order
from torture.load.scenario import Job

READERS: Final = 2
_MOST_UNSEEN: Final = 64
"""Operations in a row that may be invisible: deletions, and puts that they undo."""
_FURTHEST: Final = 1_000_000
_LOOKS_PER_OPENING: Final = 25
_LONGEST_PAUSE_S: Final = 0.01
_PATIENCE_S: Final = 60.0
_LONGEST_LOOK_S: Final = 60.0


class Follower:
    """Finds a reader's place in a stream of operations by its contents.

    The place must not go back.

    Attributes:
        number: the last operation that the reader has seen.
    """

    def __init__(self, seed: int) -> None:
        self.number = 0
        self._seed = seed
        self._model: Contents = {}

    def see(self, found: Contents, floor: int = 0) -> int:
        """Check that an operation from ``floor`` on leaves ``found``; return the number of new ones."""
        before = self.number
        newest = max((_number_of(value) for value in found.values()), default=0)
        if newest > before + _FURTHEST:
            raise UnsoundError(f"a value is of operation {newest}, which was never made")
        self._advance(max(newest, floor))
        for _ in range(_MOST_UNSEEN):
            if found == self._model:
                return self.number - before
            self._advance(self.number + 1)
        raise UnsoundError(
            f"{len(found)} entries, the newest of operation {newest}, are no prefix of the stream "
            f"that includes operation {max(before, floor)}"
        )

    def _advance(self, number: int) -> None:
        while self.number < number:
            self.number += 1
            change_model(self._model, kill_loop.operation(self._seed, self.number).changes)


def _number_of(value: bytes) -> int:
    try:
        return int(value.split(b":", 1)[0])
    except ValueError:
        raise UnsoundError(f"a value that was never written: {value[:40]!r}") from None


# --- the reading process -------------------------------------------------------------------------


class ReadingProcess:
    """A reader that works until its standard input ends."""

    def __init__(self, path: str, seed: int, floor: Path, number: int) -> None:
        self.counts: Counter[str] = Counter()
        self._path = path
        self._floor = floor
        self._follower = Follower(seed)
        self._dice = random.Random(f"reader {seed} {number}")
        self._options = kill_loop.options(seed, number)
        self._ended = stdin_closed()

    def run(self) -> None:
        """Open the store, look at it several times, close it, and repeat."""
        while not self._ended.is_set():
            with lsmkv.open(self._path, self._options, read_only=True) as db:
                self.counts["openings beside the writer"] += 1
                for _ in range(_LOOKS_PER_OPENING):
                    if self._ended.is_set():
                        break
                    faulthandler.dump_traceback_later(_LONGEST_LOOK_S, exit=True)
                    self._look(db)
                    time.sleep(self._dice.random() * _LONGEST_PAUSE_S)

    def _look(self, db: lsmkv.DB) -> None:
        dice = self._dice
        floor = int(self._floor.read_text())
        before = list(iter(db.items()))
        iterator = iter(db.items())
        begun = list(islice(iterator, dice.randrange(20)))
        snapshot = db.snapshot()
        try:
            db.refresh()
        except lsmkv.BackgroundError:  # the store changed during each attempt
            self.counts["refreshes given up"] += 1
            return
        found = in_order(list(iter(db.items())))
        for key in dice.sample(sorted(found), min(10, len(found))):
            if db.get(key) != found[key]:
                raise UnsoundError(f"get({key!r}) differs from the scan")
        with snapshot:
            if begun + list(iterator) != before or list(iter(snapshot.items())) != before:
                raise UnsoundError("an iterator or snapshot changed over a refresh")
        self.counts["operations seen by readers"] += self._follower.see(found, floor)
        self.counts["refreshes"] += 1


def main(arguments: list[str]) -> None:
    """Run a reader and print its counts."""
    path, seed, floor, number = arguments
    reader = ReadingProcess(path, int(seed), Path(floor), int(number))
    reader.run()
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(reader.counts))


# --- the loop ------------------------------------------------------------------------------------


def run(job: Job) -> None:
    """Kill writers until the time is up; return the readers' counts."""
    background: Background = "process" if job.variant == "process" else "thread"
    deadline = job.deadline()
    lsmkv.open(job.path).close()  # readers need a store
    loop = kill_loop.CrashLoop(str(job.path), job.seed, background)
    floor = job.directory / "floor"
    _publish(floor, 0)
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(
                running("torture.load.killed_writer", job.path, job.seed, floor, number)
            )
            for number in range(READERS)
        ]
        while time.monotonic() < deadline or not loop.counts["operations acknowledged"]:
            loop.run_round()
            _publish(floor, loop.done)
            if any(reader.poll() is not None for reader in readers):
                break
        for reader in readers:
            job.counts.update(finish(reader, _PATIENCE_S))
    job.counts.update(loop.counts)


def _publish(floor: Path, number: int) -> None:
    """Tell the readers, in one step, which operation the store must hold."""
    unfinished = floor.with_suffix(".new")
    unfinished.write_text(str(number))
    os.replace(unfinished, floor)


if __name__ == "__main__":
    main(sys.argv[1:])
