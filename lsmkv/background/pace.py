"""Paces background work, so that it gives way to busy writers.

The interpreter runs one thread at a time, so writers wait while a job computes.  A flush is in time if
it ends before the next memtable is full; a compaction, if it ends before level 0 slows writers down.
Until then writers write a known number of bytes, the allowance.  A job sleeps while its finished share
is larger than the written share of the allowance, unless writers are idle or wait for it.

It works for some milliseconds at a time, because each switch between threads delays a put.  A few long
delays are rarer than one put in a thousand; many short ones are not.
"""

from __future__ import annotations

import math
from time import monotonic, process_time, thread_time
from typing import Final

from lsmkv.changes import Changes, await_change
from lsmkv.stats import Stats

BUSY_WRITES_PER_S: Final = 10_000
"""Slower writers leave enough of the interpreter to other threads anyway."""

_WORK_S: Final = 0.005
_NAP_S: Final = 0.005
_WINDOW_S: Final = 0.05  # for counting writes; longer than a pause of writers for a fresh log
_LOOK_S: Final = 0.1  # how long a job is watched before it counts as starved
_LEAST_SHARE: Final = 0.25  # of a core; below it a job is starved ...
_BUSY_SHARE: Final = 0.5  # ... if other threads of the process compute for so much of the time


class Urgency:
    """The threads that wait for background work; ``waiting`` has their identifiers.

    A waiting thread calls :meth:`begin` in a ``try``, whose ``finally`` starts with
    ``waiting.pop(thread, None)``: no interrupt comes before a call of a C function.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}
        self._began = Changes()

    def begin(self, thread: int) -> None:
        """Make background work urgent for ``thread``; naps end."""
        self.waiting[thread] = None
        self._began.announce()

    def nap(self) -> None:
        ticket = self._began.ticket
        if not self.waiting:
            await_change(ticket, _NAP_S)


class StarvedError(Exception):
    """Other threads leave a job too little of the interpreter: a process should do it."""


class Starvation:
    """Watches whether other threads keep the interpreter from this one."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what was seen, as after a nap."""
        self._since_s, self._own_s, self._all_s = monotonic(), thread_time(), process_time()

    def is_found(self) -> bool:
        """Whether other threads left this one too little of a core."""
        passed_s = monotonic() - self._since_s
        if passed_s < _LOOK_S:
            return False
        own_s, all_s = thread_time() - self._own_s, process_time() - self._all_s
        self.restart()
        return own_s < _LEAST_SHARE * passed_s and all_s - own_s > _BUSY_SHARE * passed_s


class Pacer:
    """Paces one job at a time."""

    def __init__(self, stats: Stats, urgency: Urgency) -> None:
        self.urgency = urgency
        self._stats = stats
        self._window_start_s = monotonic()
        self._window_start_writes = stats.writes
        self._writers_are_busy = False
        self.start(total=0, allowance_bytes=0)

    def start(self, *, total: int, allowance_bytes: int, first: int = 0) -> None:
        """Pace ``total`` units, after ``first``, while writers write so many bytes; 0: never sleep."""
        self._total = total
        self._first = first
        self._allowance_bytes = allowance_bytes
        self._start_bytes = self._stats.log_bytes
        self._work_until_s = -math.inf

    def give_way(self, done: int) -> None:
        """Sleep while the job is ahead; ``done`` counts from ``first``."""
        if monotonic() < self._work_until_s:
            return
        done += self._first
        while self.writers_are_busy() and not self.is_urgent():
            written = self._stats.log_bytes - self._start_bytes
            if done * self._allowance_bytes <= written * self._total:
                break
            self.nap()
        self._work_until_s = monotonic() + _WORK_S

    def writers_are_busy(self) -> bool:
        """Whether writers wrote at a high rate during the last window."""
        now_s = monotonic()
        passed_s = now_s - self._window_start_s
        if passed_s >= _WINDOW_S:
            writes = self._stats.writes
            written = writes - self._window_start_writes
            self._writers_are_busy = written >= BUSY_WRITES_PER_S * passed_s
            self._window_start_writes, self._window_start_s = writes, now_s
        return self._writers_are_busy

    def is_urgent(self) -> bool:
        """Whether the job must not sleep now; subclasses add reasons."""
        return bool(self.urgency.waiting)

    def nap(self) -> None:
        self.urgency.nap()
