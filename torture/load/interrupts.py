"""Scenario ``interrupts`` of the part ``load``: Ctrl-C at random moments, alone or beside three writers.

A timer interrupts the main thread during any call of the store, opening and closing included.  After
each interrupt the store must work without a hang, and an interrupted write must be there as a whole or
not at all.  A closed store leaves no descriptor and no thread; opened again, it holds the same entries.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

import lsmkv
from torture.framework.changes import Change, Contents, change_model, check_contents, write
from torture.framework.part import UnsoundError
from torture.framework.store_checks import Traces, check_files
from torture.load.scenario import BACKGROUNDS, SMALL, Job

KEYS: Final = 300
WRITERS: Final = 3
_LONGEST_S: Final = 0.003  # from the start of some work to its interrupt
_SHORTEST_S: Final = 1e-5
_ROUNDS_PER_OPENING: Final = 100
_TRIES: Final = 3  # interrupted closings and openings before one without an interrupt
_VALUES: Final = (10, 200, 5000)
_OPTIONS: Final = SMALL.replace(write_buffer_size_bytes=8192)


class Alarm:
    """Interrupts the main thread once, a random time after it was set.

    Attributes:
        is_set: an interrupt is still to come.
    """

    def __init__(self, dice: random.Random) -> None:
        self.is_set = False
        self._dice = dice

    def __enter__(self) -> Alarm:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        self.is_set = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            self.is_set = False
            raise KeyboardInterrupt

    def interrupts(self, action: Callable[[], object]) -> bool:
        """Call ``action``; return whether it was interrupted."""
        after_s = _SHORTEST_S + self._dice.random() ** 2 * _LONGEST_S
        try:
            self.is_set = True
            signal.setitimer(signal.ITIMER_REAL, after_s)
            action()
        except KeyboardInterrupt:
            return True
        finally:
            self.is_set = False
        return False


class Model:
    """One thread's entries, and its interrupted write of unknown outcome."""

    def __init__(self, prefix: bytes, dice: random.Random) -> None:
        self.values: Contents = {}
        self.unsure: dict[bytes, bytes | None] = {}
        self._prefix = prefix
        self._dice = dice
        self._number = 0

    def key(self) -> bytes:
        return b"%s%04d" % (self._prefix, self._dice.randrange(KEYS))

    def change(self) -> Change:
        key = self.key()
        self._number += 1
        if self._dice.random() < 0.1:
            return key, None
        size = self._dice.choices(_VALUES, (60, 30, 1))[0]
        return key, b"%s:%d:" % (key, self._number) + bytes(size)

    def write(self, changes: dict[bytes, bytes | None], action: Callable[[], object]) -> None:
        """Call ``action``, which makes ``changes``; they are unsure until it returns."""
        self.unsure = changes
        action()
        self.settle(True)

    def settle(self, done: bool) -> None:
        """Note whether the unsure write was done as a whole."""
        change_model(self.values, self.unsure.items() if done else ())
        self.unsure = {}  # last, because an interrupt may come here too

    def look(self, db: Mapping[bytes, bytes]) -> None:
        """Find out whether the interrupted write was done; UnsoundError if only in part."""
        found = {key: db.get(key) for key in self.unsure}
        if found == self.unsure:
            self.settle(True)
        elif found == {key: self.values.get(key) for key in self.unsure}:
            self.settle(False)
        else:
            raise UnsoundError(f"an interrupted write was done only in part: {found!r:.300}")

    def check(self, db: lsmkv.DB) -> None:
        """UnsoundError if the store does not hold exactly these entries."""
        check_contents(dict(db.items(prefix=self._prefix)), self.values)


class Writer:
    """A thread that writes all the time without interrupts; it waits while ``pausing`` is held."""

    def __init__(self, session: Session, number: int, dice: random.Random) -> None:
        self.model = Model(b"w%d/" % number, dice)
        self.pausing = threading.Lock()
        self.errors: list[BaseException] = []
        self._session = session
        self._dice = dice
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="torture-writer", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._ended:
            try:
                with self.pausing:
                    if self._session.db is not None:
                        self._write(self._session.db)
            except lsmkv.BackgroundError:  # until the main thread resumes the store
                time.sleep(0.001)
            except BaseException as error:
                self.errors.append(error)
                return
            time.sleep(0.0001)

    def _write(self, db: lsmkv.DB) -> None:
        if self.model.unsure:
            self.model.look(db)
        change = self.model.change()
        sync = self._dice.random() < 0.2
        self.model.write(dict([change]), lambda: write(db, [change], sync=sync))

    def check(self) -> None:
        """UnsoundError if the thread failed."""
        if self.errors:
            raise UnsoundError(f"a writer without interrupts failed: {self.errors[0]!r}")

    def end(self) -> None:
        self._ended = True
        self._thread.join()
        self.check()


