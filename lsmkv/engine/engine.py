"""The engine: one open store, from its opening to its end, and what it does in the background.

A full memtable is set aside together with its log and a fresh pair takes its place
(:mod:`lsmkv.engine.write_path`); the flusher writes the old one to a table and records that in the
manifest, after which its log is removed.  The compactor merges tables, one compaction at a time.

The tables' own lock, which serialises changes of the manifest, is taken before the mutex, never after.
Readers take neither.  They load ``super_version`` once and use what it names.  It is replaced, never
changed.
"""

from __future__ import annotations

import os
import threading

from librt.threading import Lock

from lsmkv.background import handles
from lsmkv.background.background_work import BackgroundWork
from lsmkv.changes import Changes, await_change
from lsmkv.engine.recovery import recover, recover_beside_writer, remove_leftovers
from lsmkv.engine.write_path import WriteState
from lsmkv.errors import caused
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import FileLock, Storage
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import State
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet


class Engine(WriteState):
    """An open store.  ``DB`` is its face."""

    def __init__(
        self, directory: str, options: Options, storage: Storage, lock: FileLock | None
    ) -> None:
        super().__init__(storage, directory, options, read_only=lock is None)
        self.cache = BlockCache(options.block_cache_size_bytes, storage.stats)
        self._lock = lock
        self._is_closed = False
        self._ending = threading.Lock()  # held by the one that closes the store
        self._tables = VersionSet(storage, directory, options, self.cache)
        self._background = BackgroundWork(self, self._tables, lock)

    # Opening

    def create(self) -> None:
        """Make a new, empty store in the directory, durably.

        Raises:
            OSError: it cannot be made.
        """
        for name in self.storage.list_directory(self.directory):
            if parse_file_name(name) is not None:  # left by a creation that was cut short
                self.storage.remove(os.path.join(self.directory, name))
        number = 1
        try:
            self._logs.create(number)
            state = State(Levels(), number + 1, last_seq=0, log_number=number)
            self._tables.start_manifest(state, [])
            self._start(SuperVersion(Memtable(1, number), (), Version(Levels(), {})))
        except BaseException:
            self.abandon()
            raise

    def open(self) -> None:
        """Take up the store in the directory where it was left.

        Raises:
            CorruptionError, UnsupportedFormatError: what is there cannot be trusted, or read.
            OSError: a file cannot be read or written.
        """
        try:
            found = recover(self.storage, self.directory)
            version = self._tables.open_version(found.state.levels)
            names, untouched = found.names, found.was_closed
            self._logs.reopen(found.logs, names, untouched)
            self._tables.start_manifest(found.state, names, found.manifest if untouched else None)
            manifest = self._tables.manifest
            self._tables.unremoved += remove_leftovers(
                self.storage, self.directory, names, manifest.state, manifest.number
            )
            self.last_seq = found.last_seq
            *waiting, memtable = found.memtables
            self._start(SuperVersion(memtable, tuple(reversed(waiting)), version))
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Close a store that nobody has used yet; a second call does nothing."""
        self._background.stop()
        self.super_version = None
        self._release()

    def open_read_only(self) -> None:
        """Read the store as it is now, beside a writer or without one; ``refresh`` does it again.

        Raises: as :meth:`open`.
        """
        with self._tables.lock:  # one look at a time, or a later one might be undone
            found, version = recover_beside_writer(
                self.storage, self.directory, self._tables.open_version
            )
            *waiting, memtable = found.memtables
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                if self._closing:
                    raise self.unusable()
                self.last_seq = found.last_seq
                self.super_version = SuperVersion(memtable, tuple(reversed(waiting)), version)
                handles.watch(self)  # before a close, which ends it

    def _start(self, current: SuperVersion) -> None:
        self.super_version = current
        handles.watch(self)
        self._note_crowding()
        self._background.start(current)

    # What the background work asks and tells (see background_thread.Host)

    def may_flush(self) -> bool:
        """Whether flushes are wanted now."""
        return self._failure is None or self._resuming

    def may_compact(self) -> bool:
        """Whether compactions are wanted now."""
        return self._failure is None

    def release_gil(self, wanted: bool) -> None:
        """Whether writes are to let other threads of the interpreter have their turn."""
        self._logs.release_gil(wanted)

    def work_failed(self, error: BaseException) -> None:
        """Take no more writes: a flush or compaction failed (unless it was told to give up)."""
        if not isinstance(error, CancelledError):
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self._fail(error)

    def publish(self, version: Version, flushed: Memtable | None) -> None:
        """Let readers see ``version``, and no more the memtable that is in its tables now."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            current = self.require_open()
            flushing = tuple(memtable for memtable in current.flushing if memtable is not flushed)
            self._background.compactor.set_read_budget(version)
            self.super_version = SuperVersion(current.memtable, flushing, version)
            self._note_crowding()
            self._changes.announce()

    def _note_crowding(self) -> None:
        runs = self.require_open().version.levels.level0_run_count
        self._throttle.on = runs >= self.options.level0_slowdown_trigger

    def mark_log_obsolete(self, number: int) -> None:
        """What the log holds is in tables now."""
        self._logs.mark_obsolete(number)

    # Upkeep

    def flush(self) -> None:
        """Write every memtable to tables, and return when that is done.

        Raises:
            BackgroundError: a flush failed.
        """
        waited_for = 0
        is_done = False
        thread = threading.get_ident()
        urgency = self._background.urgency
        try:
            urgency.begin(thread)
            while not is_done:
                thread = self.entering()
                with self._mutex:
                    self._owner = thread
                    self._check_writable()
                    self._check_not_closing()
                    if not waited_for:
                        current = self.require_open()
                        if not current.memtable.is_empty:
                            self._rotate(current)
                        waited_for = self._logs.current.number
                    ticket = self._changes.ticket
                    flushing = self.require_open().flushing
                    is_done = all(memtable.log_number >= waited_for for memtable in flushing)
                if not is_done:
                    self._background.wake_flusher()
                    await_change(ticket)
        finally:
            urgency.waiting.pop(thread, None)

    def compact_range(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        """Flush, and merge everything between two keys into one run.

        Raises:
            BackgroundError, OSError: a flush or the compaction failed.
        """
        self.flush()
        thread = threading.get_ident()
        urgency = self._background.urgency
        try:
            urgency.begin(thread)
            self._background.compactor.compact_range(start, stop, force)
        except CancelledError:
            raise caused(self.unusable(), None)
        finally:
            urgency.waiting.pop(thread, None)
        self._background.wake_compactor()

    def wait_until_settled(self) -> None:
        """Return once no flush and no compaction is due.  Raises as the method of ``DB``."""
        is_settled = False
        thread = threading.get_ident()
        urgency = self._background.urgency
        try:
            urgency.begin(thread)
            while not is_settled:
                thread = self.entering()
                with self._mutex:
                    self._owner = thread
                    self._check_writable()
                    self._check_not_closing()
                    is_settled = self._background.is_settled(self.require_open())
                if not is_settled:
                    self._background.wake_flusher()
                    self._background.wake_compactor()
                    self._background.wait_idle()
        finally:
            urgency.waiting.pop(thread, None)

    # Trouble and the end

    def resume(self) -> None:
        """Take writes again after a failure whose cause has been mended.

        What the memtables hold is flushed first: the logs it came from may be what failed.

        Raises:
            OSError, BackgroundError: it is not mended.
        """
        self.require_open()
        thread = threading.get_ident()
        urgency = self._background.urgency
        try:
            urgency.begin(thread)
            if self._failure is not None:
                self._background.wait_idle()  # what began before it was mended may still fail
            thread = self.entering()
            with self._tables.lock, self._mutex:
                self._owner = thread
                if self.super_version is None or self.read_only:
                    self._check_writable()
                self._check_not_closing()
                if self._failure is None:
                    return
                self._tables.mend_manifest()
                self._rotate(self.require_open())
                cause = self._failure
            self._flush_after(cause)
        finally:
            urgency.waiting.pop(thread, None)
        self._background.wake_compactor()

    def _flush_after(self, cause: BaseException) -> None:
        """Flush everything after a failure, and take writes again."""
        is_done = False
        try:
            self._resuming = True
            while not is_done:
                thread = self.entering()
                with self._mutex:
                    self._owner = thread
                    ticket = self._changes.ticket
                    if self._failure is not cause:
                        self._check_writable()
                    self._check_not_closing()
                    is_done = not self.require_open().flushing
                    if is_done:
                        self._failure = None
                if not is_done:
                    self._background.wake_flusher()
                    await_change(ticket)
        finally:
            self._resuming = False

    def refresh(self) -> None:
        """Of a read-only store: see what the writer has written since."""
        self.require_open()
        if self.read_only:
            self.open_read_only()

    def close(self) -> None:
        """Stop the background work, sync the log, release the lock.  A second call does nothing.

        Raises:
            OSError: the log could not be synced; the store is closed all the same.
        """
        if (
            self._is_closed or self._ending.locked()
        ):  # by another thread, or (a garbage collection) this
            return
        with self._ending:
            if not self._is_closed:
                self._close()

    def _close(self) -> None:
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            self._closing = True
            self._changes.announce()
        self._background.stop()
        thread = self.entering()
        with self._mutex:  # no write that runs now is cut off, and none comes after it
            self._owner = thread
            self.super_version = None
            self._changes.announce()
        try:
            if not self.read_only:
                number, end, salt = self._logs.finish(mark=self._failure is None)
                if self._failure is None:  # or the manifest may be what failed
                    with self._tables.lock:
                        self._tables.manifest.note_closed_log(number, end, salt)
        finally:
            self._release()

    def _release(self) -> None:
        self._tables.close()
        self._logs.close()
        if self._lock is not None:
            self._lock.release()
        handles.unwatch(self)
        self._is_closed = True

    def mark_forked(self) -> None:
        """In the child of a fork: be unusable, and let go of the parent's lock."""
        if self.super_version is not None:
            self._mutex = Lock()  # a thread that is not here may hold the old one
            self._changes = Changes()
            self._ending = threading.Lock()
            self._tables.lock = threading.Lock()
            self.forked = True
            self.super_version = None
        self._is_closed = True
        if self._lock is not None:
            self._lock.release()
