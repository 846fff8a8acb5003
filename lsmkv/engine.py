"""The engine: one open store's state, its write path, and what it does in the background.

Follow a write: ``write_one`` appends it to the log, puts it into the memtable, and waits for the
log's sync if asked to.  A full memtable is set aside together with its log (``_rotate``) and a fresh
pair takes its place; the flusher writes the old one to a table and records that in the manifest,
after which its log is removed.  The compactor merges tables, one compaction at a time.

``_mutex`` serialises writes and changes of ``view``.  The tables' own lock, which serialises changes
of the manifest, is taken before it, never after.  Readers take neither: they load ``view`` once and
use what it names; it is replaced, never changed.
"""

from __future__ import annotations

import os
import threading
import time

from librt.threading import Lock

from lsmkv import handles
from lsmkv.background.maintenance import Maintenance
from lsmkv.background.throttle import Throttle
from lsmkv.batch import Operation, set_sequence, write_batch, write_single
from lsmkv.cache import BlockCache
from lsmkv.compaction import CancelledError
from lsmkv.encoding import MAX_SEQUENCE, Buffer, key_bytes, value_bytes
from lsmkv.errors import (
    BackgroundError,
    ClosedError,
    CorruptionError,
    ForkedError,
    ReadOnlyError,
    caused,
)
from lsmkv.log import RECORD_HEAD_BYTES, LogWriter, new_record
from lsmkv.logs import LogSet
from lsmkv.manifest import State, parse_file_name
from lsmkv.memtable import Memtable
from lsmkv.options import Options
from lsmkv.readable import Readable
from lsmkv.recovery import recover, recover_beside_writer, remove_leftovers
from lsmkv.storage import FileLock, Storage
from lsmkv.tables import TableSet
from lsmkv.tree import Tree
from lsmkv.version import Version, View


