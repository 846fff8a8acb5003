"""Scenario ``processes`` of the part ``load``: a writer that is killed over and over, readers beside it.

The writer is that of ``torture/crash/kill_loop.py``, which dies by SIGKILL and goes on where it had
come to; after each death the loop checks that nothing acknowledged is lost.  Reading processes live
through all of it: they open the store read-only, refresh, and hold what they see against the same
stream of operations.

``python -m torture.load.killed_writer STORE SEED FLOOR NUMBER`` is one of these readers.  FLOOR is a file
with the number of the last operation that is known to be there.  The reader ends when its standard input
does, and says what it has done as a line of JSON.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
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
from lsmkv.options import Background
from torture.crash import kill_loop
from torture.framework.part import UnsoundError
from torture.load.clients import in_order
from torture.load.scenario import Job

READERS: Final = 2
_MOST_UNSEEN: Final = 64
"""Operations in a row of which a store may show nothing: deletions, and puts that they undo."""
_FURTHEST: Final = 1_000_000
_LOOKS_PER_OPENING: Final = 25
_LONGEST_PAUSE_S: Final = 0.01
_PATIENCE_S: Final = 60.0
_LONGEST_LOOK_S: Final = 60.0


class Follower:
    """What a reader has seen of a stream of operations.  It never sees time go back.

    Attributes:
        number: the operation after which the store was as it was seen last.
    """

    def __init__(self, seed: int) -> None:
        self.number = 0
        self._seed = seed
        self._model: dict[bytes, bytes] = {}

    def see(self, found: dict[bytes, bytes], floor: int = 0) -> int:
        """Hold what a store shows against the stream; how many operations it has gone on."""
        before = self.number
        newest = max((_number_of(value) for value in found.values()), default=0)
        if newest > before + _FURTHEST:
            raise UnsoundError(f"a value is of operation {newest}, which nobody has made")
        self._advance(max(newest, floor))
        for _ in range(_MOST_UNSEEN):
            if found == self._model:
                return self.number - before
            self._advance(self.number + 1)
        raise UnsoundError(
            f"{len(found)} entries, the newest of operation {newest}, are no prefix of what was "
            f"written, with operation {max(before, floor)} and what came before it"
        )

    def _advance(self, number: int) -> None:
        while self.number < number:
            self.number += 1
            kill_loop.apply_to_model(self._model, kill_loop.operation(self._seed, self.number))


def _number_of(value: bytes) -> int:
    try:
        return int(value.split(b":", 1)[0])
    except ValueError:
        raise UnsoundError(f"a value that nobody wrote: {value[:40]!r}") from None


# --- the reading process -------------------------------------------------------------------------


class ReadingProcess:
    """What a reader does until it is told to end."""

    def __init__(self, path: str, seed: int, floor: Path, number: int) -> None:
        self.counts: Counter[str] = Counter()
        self._path = path
        self._floor = floor
        self._follower = Follower(seed)
        self._dice = random.Random(f"reader {seed} {number}")
        self._options = kill_loop.options(seed, number)
        self._ended = threading.Event()

    def run(self) -> None:
        """Open, look a number of times, close, until standard input ends."""
        threading.Thread(target=self._await_end, daemon=True).start()
        while not self._ended.is_set():
            with lsmkv.open(self._path, self._options, read_only=True) as db:
                self.counts["openings beside the writer"] += 1
                for _ in range(_LOOKS_PER_OPENING):
                    if self._ended.is_set():
                        break
                    faulthandler.dump_traceback_later(_LONGEST_LOOK_S, exit=True)
                    self._look(db)
                    time.sleep(self._dice.random() * _LONGEST_PAUSE_S)

    def _await_end(self) -> None:
        sys.stdin.read()
        self._ended.set()

    def _look(self, db: lsmkv.DB) -> None:
        dice = self._dice
        floor = int(self._floor.read_text())
        before = list(iter(db.items()))
        iterator = iter(db.items())
        begun = list(islice(iterator, dice.randrange(20)))
        snapshot = db.snapshot()
        try:
            db.refresh()
        except lsmkv.BackgroundError:  # the store changed each time that it was looked at
            self.counts["refreshes given up"] += 1
            return
        found = in_order(list(iter(db.items())))
        for key in dice.sample(sorted(found), min(10, len(found))):
            if db.get(key) != found[key]:
                raise UnsoundError(f"get({key!r}) is not what a scan finds")
        with snapshot:
            if begun + list(iterator) != before or list(iter(snapshot.items())) != before:
                raise UnsoundError("an iterator or snapshot changed over a refresh")
        self.counts["operations seen by readers"] += self._follower.see(found, floor)
        self.counts["refreshes"] += 1


def main(arguments: list[str]) -> int:
    """A reader; returns its exit status."""
    faulthandler.enable()
    path, seed, floor, number = arguments
    reader = ReadingProcess(path, int(seed), Path(floor), int(number))
    failure = ""
    try:
        reader.run()
    except (UnsoundError, lsmkv.Error, OSError, AssertionError) as error:
        failure = f"{type(error).__name__}: {error}"
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"counts": reader.counts, "failure": failure}))
    return 1 if failure else 0


# --- the loop ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reader(path: Path, seed: int, floor: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "torture.load.killed_writer"]
    with subprocess.Popen(
        [*command, str(path), str(seed), str(floor), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(job: Job) -> None:
    """Kill the writer until the time is up, and ask the readers then."""
    background: Background = "process" if job.variant == "process" else "thread"
    deadline = job.deadline()
    lsmkv.open(job.path).close()  # so that readers find a store
    loop = kill_loop.CrashLoop(str(job.path), job.seed, background)
    floor = job.directory / "floor"
    _publish(floor, 0)
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(_reader(job.path, job.seed, floor, number))
            for number in range(READERS)
        ]
        while time.monotonic() < deadline or not loop.totals.operations:
            loop.run_round()
            _publish(floor, loop.done)
            if any(reader.poll() is not None for reader in readers):
                break
        for reader in readers:
            job.counts.update(_told(reader))
    totals = loop.totals
    job.counts.update(
        {
            "writers killed": totals.rounds,
            "writers killed while opening": totals.killed_opening,
            "operations acknowledged": totals.operations,
            "operations synced": totals.synced,
        }
    )


def _publish(floor: Path, number: int) -> None:
    """Tell readers what is there for certain, in one step."""
    unfinished = floor.with_suffix(".new")
    unfinished.write_text(str(number))
    os.replace(unfinished, floor)


def _told(reader: subprocess.Popen[str]) -> dict[str, int]:
    """What a reader counted."""
    try:
        output, errors = reader.communicate("", timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise UnsoundError("a reader does not end") from None
    if not output:
        raise UnsoundError(f"a reader died ({reader.returncode}):\n{errors[-2000:]}")
    told = json.loads(output)
    if told["failure"]:
        raise UnsoundError(f"a reader: {told['failure']}")
    counts: dict[str, int] = told["counts"]
    return counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
