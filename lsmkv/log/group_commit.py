"""Group commit: one sync serves every writer that waits for one.

A writer that finds no leader becomes the *leader*: it syncs for itself and for its *followers*, the
writers that arrived before its sync began.  Then it hands the lead to the first follower for whom the
sync came too early.  An interrupt may end any of these steps half-way, so a follower looks again after
a while, and takes the lead if nobody holds ``leading``.
"""

from __future__ import annotations

import threading
from typing import Final

from lsmkv.changes import LOOK_S, held_lock

_SYNCS_WITHOUT_WAIT: Final = 16  # after a wait that no follower joined
_NEVER: Final = 1 << 62  # no file is that long


class _Follower:
    """A writer that waits for ``end`` bytes on disk, or to lead."""

    __slots__ = ("end", "leads", "next", "woken")

    def __init__(self, end: int) -> None:
        self.end = end
        self.leads = False
        self.next: _Follower | None = None  # the follower that this one wakes
        self.woken = held_lock()  # its own, so that nobody queues to wake it


class GroupCommit:
    """The leader and the followers of one log's syncs.  Thread-safe."""

    def __init__(self, synced: int) -> None:
        self.synced = synced  # the offset up to which the log is known to be on disk
        self.group_size = 1  # how many writers waited for the last sync, or came during it
        # The writers that wait now, without the leader, who holds ``leading``.
        self.followers: list[_Follower] = []
        self.leading = threading.Lock()
        self._served: list[_Follower] = []
        self._lock = threading.Lock()
        self._has_leader = False  # or a follower was asked to lead
        self._awaited_size = 0
        self._group_complete = held_lock()
        self._syncs_without_wait = 0

    def join(self, end: int) -> bool:
        """Wait until ``end`` bytes are on disk: False; True makes the caller the leader.

        The leader enters ``with leading``, syncs unless its bytes are on disk by then, and must
        :meth:`hand_over` the lead.
        """
        with self._lock:
            if self.synced >= end:
                return False
            if not self._has_leader:
                self._has_leader = True
                return True
            follower = _Follower(end)
            self.followers.append(follower)
            if 1 + len(self.followers) == self._awaited_size:
                self._awaited_size = 0
                _release(self._group_complete)
        try:
            return self._wait(follower)
        except BaseException:
            self._leave(follower)
            raise

    def _wait(self, follower: _Follower) -> bool:
        while True:
            if follower.woken.acquire(timeout=LOOK_S):
                _wake(follower.next)
                if follower.leads or self.synced >= follower.end:
                    return follower.leads
            elif self._takes_lead(follower):
                return True
            elif self.synced >= follower.end:
                self._leave(follower)
                return False

    def _takes_lead(self, follower: _Follower) -> bool:
        with self._lock:
            if self.leading.locked() or self.synced >= follower.end:
                return follower.leads
            follower.leads = self._has_leader = True
            if follower in self.followers:
                self.followers.remove(follower)
            return True

    def lead(self) -> None:
        self.join(_NEVER)

    def wait_for_followers(self, timeout_s: float) -> None:
        """Wait for as many followers as the last sync served.

        ``timeout_s`` is the duration of a sync: no wait costs more than it may save (compare
        PostgreSQL's ``commit_delay``).
        """
        with self._lock:
            before = 1 + len(self.followers)
            if before >= self.group_size:
                return
            if self._syncs_without_wait:
                self._syncs_without_wait -= 1
                return
            self._awaited_size = self.group_size
        try:
            self._group_complete.acquire(timeout=timeout_s)
        finally:
            with self._lock:
                self._awaited_size = 0
                self._group_complete.acquire(blocking=False)  # the last may have come too late
                if 1 + len(self.followers) == before:
                    self._syncs_without_wait = _SYNCS_WITHOUT_WAIT

    def note_synced(self, end: int) -> int:
        """Note that ``end`` bytes are on disk; returns how many writers that serves."""
        with self._lock:
            self.synced = max(self.synced, end)
            self.group_size = 1 + len(self.followers)
            self._served = [follower for follower in self.followers if follower.end <= end]
            self.followers = [follower for follower in self.followers if follower.end > end]
            return 1 + len(self._served)

    def hand_over(self) -> None:
        """Stop leading: wake the next leader and the followers that were served.

        Each served follower wakes the next: if all woke at once, they would wait for the interpreter.
        """
        successor = first = None
        with self._lock:
            for follower in reversed(self._served):
                follower.next, first = first, follower
            self._served = []
            self._has_leader = bool(self.followers)
            if self._has_leader:
                successor = self.followers[0]
                successor.leads = True
                del self.followers[0]  # no call: an interrupt must not come in between
        _wake(successor)
        _wake(first)

    def _leave(self, follower: _Follower) -> None:
        """Stop waiting, after an interrupt or a sync that woke nobody."""
        with self._lock:
            if follower in self.followers:
                self.followers.remove(follower)
            elif follower in self._served:
                self._served.remove(follower)
            leads = follower.leads
        _wake(follower.next)
        if leads:
            self.hand_over()


def _wake(follower: _Follower | None) -> None:
    if follower is not None:
        _release(follower.woken)


def _release(lock: threading.Lock) -> None:
    try:  # noqa: SIM105 - contextlib.suppress takes longer than the rest of handing over
        lock.release()
    except RuntimeError:  # it is released already
        pass
