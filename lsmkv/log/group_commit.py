"""Group commit: one sync serves every writer that waits for one.

A writer that finds nobody syncing takes the *lead*: it syncs, for itself and for all who have come
meanwhile.  Whoever has the lead passes it on to the first that its sync came too early for.

An interrupt may end any of these steps half-way, and so nobody relies on being woken: who waits looks
again after a while, finds that it was served, or that nobody leads, and takes the lead itself.  Whether
somebody leads is told by ``leading``, a lock that ``with`` lets go of whatever happens.
"""

from __future__ import annotations

import threading
from typing import Final

from lsmkv.changes import LOOK_S

_SYNCS_WITHOUT_WAIT: Final = 16  # after a wait in vain
_NEVER: Final = 1 << 62  # no file gets that long


class _Waiter:
    """A writer that waits for the first ``end`` bytes to be on disk, or for the lead."""

    __slots__ = ("end", "following", "leads", "woken")

    def __init__(self, end: int) -> None:
        self.end = end
        self.leads = False
        self.following: _Waiter | None = None  # whom it is to wake
        self.woken = threading.Lock()  # its own, so that those who wake have nothing to queue for
        self.woken.acquire()


class GroupCommit:
    """Who syncs a log, and who waits for it.  For any number of threads at once.

    Attributes:
        synced: up to where the log is known to be on disk.
        company: how many writers waited at once for the last sync, or came during it.
        waiting: those who wait now, without the one that leads.
        leading: held by the one that leads.
    """

    def __init__(self, synced: int) -> None:
        self.synced = synced
        self.company = 1
        self.waiting: list[_Waiter] = []
        self.leading = threading.Lock()
        self._served: list[_Waiter] = []
        self._lock = threading.Lock()
        self._is_led = False  # or somebody was asked to lead
        self._awaited = 0
        self._company_here = threading.Lock()
        self._company_here.acquire()
        self._tries_later = 0

    def join(self, end: int) -> bool:
        """Wait until ``end`` bytes are on disk: False.  True: it is the caller's to sync, who leads.

        Whoever leads does so within ``with leading``, where what it wants may be on disk already, and
        then has to :meth:`pass_on` the lead.
        """
        with self._lock:
            if self.synced >= end:
                return False
            if not self._is_led:
                self._is_led = True
                return True
            waiter = _Waiter(end)
            self.waiting.append(waiter)
            if 1 + len(self.waiting) == self._awaited:
                self._awaited = 0
                _release(self._company_here)
        try:
            return self._wait(waiter)
        except BaseException:
            self._leave(waiter)
            raise

    def _wait(self, waiter: _Waiter) -> bool:
        while True:
            if waiter.woken.acquire(timeout=LOOK_S):
                _wake(waiter.following)
                if waiter.leads or self.synced >= waiter.end:
                    return waiter.leads
            elif self._takes_over(waiter):
                return True
            elif self.synced >= waiter.end:
                self._leave(waiter)
                return False

    def _takes_over(self, waiter: _Waiter) -> bool:
        """Whether ``waiter`` leads now, because nobody else does."""
        with self._lock:
            if self.leading.locked() or self.synced >= waiter.end:
                return waiter.leads
            waiter.leads = self._is_led = True
            if waiter in self.waiting:
                self.waiting.remove(waiter)
            return True

    def lead(self) -> None:
        """Wait until the lead is the caller's; see :meth:`join`."""
        self.join(_NEVER)

    def wait_for_followers(self, timeout_s: float) -> None:
        """Wait, as the one who leads, for those who were served a moment ago.

        Writers who come one after the other, each just after a sync has begun, would be served by every
        other sync.  (PostgreSQL's ``commit_delay`` is such a wait, of a length that users set.)  With
        the time that a sync takes as ``timeout_s``, the wait never costs more than what it may save.
        """
        with self._lock:
            before = 1 + len(self.waiting)
            if before >= self.company:
                return
            if self._tries_later:
                self._tries_later -= 1
                return
            self._awaited = self.company
        try:
            self._company_here.acquire(timeout=timeout_s)
        finally:
            with self._lock:
                self._awaited = 0
                self._company_here.acquire(blocking=False)  # they may have come after the time
                if 1 + len(self.waiting) == before:
                    self._tries_later = _SYNCS_WITHOUT_WAIT

    def note_synced(self, end: int) -> int:
        """A sync has brought ``end`` bytes to disk; returns how many writers it serves."""
        with self._lock:
            self.synced = max(self.synced, end)
            self.company = 1 + len(self.waiting)
            self._served = [waiter for waiter in self.waiting if waiter.end <= end]
            self.waiting = [waiter for waiter in self.waiting if waiter.end > end]
            return 1 + len(self._served)

    def pass_on(self) -> None:
        """Let go of the lead, and wake those who were served.

        They wake one after the other, each by the one before: of more at once, all but one would only
        wait again, for the interpreter.
        """
        successor = first = None
        with self._lock:
            for waiter in reversed(self._served):
                waiter.following, first = first, waiter
            self._served = []
            self._is_led = bool(self.waiting)
            if self._is_led:
                successor = self.waiting[0]
                successor.leads = True
                del self.waiting[0]  # no call: an interrupt must not come in between
        _wake(successor)
        _wake(first)

    def _leave(self, waiter: _Waiter) -> None:
        """Wait no more: after an interrupt, or because nobody has said that it was served."""
        with self._lock:
            if waiter in self.waiting:
                self.waiting.remove(waiter)
            elif waiter in self._served:
                self._served.remove(waiter)
            leads = waiter.leads
        _wake(waiter.following)
        if leads:
            self.pass_on()


def _wake(waiter: _Waiter | None) -> None:
    if waiter is not None:
        _release(waiter.woken)


def _release(lock: threading.Lock) -> None:
    try:  # noqa: SIM105 - contextlib.suppress takes longer than all the rest of a hand-over
        lock.release()
    except RuntimeError:  # it is open already
        pass
