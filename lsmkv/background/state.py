"""The state that the parts of an open store share.

The mutex serialises writes and changes of ``super_version``.  No thread waits while it holds the mutex:
it releases the mutex, waits as in :mod:`lsmkv.changes`, and looks again.  Lookups take no lock: they load
``super_version`` once and use what it names.  It is replaced, never changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from threading import get_ident
from typing import Final

from librt.threading import Lock

from lsmkv.background.events import BackgroundFailed, EventTeller
from lsmkv.changes import Changes
from lsmkv.encoding.expiry import Clock
from lsmkv.errors import (
    BackgroundError,
    ClosedError,
    CorruptionError,
    Error,
    ForkedError,
    ReadOnlyError,
    caused,
)
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.snapshots import SnapshotList
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.stats import Stats
from lsmkv.tree.version import Version

_FORGOTTEN_AT_ONCE: Final = 1024  # entries
_OWNER_CHECKS: Final = 4
_OWNER_CHECK_S: Final = 0.01


class Life(Enum):
    """The stages of an open store."""

    UNOPENED = "unopened"  # its first use opens it
    OPEN = "open"
    FAILED = "failed"  # it takes no writes until ``resume``
    CLOSING = "closing"  # what runs may end; nothing that waits is waited for
    CLOSED = "closed"
    FORKED = "forked"  # this process is a fork of the one that opened it


# Compiled code reads a constant faster than a member.
UNOPENED: Final = Life.UNOPENED
OPEN: Final = Life.OPEN
FAILED: Final = Life.FAILED


class StoreState:
    """What the parts of an open store share."""

    def __init__(
        self,
        directory: str,
        options: Options,
        stats: Stats,
        cache: BlockCache,
        events: EventTeller,
        *,
        clock: Clock,
        read_only: bool,
        to_write: str,
    ) -> None:
        self.clock = clock  # tells which entries are due
        self.directory = directory
        self.options = options
        self.stats = stats
        self.cache = cache
        self.events = events
        self.read_only = read_only
        self.to_write = to_write  # what a program does to write to a store that is only read
        self.life = Life.UNOPENED  # the stage it is in
        # The current one; None unless the store can be read.
        self.super_version: SuperVersion | None = None
        self.last_seq = 0  # the number of the last write
        self.failure: BaseException | None = None  # why it takes no writes; None unless that is so
        self._noted_failure: BaseException | None = None  # as an event
        # Whether flushes run in spite of a failure, which ``resume`` is to end.
        self.resuming = False
        self.is_crowded = False  # whether level 0 has so many runs that writers slow down
        self.snapshots = SnapshotList()
        self.changes = Changes()  # announces changes of all this to threads that wait
        self.mutex = Lock()  # guards all this
        self.contents = object()  # another where another store took the place of this one
        self.owner = 0  # the last thread that took the mutex; 0 where it cleared this itself
        # Opens a store for reading at its first use.
        self.opener: Callable[[], object] = lambda: None
        # What the child of a fork is told.
        self.fork_advice = "was opened before the process forked; open it anew in the child"
        self._get_ident = get_ident  # an attribute is found faster than a module's name

    # The mutex

    def entering(self) -> int:
        """The present thread, to become ``owner``: asked first, so that nothing runs in between.

        RuntimeError if the thread holds the mutex already, and would wait for itself.
        """
        thread = self._get_ident()
        if self.owner == thread and self.mutex.locked():
            self._refuse_own_lock(thread)
        return thread

    def _refuse_own_lock(self, thread: int) -> None:
        """Raise if ``thread`` holds the mutex: a finalizer or signal handler runs."""
        for _ in range(_OWNER_CHECKS):  # another thread may hold it, and not be its owner yet
            if not self.mutex.locked() or self.owner != thread:
                return
            time.sleep(_OWNER_CHECK_S)
        raise RuntimeError(
            f"this thread is already inside a call on {self.directory}: a finalizer, signal handler "
            "or trace function may only look keys up, and must leave everything else for later"
        )

    def with_mutex(self, action: Callable[[], object]) -> None:
        """Call ``action``, which is short, with the mutex held."""
        thread = self.entering()
        with self.mutex:
            self.owner = thread
            action()
            self.owner = 0

    # What may be done

    def require_open(self) -> SuperVersion:
        """The current super version; ClosedError or ForkedError without one."""
        current = self.super_version
        if current is None:
            if self.life is UNOPENED:
                self.opener()
                current = self.super_version
            if current is None:
                raise self.unusable()
        return current

    def unusable(self) -> Error:
        """Why there is no super version: a new exception for each caller."""
        if self.life is Life.FORKED:
            return ForkedError(f"{self.directory} {self.fork_advice}")
        return ClosedError(f"{self.directory} is closed")

    @property
    def is_ending(self) -> bool:
        """Whether the store is closed, or about to be."""
        return self.life in (Life.CLOSING, Life.CLOSED, Life.FORKED)

    def check_not_ending(self) -> None:
        """Raise if no work will end a wait."""
        if self.is_ending:
            raise self.unusable()

    def check_for_writing(self) -> None:
        """Raise for a handle that can never write."""
        if self.super_version is None and self.life is not UNOPENED:
            raise self.unusable()
        if self.read_only:
            raise ReadOnlyError(f"{self.directory} was opened with read_only=True; {self.to_write}")

    def check_writable(self) -> None:
        """As :meth:`check_for_writing`; raise BackgroundError after a failure, too."""
        self.check_for_writing()
        if self.failure is not None:
            what = str(self.failure) or type(self.failure).__name__  # a MemoryError has no words
            reason = (
                f"{self.directory} takes no more writes after a failure ({what}); "
                "mend its cause and call resume()"
            )
            raise caused(BackgroundError(reason), self.failure)

    def numbers_used_up(self) -> Error:
        """Why there is no next sequence number.  Only a damaged store reaches that."""
        reason = (
            "its sequence numbers are used up: read it with read_only=True, and write what it holds "
            "to a new store"
        )
        return CorruptionError(self.directory, None, reason)

    def check_not_telling(self, call: str) -> None:
        """RuntimeError inside a callback, for whose thread ``call`` may have to wait."""
        if self.events.is_telling:
            raise RuntimeError(
                f"{call} was called inside on_event, whose thread it may have to wait for; "
                "leave it to another thread"
            )

    # Changes (the mutex is held)

    def show(self, current: SuperVersion, *, keep_entries: bool = False) -> None:
        """Make ``current`` the super version; ``keep_entries``: the entry cache holds for it, too."""
        current.version.epoch = self.cache.next_epoch(keep=keep_entries)
        self.super_version = current
        run_count = current.version.levels.level0_run_count
        self.is_crowded = run_count >= self.options.level0_slowdown_trigger
        self.changes.announce()

    def fail(self, error: BaseException) -> None:
        if self.failure is None or self.resuming:
            self.failure = error
            if self.life is OPEN:
                self.life = FAILED
        if self.failure is error and self._noted_failure is not error:
            self._noted_failure = error
            self.events.note(BackgroundFailed(self.directory, error))
        self.changes.announce()

    def take_writes_again(self) -> None:
        self.failure = self._noted_failure = None
        if self.life is FAILED:
            self.life = OPEN

    # What the background work asks and tells

    def may_flush(self) -> bool:
        """Whether flushes may run now."""
        return self.failure is None or self.resuming

    def may_compact(self) -> bool:
        return self.failure is None

    def due_s(self) -> int:
        """The time by which entries are due for every reader."""
        return self.snapshots.due_s(self.clock.now_s())

    def drop_due(self) -> int:
        """As :meth:`due_s`; from now on they count as dropped."""

        def read() -> None:
            due_s = self.due_s()
            self.clock.dropped_to_s = max(self.clock.dropped_to_s, due_s)
            due.append(due_s)

        due: list[int] = []
        self.with_mutex(read)  # under which snapshots are taken
        return due[0]

    def work_failed(self, error: BaseException) -> None:
        """Take no more writes, unless the work was only cancelled.  Notes an event."""
        if not isinstance(error, CancelledError):
            self.with_mutex(lambda: self.fail(error))

    def publish(self, version: Version, flushed: Memtable | None) -> None:
        """Show ``version`` to readers, without the memtable that it replaces."""
        if flushed is not None:
            self._forget_entries(flushed)
        thread = self.entering()
        with self.mutex:
            self.owner = thread
            current = self.require_open()
            flushing = tuple(memtable for memtable in current.flushing if memtable is not flushed)
            following = SuperVersion(current.memtable, flushing, version)
            # Range deletes hide entries of the cache, too; once gone, they were applied to tables alone.
            keep = following.has_ranges_of(current)
            self.show(following, keep_entries=keep)

    def _forget_entries(self, flushed: Memtable) -> None:
        """Drop from the entry cache what ``flushed`` replaces.

        Readers find its entries first until it goes.  Older ones are not added meanwhile: a lookup may
        have missed the memtable's, and be about to add what it read before.
        """
        self.cache.next_epoch(keep=True)
        keys = flushed.written_keys()
        for start in range(0, len(keys), _FORGOTTEN_AT_ONCE):
            if not len(self.cache.entries):
                return
            self.cache.forget_entries(keys[start : start + _FORGOTTEN_AT_ONCE])
            time.sleep(0)  # lets other threads run