class Engine(Readable):
    """An open store.  ``DB`` is its face."""

    def __init__(
        self, directory: str, options: Options, storage: Storage, lock: FileLock | None
    ) -> None:
        super().__init__(storage.stats, ClosedError(f"{directory} is closed"))
        self.directory = directory
        self.options = options
        self.storage = storage
        self.cache = BlockCache(options.block_cache_size_bytes, storage.stats)
        self._write_buffer_size_bytes = options.write_buffer_size_bytes
        self.read_only = lock is None
        self._lock = lock
        self._tables = TableSet(storage, directory, options, self.cache)
        self._failure: BaseException | None = None
        self._resuming = False
        self._closing = False
        self._changed = threading.Condition(self._mutex)  # type: ignore[arg-type]
        self._logs = LogSet(storage, directory)
        self._throttle = Throttle(storage.stats)
        self._maintenance = Maintenance(self, self._tables, lock)

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
            state = State(Tree(), number + 1, last_seq=0, log_number=number)
            self._tables.start_manifest(state, [])
            self._start(View(Memtable(1, number), (), Version(Tree(), {})))
        except BaseException:
            self._release()
            raise

    def open(self) -> None:
        """Take up the store in the directory where it was left.

        Raises:
            CorruptionError, UnsupportedFormatError: what is there cannot be trusted, or read.
            OSError: a file cannot be read or written.
        """
        try:
            found = recover(self.storage, self.directory)
            version = self._tables.open_version(found.state.tree)
            names, untouched = found.names, found.was_closed
            self._logs.reopen(found.logs, names, untouched)
            self._tables.start_manifest(found.state, names, found.manifest if untouched else None)
            manifest = self._tables.manifest
            remove_leftovers(self.storage, self.directory, names, manifest.state, manifest.number)
            self.last_seq = found.last_seq
            *waiting, memtable = found.memtables
            self._start(View(memtable, tuple(reversed(waiting)), version))
        except BaseException:
            self._release()
            raise

    def open_read_only(self) -> None:
        """Read the store as it is now, beside a writer or without one; ``refresh`` does it again.

        Raises: as :meth:`open`.
        """
        with self._tables.lock:  # one look at a time, or a later one might be undone
            found, version = recover_beside_writer(
                self.storage, self.directory, self._tables.open_version
            )
            *waiting, memtable = found.memtables
            with self._mutex:
                if self._closing:
                    raise self._why_unusable
                self.last_seq = found.last_seq
                self.view = View(memtable, tuple(reversed(waiting)), version)
                handles.watch(self)  # before a close, which ends it

    def _start(self, view: View) -> None:
        self.view = view
        handles.watch(self)
        self._note_crowding()
        self._maintenance.start(view)

    # State

    @property
    def failure(self) -> BaseException | None:
        """What made the store stop taking writes; None while it takes them."""
        return self._failure

    def _check_writable(self) -> None:
        if self.view is None:
            raise self._why_unusable
        if self.read_only:
            raise ReadOnlyError(f"{self.directory} was opened with read_only=True")
        if self._failure is not None:
            reason = (
                f"{self.directory} takes no more writes after a failure ({self._failure}); "
                "mend its cause and call resume()"
            )
            raise caused(BackgroundError(reason), self._failure)

    def _fail(self, error: BaseException) -> None:
        """Take no more writes (the caller holds the mutex)."""
        if self._failure is None or self._resuming:
            self._failure = error
        self._changed.notify_all()

    # What the background work asks and tells (see maintenance.Host)

    def may_flush(self) -> bool:
        """Whether flushes are wanted now."""
        return self._failure is None or self._resuming

    def may_compact(self) -> bool:
        """Whether compactions are wanted now."""
        return self._failure is None

    def give_turns(self, wanted: bool) -> None:
        """Whether writes are to let other threads of the interpreter have their turn."""
        self._logs.give_turns(wanted)

    def work_failed(self, error: BaseException) -> None:
        """Take no more writes: a flush or compaction failed (unless it was told to give up)."""
        if not isinstance(error, CancelledError):
            with self._mutex:
                self._fail(error)

    def publish(self, version: Version, flushed: Memtable | None) -> None:
        """Let readers see ``version``, and no more the memtable that is in its tables now."""
        with self._mutex:
            view = self.usable_view()
            flushing = tuple(memtable for memtable in view.flushing if memtable is not flushed)
            self._maintenance.watch(version)
            self.view = View(view.memtable, flushing, version)
            self._note_crowding()
            self._changed.notify_all()

    def _note_crowding(self) -> None:
        runs = self.usable_view().version.tree.level0_run_count
        self._throttle.on = runs >= self.options.level0_slowdown_trigger

    def retire_log(self, number: int) -> None:
        """What the log holds is in tables now."""
        self._logs.retire(number)

    # Writing

    def put(self, key: Buffer, value: Buffer, sync: bool) -> None:
        """Set ``key``.  Raises as ``DB.put``."""
        self.write_one(key_bytes(key), value_bytes(value), sync)

    def delete(self, key: Buffer, sync: bool) -> None:
        """Remove ``key``.  Raises as ``DB.put``."""
        self.write_one(key_bytes(key), None, sync)

    def write_one(self, key: bytes, value: bytes | None, sync: bool) -> None:
        """Put (or, with None, delete) one key.

        Raises:
            OSError: it could not be written to the log, or not synced.
            BackgroundError: an earlier failure made the store read-only.
        """
        with self._mutex:
            log, memtable = self._writable_log(len(key) + len(value or b""))
            keep_old = self.moments.are_left()
            memtable.prepare(1, keep_old)
            seq = self.last_seq + 1
            start = log.end
            if self.floor is not None and value is not None and key < self.floor:
                self.floor = key
            try:
                record = log.own_record()
                write_single(record, seq, key, value)
                end = log.append_record(record)
                memtable.put(key, value, seq, keep_old)
                self.last_seq = seq
            except BaseException as error:
                self._write_failed(log, start, error)
                raise
            self.stats.writes += 1
        if sync:
            self._sync(log, end)

    def write_batch(self, operations: list[Operation], sync: bool) -> None:
        """Apply operations in order, all or none.  Raises as :meth:`write_one`."""
        if not operations:
            return
        record = new_record()
        write_batch(record, 0, operations)
        with self._mutex:
            log, memtable = self._writable_log(len(record))
            first = self.last_seq + 1
            count = len(operations)
            keep_old = self.moments.are_left()
            memtable.prepare(count, keep_old)
            start = log.end
            if self.floor is not None:
                self.lower_floor(operations)
            try:
                set_sequence(record, RECORD_HEAD_BYTES, first)
                end = log.append_record(record)
                memtable.put_all(operations, first, keep_old)
                self.last_seq = first + count - 1
            except BaseException as error:
                self._write_failed(log, start, error)
                raise
            self.stats.writes += count
            self.stats.write_batches += 1
        if sync:
            self._sync(log, end)

    def _write_failed(self, log: LogWriter, start: int, error: BaseException) -> None:
        """Take no more writes, unless an interrupt came before anything was done.

        After one between log and memtable, the next write would repeat a sequence number.
        """
        if isinstance(error, OSError) or log.end != start:
            self._fail(error)

    def _writable_log(self, size: int) -> tuple[LogWriter, Memtable]:
        """Log and memtable that have room for a write (the mutex is held, and let go to wait)."""
        if self.view is None or self.read_only or self._failure is not None:
            self._check_writable()
        if self._throttle.on:
            self._throttle.delay(size, self._changed)
            self._check_writable()
        if self._logs.current.end >= self._write_buffer_size_bytes:
            self._make_room()
        if self.last_seq > MAX_SEQUENCE - (1 << 32):
            raise OverflowError("the store has used up its sequence numbers; copy it to a new one")
        view = self.usable_view()
        return self._logs.current, view.memtable

    def _sync(self, log: LogWriter, end: int) -> None:
        try:
            log.sync_through(end)
        except OSError as error:
            with self._mutex:
                self._fail(error)
            raise

    def sync(self) -> None:
        """Make every write so far durable.  Raises as ``DB.sync``."""
        with self._mutex:
            self._check_writable()
            log = self._logs.current
            end = log.end
        self._sync(log, end)

    def _make_room(self) -> None:
        """Set the full memtable aside, once there is room for another that waits."""
        stopped_at: float | None = None
        while self._logs.current.end >= self._write_buffer_size_bytes:
            view = self.usable_view()
            if (
                len(view.flushing) < self.options.max_immutable_memtables
                and view.version.tree.level0_run_count < self.options.level0_stop_trigger
            ):
                self._rotate(view)
                break
            if stopped_at is None:
                stopped_at = time.perf_counter()
                self.stats.write_stops += 1
            with self._maintenance.haste.waiting():
                self._changed.wait()
            self._check_writable()
        if stopped_at is not None:
            waited = time.perf_counter() - stopped_at
            self.stats.write_stop_s += waited

    def _rotate(self, view: View) -> None:
        """Start a fresh log and memtable (the mutex is held)."""
        number = self._tables.manifest.allocate()
        try:
            view.memtable.log_bytes = self._logs.rotate(number)
        except OSError as error:
            self._fail(error)
            raise
        memtable = Memtable(self.last_seq + 1, number)
        self.view = View(memtable, view.memtables, view.version)
        self._maintenance.wake_flusher()

    # Upkeep

    def flush(self) -> None:
        """Write every memtable to tables, and return when that is done.

        Raises:
            BackgroundError: a flush failed.
        """
        with self._maintenance.haste.waiting(), self._mutex:
            self._check_writable()
            view = self.usable_view()
            if not view.memtable.is_empty:
                self._rotate(view)
            waited_for = self._logs.current.number
            while any(memtable.log_number < waited_for for memtable in self.usable_view().flushing):
                self._maintenance.wake_flusher()
                self._changed.wait()
                self._check_writable()

    def compact_range(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        """Flush, and merge everything between two keys into one run.

        Raises:
            BackgroundError, OSError: a flush or the compaction failed.
        """
        self.flush()
        try:
            with self._maintenance.haste.waiting():
                self._maintenance.compact_range(start, stop, force)
        except CancelledError:
            raise caused(self._why_unusable, None)
        except (OSError, CorruptionError) as error:
            self.work_failed(error)
            raise
        self._maintenance.wake_compactor()

    def wait_until_settled(self) -> None:
        """Return once no flush and no compaction is due.  Raises as the method of ``DB``."""
        with self._maintenance.haste.waiting():
            while True:
                with self._mutex:
                    self._check_writable()
                    if self._maintenance.is_settled(self.usable_view()):
                        return
                self._maintenance.wake_flusher()
                self._maintenance.wake_compactor()
                self._maintenance.rest()

    def memtable_bytes(self) -> int:
        """About the memory of the memtables: the length of the logs that hold the same writes."""
        view = self.usable_view()
        view.memtable.log_bytes = self._logs.end or view.memtable.log_bytes
        return sum(memtable.log_bytes for memtable in view.memtables)

    # Trouble and the end

    def resume(self) -> None:
        """Take writes again after a failure whose cause has been mended.

        What the memtables hold is flushed first: the logs it came from may be what failed.

        Raises:
            OSError, BackgroundError: it is not mended.
        """
        self.usable_view()
        if self._failure is not None:
            with self._maintenance.haste.waiting():
                self._maintenance.rest()  # what began before it was mended may still fail
        with self._tables.lock, self._mutex:
            if self.view is None or self.read_only:
                self._check_writable()
            if self._failure is None:
                return
            self._tables.mend_manifest()
            self._rotate(self.usable_view())
            self._resuming = True
            cause = self._failure
        with self._maintenance.haste.waiting(), self._mutex:
            try:
                while self.usable_view().flushing:
                    self._maintenance.wake_flusher()
                    self._changed.wait()
                    if self._failure is not cause:
                        self._check_writable()
                self._failure = None
            finally:
                self._resuming = False
        self._maintenance.wake_compactor()

    def refresh(self) -> None:
        """Of a read-only store: see what the writer has written since."""
        self.usable_view()
        if self.read_only:
            self.open_read_only()

    def close(self) -> None:
        """Stop the background work, sync the log, release the lock.  A second call does nothing.

        Raises:
            OSError: the log could not be synced; the store is closed all the same.
        """
        with self._mutex:
            if self._closing or self.view is None:
                return
            self._closing = True
            self._changed.notify_all()
        self._maintenance.stop()
        with self._mutex:  # no write that runs now is cut off, and none comes after it
            self.view = None
            self._changed.notify_all()
        try:
            if not self.read_only:
                number, end, salt = self._logs.finish(mark=self._failure is None)
                if self._failure is None:  # or the manifest may be what failed
                    with self._tables.lock:
                        self._tables.manifest.note_closed_log(number, end, salt)
        finally:
            self._release()

    def _release(self) -> None:
        handles.unwatch(self)
        self._tables.close()
        self._logs.close()
        if self._lock is not None:
            self._lock.release()

    def mark_forked(self) -> None:
        """In the child of a fork: be unusable, and let go of the parent's lock."""
        if self.view is not None:
            self._mutex = Lock()  # a thread that is not here may hold the old one
            self._changed = threading.Condition(self._mutex)  # type: ignore[arg-type]
            self._tables.lock = threading.Lock()
            self.view = None
            self._why_unusable = ForkedError(
                f"{self.directory} was opened before the process forked; open it anew in the child"
            )
            if self._lock is not None:
                self._lock.release()
