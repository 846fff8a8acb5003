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

import math
import time
from collections.abc import Callable
from typing import Final

from lsmkv.changes import Changes, await_change
from lsmkv.stats import Stats

BUSY_WRITES_PER_S: Final = 10_000
"""Slower writers leave the interpreter to others anyway."""

_WORK_S: Final = 0.005
_NAP_S: Final = 0.005
_WINDOW_S: Final = (
    0.05  # over which writes are counted: starting a fresh log takes milliseconds, too
)


class Urgency:
    """Whether anybody waits for background work to be done.  For any number of threads.

    Who waits calls :meth:`begin` within a ``try``, and in its ``finally`` first of all
    ``waiting.pop(thread, None)``: one call of a C function, which no interrupt can come before.

    Attributes:
        waiting: the threads that wait, by number.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}
        self._began = Changes()

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def begin(self, thread: int) -> None:
        """``thread`` waits from now on; naps end."""
        self.waiting[thread] = None
        self._began.announce()

    def nap(self) -> None:
        """Sleep for a moment, or until somebody waits."""
        ticket = self._began.ticket
        if not self.waiting:
            await_change(ticket, _NAP_S)


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