class Session:
    """One store, used by an interrupted thread."""

    def __init__(self, job: Job, alarm: Alarm) -> None:
        self._job = job
        self._alarm = alarm
        variant, _, company = job.variant.partition("-")
        self._options = _OPTIONS.replace(**BACKGROUNDS[variant])
        self._dice = job.dice("interrupts")
        self.model = Model(b"m/", self._dice)
        lsmkv.open(job.path, self._options).close()  # loads the modules that load lazily
        self.db: Any = None
        count = WRITERS if company else 0
        self._writers = [Writer(self, number, job.dice(number)) for number in range(count)]
        self._traces = Traces()
        self.db = lsmkv.open(job.path, self._options)

    def round(self) -> None:
        """Work until an interrupt, and check that the store still works."""
        steps = (self._write, self._sync, self._tend, self._read)
        (step,) = self._dice.choices(steps, (6, 3, 3, 2))

        def work() -> None:
            while self._alarm.is_set:
                step()

        with contextlib.suppress(lsmkv.BackgroundError):
            self._job.counts["interrupts"] += self._alarm.interrupts(work)
        try:
            self.db.put(b"m/after", b"")
            self.model.values[b"m/after"] = b""
        except lsmkv.BackgroundError:
            self._job.counts["stores that took no more writes"] += 1
            self.db.resume()
        if self.model.unsure:
            self.model.look(self.db)
        if self._dice.random() < 0.05:
            self.db.flush()
        for writer in self._writers:
            writer.check()

    def _write(self) -> None:
        changes = dict(self.model.change() for _ in range(self._dice.choice((1, 1, 1, 20))))
        self.model.write(changes, lambda: write(self.db, [*changes.items()]))
        if self._dice.random() < 0.03:
            self.db.flush()

    def _sync(self) -> None:
        change = self.model.change()
        self.model.write(dict([change]), lambda: write(self.db, [change], sync=True))

    def _tend(self) -> None:
        self.db.put(b"filling%d" % self._dice.randrange(KEYS), bytes(self._dice.choice(_VALUES)))
        chosen = self._dice.random()
        if chosen < 0.7:
            self.db.flush()
        elif chosen < 0.8:
            self.db.sync()
        elif chosen < 0.9:
            self.db.compact_range(self.model.key(), None)
        else:
            self.db.wait_until_settled()

    def _read(self) -> None:
        self.db.get(self.model.key())
        with self.db.snapshot() as snapshot:
            snapshot.get(self.model.key())
        for _ in zip(range(20), self.db.keys(start=self.model.key()), strict=False):
            pass
        self.db.multi_get([self.model.key() for _ in range(5)])

    def reopen(self) -> None:
        """Close and open the store with interrupts; check that nothing is lost or left open."""
        with contextlib.ExitStack() as held:
            for writer in self._writers:
                held.enter_context(writer.pausing)
                if writer.model.unsure:
                    writer.model.look(self.db)
                writer.model.check(self.db)
            self.model.check(self.db)
            for _ in range(_TRIES):
                self._job.counts["interrupts"] += self._alarm.interrupts(self.db.close)
            self._close()
            self._traces.check()
            for _ in range(_TRIES):
                self._job.counts["interrupts"] += self._alarm.interrupts(self._open)
                self._close()
            self._open()
            for model in (self.model, *(writer.model for writer in self._writers)):
                model.check(self.db)
        self._job.counts["openings"] += 1

    def _close(self) -> None:
        if self.db is not None:
            self.db.close()
        self.db = None
        gc.collect()

    def _open(self) -> None:
        self.db = lsmkv.open(self._job.path, self._options, create_if_missing=False)

    def end(self) -> None:
        """Close the store for good, and check it once more."""
        self.reopen()
        for writer in self._writers:
            writer.end()
        check_files(self.db)
        self.db.close()


def run(job: Job) -> None:
    """Interrupt until the time is up."""
    deadline = job.deadline()
    work(job, lambda: time.monotonic() < deadline)


def work(job: Job, goes_on: Callable[[], bool]) -> None:
    """Interrupt as long as ``goes_on()`` is true."""
    swallowed = 0

    def note(unraisable: Any) -> None:
        nonlocal swallowed
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            swallowed += 1  # the interrupt hit a finalizer
        else:
            sys.__unraisablehook__(unraisable)

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        with Alarm(job.dice("alarm")) as alarm:
            session = Session(job, alarm)
            while goes_on():
                for _ in range(_ROUNDS_PER_OPENING):
                    session.round()
                session.reopen()
            session.end()
    finally:
        sys.unraisablehook = before
        job.counts["interrupts of finalizers"] += swallowed
