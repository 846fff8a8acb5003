"""How work in a thread gives way to writers, with whom it shares the interpreter.

The interpreter runs one thread at a time: what a flush or compaction takes of it, the writers wait
for.  Neither is urgent when it begins.  A flush is in time if it is done before the next memtable is
full; a compaction, before level 0 has so many runs that writers are slowed down.  So there is a number
of bytes that writers may write meanwhile, and the work is kept no further ahead than they are on their
way through these: whenever it is, it naps.

It works for some milliseconds at a time.  Changing from one thread to the other costs both, and every
change back makes a put wait: a few long waits are rarer than one put in a thousand, many short ones
are not.

It gives way to busy writers only, and never while anybody waits for it.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from lsmkv.stats import Stats

BUSY_WRITES_PER_S: Final = 10_000
"""Slower writers leave the interpreter to others anyway."""

_WORK_S: Final = 0.005
_NAP_S: Final = 0.005
_WINDOW_S: Final = (
    0.05  # over which writes are counted: starting a fresh log takes milliseconds, too
)


class Haste:
    """Whether anybody waits for background work to be done.  For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._wanted = threading.Event()

    def __bool__(self) -> bool:
        return self._wanted.is_set()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """While the block runs, somebody waits."""
        self.add()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._wanted.clear()

    def add(self) -> None:
        """Somebody waits from now on; naps end."""
        with self._lock:
            self._waiting += 1
            self._wanted.set()

    def nap(self) -> None:
        """Sleep for a moment, or until somebody waits."""
        self._wanted.wait(_NAP_S)


class Writers:
    """Whether the writers of a store are busy, as its counters tell.  For one thread."""

    def __init__(self, stats: Stats, clock: Callable[[], float] = time.monotonic) -> None:
        self._stats = stats
        self._clock = clock
        self._writes = stats.writes
        self._since_s = clock()
        self._busy = False

    @property
    def written_bytes(self) -> int:
        """Bytes written to logs so far."""
        return self._stats.log_bytes

    def are_busy(self) -> bool:
        """Whether there were many writes just now."""
        now_s = self._clock()
        passed_s = now_s - self._since_s
        if passed_s >= _WINDOW_S:
            writes = self._stats.writes
            self._busy = writes - self._writes >= BUSY_WRITES_PER_S * passed_s
            self._writes, self._since_s = writes, now_s
        return self._busy


class Pace:
    """One piece of work, to be done when writers have written so much more.

    Args:
        total: what there is to do, in any unit.
        first: how much of it is done in one go, without a chance to give way, at the beginning.
        allowance_bytes: what writers may write meanwhile; with 0 the work never gives way.
        is_urgent: whether it is to be done as soon as can be.
        nap: sleeps for a moment.
    """

    def __init__(
        self,
        writers: Writers,
        *,
        total: int,
        first: int = 0,
        allowance_bytes: int,
        is_urgent: Callable[[], bool],
        nap: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writers = writers
        self._total = total
        self._first = first
        self._allowance_bytes = allowance_bytes
        self._is_urgent = is_urgent
        self._nap = nap
        self._clock = clock
        self._start_bytes = writers.written_bytes
        self._until_s = -math.inf

    def give_way(self, done: int) -> None:
        """Sleep while more is done than is needed yet: ``done``, and what was done first."""
        if self._clock() < self._until_s:
            return
        busy = self._writers.are_busy
        while self._is_ahead(self._first + done) and busy() and not self._is_urgent():
            self._nap()
        self._until_s = self._clock() + _WORK_S

    def _is_ahead(self, done: int) -> bool:
        written = self._writers.written_bytes - self._start_bytes
        return done * self._allowance_bytes > written * self._total
