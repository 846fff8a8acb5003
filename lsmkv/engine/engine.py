"""The engine: one open store, from opening to closing, and the parts it is made of.

Two locks order all changes.  The lock of the version set serialises changes of the manifest and is
taken before the mutex of the state, never after.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from librt.threading import Lock

from lsmkv.background import handles
from lsmkv.background.background_work import BackgroundWork
from lsmkv.background.events import EventTeller, OnEvent, Refreshed
from lsmkv.background.refresher import Refresher
from lsmkv.background.state import FAILED, OPEN, UNOPENED, Life, StoreState
from lsmkv.background.threads import in_own_thread, in_worker
from lsmkv.changes import Changes
from lsmkv.encoding.expiry import Clock
from lsmkv.engine.first_key import FirstKeys
from lsmkv.engine.location import Directory, Location, capture_open
from lsmkv.engine.readers import Readers
from lsmkv.engine.recovery import recover, remove_leftovers
from lsmkv.engine.upkeep import Upkeep
from lsmkv.engine.writer import Writer
from lsmkv.log.log_set import LogSet
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.storage.storage import FileLock, Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import NEW_STATE
from lsmkv.tree.version import Version

_FORKED: Final = (
    "was forked: a snapshot, cursor, view or iterator from before belongs to the parent; "
    "make another in the child, where the read-only handle itself works"
)
_FORKED_AWAY: Final = (
    "was opened before the process forked, and object storage cannot be used in the child: start "
    'processes with multiprocessing\'s "spawn" or "forkserver", and open it there'
)
_TO_WRITE: Final = "open it without, to write"
_TO_WRITE_PUBLISHED: Final = (
    "a published store is only read: write to the store in its directory, and publish it again"
)
_PATIENCE_S: Final = 1.0
"""How long a thread of a store waits for another store to be closed, which may wait for that thread."""


class Engine:
    """One open store."""

    def __init__(
        self,
        location: Location,
        options: Options,
        *,
        read_only: bool,
        refresh_every_s: float | None = None,
        on_event: OnEvent | None = None,
        clock: Clock | None = None,
    ) -> None:
        storage = location.storage
        self.location = location  # where it is
        # Of its directory, if it was opened for writing; whoever opens it gives it.
        self.lock: FileLock | None = None
        self._events = EventTeller(on_event)
        self.cache = BlockCache(
            options.block_cache_size_bytes, storage.stats, options.table_budget_bytes
        )
        state = StoreState(
            location.name,
            options,
            storage.stats,
            self.cache,
            self._events,
            clock=clock or Clock(),
            read_only=read_only,
            to_write=_TO_WRITE if location.directory else _TO_WRITE_PUBLISHED,
        )
        self.state = state
        self.tables = location.open_tables(options, self.cache)
        self._logs = LogSet(storage, location.name)
        self.background = BackgroundWork(state, self.tables, self._logs)
        self.readers = Readers(state)
        self.writer = Writer(self.readers, self.tables, self._logs, self.background)
        self.first_keys = FirstKeys(self.readers, self.writer.watches, self.writer.write_watched)
        self.upkeep = Upkeep(self.writer, self.tables, self._logs, self.background)
        state.opener = self.open_read_only
        self._ending = threading.Lock()  # held by the thread that closes the store
        self._is_writing = False  # its end is worth a note in the manifest
        # Nothing of it is open in this process; its handle is closed before that.
        self.is_closed = False
        # How often a read-only store looks for new writes by itself; None: never.
        self.refresh_every_s = refresh_every_s
        self._refresher: Refresher | None = None
        if refresh_every_s is not None:
            self._refresher = Refresher(location.name, refresh_every_s, self.open_read_only)
        self._opener = 0  # the thread that recovers for reading
        self._has_news = False
        self._seq_at_fork = -1
        self.is_left_open = False  # the program ends, and nobody has to close it
        self.opened_by_itself = False  # it was left to its first use, so nobody has to close it
        # A weak reference to what the handle does with its engine in a forked child.
        self.follow_fork: Callable[[], Callable[[Engine], object] | None] = lambda: None

    # Opening

    def create(self, leftovers: list[str]) -> None:
        """Make a new store; ``leftovers`` are what an earlier attempt left."""
        for name in leftovers:
            self.location.storage.remove(os.path.join(self.location.name, name))
        number = NEW_STATE.log_number
        self._logs.create(number)
        self.tables.start_manifest(NEW_STATE, [])
        self._start(SuperVersion(Memtable(1, number), (), Version(Levels(), {})))

    def open(self) -> None:
        """Open an existing store for writing."""
        storage, directory = self.location.storage, self.location.name
        found = recover(storage, directory)
        version = self.tables.open_version(found.state.levels, found.state.range_deletes)
        was_closed = found.was_closed
        self._logs.reopen(found.logs, found.names, was_closed)
        manifest = found.manifest if was_closed else None
        self.tables.start_manifest(found.state, found.names, manifest)
        kept = remove_leftovers(storage, directory, found.names, self.tables.manifest)
        self.tables.unremoved += kept
        self.state.last_seq = found.last_seq
        self._start(found.super_version(version))

    def _start(self, current: SuperVersion) -> None:
        self.state.show(current)
        self.state.life = OPEN
        handles.watch(self)
        self.background.start(current)
        self._is_writing = True

    def abandon(self) -> None:
        """Close a store whose creation or opening failed; the files stay as they are."""
        self._is_writing = False
        self.close()

    def open_read_only(self) -> None:
        """Recover for reading, beside a writer or without one; later, take in what is new."""
        thread = self.state.entering()
        if self._opener == thread:
            raise RuntimeError(
                f"this thread is opening or refreshing {self.location.name} already: a finalizer, "
                "signal handler or trace function came in between, and must leave its work for later"
            )
        with self.tables.lock:  # one recovery at a time, or a newer one might be undone
            try:
                self._opener = thread
                self._recover_for_reading()
            finally:
                self._opener = 0
        if self._refresher is not None:
            self._refresher.start()
        self._events.tell()

    def _recover_for_reading(self) -> None:
        state = self.state
        before = state.super_version
        current, last_seq = self.location.recover()
        has_news = self.location.found_more
        if before is None:
            has_news = self._seq_at_fork not in (-1, last_seq)
        if current is before and not state.is_ending:
            return
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            if state.is_ending:
                self.location.close()
                raise state.unusable()
            if self.location.found_another:
                state.contents = object()
            state.last_seq = last_seq
            current.version.epoch = self.cache.next_epoch(keep=False)
            state.super_version = current
            state.life = OPEN
            if has_news:
                self._has_news = True
                self._events.note(Refreshed(self.location.name, last_seq))
            handles.watch(self)  # under the mutex: a close, which ends it, comes later

    def leave_to_first_use(self) -> None:
        """Be opened for reading by whatever uses the store first."""
        self.opened_by_itself = True
        handles.watch(self)

    def refresh(self) -> bool:
        """Take in what is new; returns whether anything was since the last call."""
        self.state.require_open()
        if not self.state.read_only:
            return False
        if self._refresher is not None:
            self._refresher.raise_error()
        self.open_read_only()
        found, self._has_news = self._has_news, False
        return found

    # Copies

    def capture(self) -> Capture:
        """The present state, with its files held open.  Raises as ``DB.checkpoint``.

        Nothing waits for it but the end of a flush, a compaction or an ingest, while it opens the logs.
        """
        state = self.state
        current = state.require_open()
        if state.read_only:
            return self.location.capture(current, state.last_seq)
        with self.tables.lock:  # until the logs are open: a flush that ends removes one
            thread = state.entering()
            with state.mutex:
                state.owner = thread
                state.check_writable()
                state.check_not_ending()
                current, last_seq = state.require_open(), state.last_seq
                extents = self._logs.extents()
            manifest = self.tables.manifest.state
            storage, directory = self.location.storage, self.location.name
            try:
                return capture_open(storage, directory, current, last_seq, manifest, extents)
            finally:
                storage.check_place(directory)  # or the logs are missing, or another store's

    # The end

    def end_with_program(self) -> None:
        """Stop background work, sync the log, note that the store was closed; but stay open.

        Exit handlers and daemon threads may write on.  The log takes that, without a flush, and the next
        opening finds it there.
        """
        state = self.state
        if self.location.directory is None:  # threads that send requests have ended
            self.close()
            return
        with self._ending:
            self.is_left_open = True
            if self._refresher is not None:
                self._refresher.stop()
            if state.read_only or self.is_closed:
                return
            state.with_mutex(self._begin_exit)
            self.background.stop()
            log = self._logs.current
            end = log.end
            log.sync_through(end)
            self._logs.check_place()
            if state.failure is None:
                with self.tables.lock:
                    asks = self.tables.all_asks()
                    self.tables.manifest.note_closed_log(log.number, end, log.salt, asks)
                    self.tables.manifest.close()

    def _begin_exit(self) -> None:
        self.writer.stop_rotating()
        self._begin_ending()

    def close(self) -> None:
        """Stop background work, sync the log, release the lock.  As ``DB.close``.

        A thread does it, where no interrupt comes: one of the caller ends the waiting alone.
        """
        if sys.is_finalizing():
            return  # a finalizer: threads that were stopped may hold any lock
        if in_worker():
            self._close_in_worker()
            return
        self.state.entering()
        if not self.is_closed:
            in_own_thread("lsmkv-close", self._close_once)

    def _close_once(self) -> None:
        with self._ending:
            self._close()

    def _close_in_worker(self) -> None:
        """Close the store in a thread that others may wait for."""
        if self.is_closed or self._ending.locked():
            return
        if not self._events.is_telling:  # a finalizer inside a job, or a callback of another store
            closing = threading.Thread(target=self.close, name="lsmkv-close")
            closing.start()
            closing.join(_PATIENCE_S)
        elif self._ending.acquire(blocking=False):  # no interrupt comes in such a thread
            try:
                self._close()
            finally:
                self._ending.release()

    def _close(self) -> None:
        if self.is_closed:
            return
        try:
            if self._refresher is not None:
                self._refresher.stop()
            self.state.with_mutex(self._begin_ending)
            self.background.stop()
            self.state.with_mutex(self._end_use)  # a running write ends first, and no other begins
            self._finish()
        finally:
            self._events.close()

    def _begin_ending(self) -> None:
        self.state.life = Life.CLOSING
        self.state.changes.announce()

    def _end_use(self) -> None:
        self.state.super_version = None
        self.state.changes.announce()

    def _finish(self) -> None:
        """Sync the log, note that the store was closed, release the lock."""
        try:
            if self._is_writing:
                is_sound = self.state.failure is None
                number, end, salt = self._logs.finish(mark=is_sound)
                self._logs.check_place()
                if is_sound:  # otherwise the manifest may be what failed
                    with self.tables.lock:
                        asks = self.tables.all_asks()
                        self.tables.manifest.note_closed_log(number, end, salt, asks)
        finally:
            self._release()

    def _release(self) -> None:
        self.location.close()
        self.tables.close()
        self._logs.close()
        if self.lock is not None:
            self.lock.release()
        handles.unwatch(self)
        self.state.life = Life.CLOSED
        self.is_closed = True

    def mark_forked(self) -> None:
        """In the child of a fork: become unusable, and drop the file lock.

        The handle of a read-only store gets an engine for the child, which its first use opens.
        """
        self._ending = threading.Lock()  # a thread of the parent may hold the old one
        self.is_closed = True
        state, life = self.state, self.state.life
        state.life = Life.CLOSED
        if state.super_version is not None or life is UNOPENED:
            state.life = Life.FORKED
            state.super_version = None
            state.mutex = Lock()
            state.changes = Changes()
            self.tables.lock = threading.Lock()
            if self.location.directory is None:
                state.fork_advice = _FORKED_AWAY
            else:
                self._follow_fork(life)
        if self.lock is not None:
            self.lock.release()

    def _follow_fork(self, life: Life) -> None:
        """Give a read-only handle an engine for the child."""
        self.location.close()
        follow_fork = self.follow_fork()
        if self.state.read_only and life in (UNOPENED, OPEN, FAILED) and follow_fork:
            self.state.fork_advice = _FORKED
            handles.unwatch(self)
            follow_fork(self._for_child())

    def _for_child(self) -> Engine:
        storage = self.location.storage
        if type(storage) is Storage:  # any other may be none to make anew
            storage = Storage(
                direct_reads=storage.direct_reads,
                file_mode=storage.file_mode,
                follow_links=storage.follow_links,
            )
        engine = Engine(
            Directory(self.location.name, storage),
            self.state.options,
            read_only=True,
            refresh_every_s=self.refresh_every_s,
            on_event=self._events.callback,
            clock=self.state.clock,
        )
        engine._seq_at_fork = self.state.last_seq
        engine.leave_to_first_use()
        return engine
