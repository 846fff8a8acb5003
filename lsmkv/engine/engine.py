"""The engine: one open store, from opening to closing.

Two locks order all changes.  The lock of the version set serialises changes of the manifest and is
taken before the mutex, never after.  Readers take neither: they load ``super_version`` once and use
what it names.  It is replaced, never changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from librt.threading import Lock

from lsmkv.background import handles
from lsmkv.background.background_work import BackgroundWork
from lsmkv.background.events import OnEvent, Refreshed, Resumed
from lsmkv.background.refresher import Refresher
from lsmkv.changes import Changes
from lsmkv.engine.capture import capture_directory, capture_open, capture_published
from lsmkv.engine.follower import StoreFollower
from lsmkv.engine.published import Published
from lsmkv.engine.recovery import recover, remove_leftovers
from lsmkv.engine.upkeep import Upkeep
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import FileLock, Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import State
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet

_FORKED: Final = (
    "was forked: a snapshot, cursor, view or iterator from before belongs to the parent; "
    "make another in the child, where the read-only handle itself works"
)
_FORKED_AWAY: Final = (
    "was opened before the process forked, and object storage cannot be used in the child: start "
    'processes with multiprocessing\'s "spawn" or "forkserver", and open it there'
)


def _nobody() -> None:
    """No handle is to be told."""


class Engine(Upkeep):
    """One open store.

    Attributes:
        published: where it is read from, if that is no directory.
        refresh_every_s: how often a read-only store looks for new writes by itself; None: never.
        opened_by_itself: it was left to its first use, so nobody has to close it.
        follow_fork: a weak reference to what the handle does with its engine in a forked child.
    """

    def __init__(
        self,
        directory: str,
        options: Options,
        storage: Storage,
        lock: FileLock | None,
        published: Published | None = None,
        refresh_every_s: float | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        super().__init__(storage, directory, options, read_only=lock is None, on_event=on_event)
        self.cache = BlockCache(
            options.block_cache_size_bytes, storage.stats, options.table_budget_bytes
        )
        self._lock = lock
        self._is_closed = False
        self._ending = threading.Lock()  # held by the thread that closes the store
        self.published = published
        if published is None:
            self._tables = VersionSet(storage, directory, options, self.cache)
        else:
            self._tables = published.tables(storage, directory, options, self.cache)
        self._background = BackgroundWork(self, self._tables, lock)
        self._follower = StoreFollower(storage, directory, self._tables.open_version)
        self.refresh_every_s = refresh_every_s
        self._refresher: Refresher | None = None
        if refresh_every_s is not None:
            self._refresher = Refresher(directory, refresh_every_s, self.open_read_only)
        self._opener = 0  # the thread that recovers for reading
        self._has_news = False
        self._seq_at_fork = -1
        self.opened_by_itself = False
        self.follow_fork: Callable[[], Callable[[Engine], object] | None] = _nobody

    # Opening

    def create(self) -> None:
        for name in self.storage.list_directory(self.directory):
            if parse_file_name(name) is not None:  # left by an unfinished creation
                self.storage.remove(os.path.join(self.directory, name))
        number = 1
        self._logs.create(number)
        state = State(Levels(), number + 1, last_seq=0, log_number=number)
        self._tables.start_manifest(state, [])
        self._start(SuperVersion(Memtable(1, number), (), Version(Levels(), {})))

    def open(self) -> None:
        found = recover(self.storage, self.directory)
        version = self._tables.open_version(found.state.levels)
        was_closed = found.was_closed
        self._logs.reopen(found.logs, found.names, was_closed)
        manifest = found.manifest if was_closed else None
        self._tables.start_manifest(found.state, found.names, manifest)
        kept = remove_leftovers(self.storage, self.directory, found.names, self._tables.manifest)
        self._tables.unremoved += kept
        self.last_seq = found.last_seq
        self._start(found.super_version(version))

    def abandon(self) -> None:
        """Close a store whose creation or opening failed."""
        self._background.stop()
        self.super_version = None
        self._release()
        self._events.close()

    def open_read_only(self) -> None:
        """Recover for reading, beside a writer or without one; later, take in what is new."""
        thread = self.entering()
        if self._opener == thread:
            raise RuntimeError(
                f"this thread is opening or refreshing {self.directory} already: a finalizer, signal "
                "handler or trace function came in between, and must leave its work for later"
            )
        with self._tables.lock:  # one recovery at a time, or a newer one might be undone
            try:
                self._opener = thread
                self._recover_for_reading()
            finally:
                self._opener = 0
        if self._refresher is not None:
            self._refresher.start()
        self.tell()

    def _recover_for_reading(self) -> None:
        before = self.super_version
        if self.published is not None:
            current, last_seq = self.published.recover()
            has_news = before is not None and current is not before
        else:
            current, last_seq = self._follower.recover()
            if before is None:
                has_news = self._seq_at_fork not in (-1, last_seq)
            else:
                has_news = self._follower.found_more
        if current is before and not self._closing:
            return
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            if self._closing:
                self._follower.forget()
                raise self.unusable()
            self.last_seq = last_seq
            self.super_version = current
            if has_news:
                self._has_news = True
                self.note(Refreshed(self.directory, last_seq))
            self.opens_on_use = False
            handles.watch(self)  # under the mutex: a close, which ends it, comes later

    def leave_to_first_use(self) -> None:
        """Be opened for reading by whatever uses the store first."""
        self.opens_on_use = self.opened_by_itself = True
        handles.watch(self)

    def open_on_use(self) -> SuperVersion:
        if self.opens_on_use and not self._closing:
            self.open_read_only()
        current = self.super_version
        if current is None:
            raise self.unusable()
        return current

    def _start(self, current: SuperVersion) -> None:
        self.super_version = current
        handles.watch(self)
        self._update_throttle()
        self._background.start(current)

    # Copies

    def capture(self) -> Capture:
        """The present state, with its files held open.  Raises as ``DB.checkpoint``.

        Nothing waits for it but the end of a flush, a compaction or an ingest, while it opens the logs.
        """
        current = self.require_open()
        if self.published is not None:
            return capture_published(current, self.last_seq)
        if self.read_only:
            return capture_directory(self.storage, self.directory)
        with self._tables.lock:  # until the logs are open: a flush that ends removes one
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self._check_writable()
                self.check_not_closing()
                current, last_seq = self.require_open(), self.last_seq
                extents = self._logs.extents()
            state = self._tables.manifest.state
            return capture_open(self.storage, self.directory, current, last_seq, state, extents)

    # Failures and the end

    def resume(self) -> None:
        """Take writes again after a failure.  Raises as ``DB.resume``.

        It flushes the memtables first, because their logs may be what failed.
        """
        self.require_open()
        self.check_not_telling("resume()")
        try:
            self._urgently(self._resume)
        finally:
            self.tell()

    def _resume(self) -> None:
        if self._failure is not None:
            self._background.wait_idle()  # work that began before the mending may still fail
        thread = self.entering()
        with self._tables.lock, self._mutex:
            self._owner = thread
            if self.super_version is None or self.read_only:
                self._check_writable()
            self.check_not_closing()
            cause = self._failure
            if cause is None:
                return
            self._tables.mend_manifest()
            self._rotate(self.require_open())
        try:
            self._resuming = True
            self._wait_until(lambda: self._is_mended(cause))
        finally:
            self._resuming = False
        self._background.wake_compactor()

    def _is_mended(self, cause: BaseException) -> bool:
        """Whether everything is flushed after ``cause``; then takes writes again."""
        if self._failure is not cause:
            self._check_writable()
        if self.require_open().flushing:
            return False
        self._failure = self._noted_failure = None
        self.note(Resumed(self.directory))
        return True

    def refresh(self) -> bool:
        """Take in what is new; returns whether anything was since the last call."""
        self.require_open()
        if not self.read_only:
            return False
        if self._refresher is not None:
            self._refresher.raise_error()
        self.open_read_only()
        found, self._has_news = self._has_news, False
        return found

    def close(self) -> None:
        """Stop background work, sync the log, release the lock.

        A second call does nothing.  If syncing raises OSError, the store is closed all the same.
        """
        # Another thread may be closing it, or this one, further up: a finalizer calls close() too.
        if self._is_closed or self._ending.locked():
            return
        with self._ending:
            try:
                if not self._is_closed:
                    self._close()
            finally:
                self._events.close()

    def _close(self) -> None:
        if self._refresher is not None:
            self._refresher.stop()
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            self._closing = True
            self._changes.announce()
        self._background.stop()
        thread = self.entering()
        with self._mutex:  # a running write ends first, and no other begins
            self._owner = thread
            self.super_version = None
            self.opens_on_use = False
            self._changes.announce()
        try:
            if not self.read_only:
                number, end, salt = self._logs.finish(mark=self._failure is None)
                if self._failure is None:  # otherwise the manifest may be what failed
                    with self._tables.lock:
                        self._tables.manifest.note_closed_log(number, end, salt)
        finally:
            self._release()

    def _release(self) -> None:
        if self.published is not None:
            self.published.close()
        self._follower.forget()
        self._tables.close()
        self._logs.close()
        if self._lock is not None:
            self._lock.release()
        handles.unwatch(self)
        self._is_closed = True

    def mark_forked(self) -> None:
        """In the child of a fork: become unusable, and drop the file lock.

        The handle of a read-only store gets an engine for the child, which its first use opens.
        """
        if self.super_version is not None or self.opens_on_use:
            self._mutex = Lock()  # a thread of the parent may hold the old one
            self._changes = Changes()
            self._ending = threading.Lock()
            self._tables.lock = threading.Lock()
            self.forked = True
            self.super_version = None
            self.opens_on_use = False
            self._follower.forget()
            follow_fork = self.follow_fork()
            if self.read_only and self.published is None and not self._closing and follow_fork:
                self.fork_advice = _FORKED
                handles.unwatch(self)
                follow_fork(self._for_child())
            elif self.published is not None:
                self.fork_advice = _FORKED_AWAY
        self._is_closed = True
        if self._lock is not None:
            self._lock.release()

    def _for_child(self) -> Engine:
        storage = self.storage
        if type(storage) is Storage:  # any other may be none to make anew
            storage = Storage(direct_reads=storage.direct_reads, file_mode=storage.file_mode)
        engine = Engine(
            self.directory,
            self.options,
            storage,
            None,
            refresh_every_s=self.refresh_every_s,
            on_event=self._events.callback,
        )
        engine._seq_at_fork = self.last_seq
        engine.leave_to_first_use()
        return engine
