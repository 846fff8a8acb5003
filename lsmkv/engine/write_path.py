"""The write path of an open store.

Follow a write: ``write_one`` appends it to the log, puts it into the memtable, and waits for the
log's sync if asked to.  A full memtable is set aside together with its log (``_rotate``) and a fresh
pair takes its place.

``_mutex`` serialises writes and changes of ``super_version``.  Nobody waits while holding it.  Whoever
has to wait for background work releases it, waits as :mod:`lsmkv.changes` says, and looks again.  So an
interrupt (Ctrl-C) breaks no wait.  An interrupt between log and memtable is raised once both have the
write.
"""

from __future__ import annotations

import contextlib
import threading
import time

from lsmkv.background.background_work import BackgroundWork
from lsmkv.changes import Changes, await_change
from lsmkv.encoding.entries import MAX_SEQUENCE, Buffer, key_bytes, value_bytes
from lsmkv.engine.write_throttle import Throttle
from lsmkv.errors import BackgroundError, ReadOnlyError, caused
from lsmkv.log.batch import Operation, set_sequence, write_batch, write_single
from lsmkv.log.log_set import LogSet
from lsmkv.log.writer import RECORD_HEAD_BYTES, LogWriter, new_record
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import ReadState, SuperVersion
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import VersionSet


class WriteState(ReadState):
    """What writers ask of an open store."""

    _tables: VersionSet
    _background: BackgroundWork

    def __init__(
        self, storage: Storage, directory: str, options: Options, *, read_only: bool
    ) -> None:
        super().__init__(storage.stats, directory)
        self.options = options
        self.storage = storage
        self.read_only = read_only
        self._write_buffer_size_bytes = options.write_buffer_size_bytes
        self._failure: BaseException | None = None
        self._resuming = False
        self._closing = False
        self._changes = Changes()
        self._logs = LogSet(storage, directory)
        self._throttle = Throttle(storage.stats)

    @property
    def failure(self) -> BaseException | None:
        """What made the store stop taking writes; None while it takes them."""
        return self._failure

    def check_for_writing(self) -> None:
        """Refuse a handle that can never write.

        Raises:
            ReadOnlyError, ClosedError, ForkedError: it is such a handle.
        """
        if self.super_version is None:
            raise self.unusable()
        if self.read_only:
            raise ReadOnlyError(
                f"{self.directory} was opened with read_only=True; open it without, to write"
            )

    def _check_writable(self) -> None:
        self.check_for_writing()
        if self._failure is not None:
            reason = (
                f"{self.directory} takes no more writes after a failure ({self._failure}); "
                "mend its cause and call resume()"
            )
            raise caused(BackgroundError(reason), self._failure)

    def _check_not_closing(self) -> None:
        """Before a wait for background work, of which there is none any more."""
        if self._closing:
            raise self.unusable()

    def _fail(self, error: BaseException) -> None:
        """Take no more writes (the caller holds the mutex)."""
        if self._failure is None or self._resuming:
            self._failure = error
        self._changes.announce()

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
        end = 0
        while True:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                log = self._writable_log()
                if log is not None:
                    memtable = self.require_open().memtable
                    keep_old = self.needs_old_values()
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
                        self._failure = error  # first of all: the next interrupt may come at once
                        if self._was_appended(log, start, error):
                            memtable.put(key, value, seq, keep_old)
                            self.last_seq = seq
                            self._go_on()
                        raise
                    self.stats.writes += 1
                    self._owner = 0
            if log is not None:
                break
            self._await_room()
        if self._throttle.on:
            self._throttle.delay(end - start, self._changes.ticket)
        if sync:
            self._sync(log, end)

    def write_batch(self, operations: list[Operation], sync: bool) -> None:
        """Apply operations in order, all or none.  Raises as :meth:`write_one`."""
        if not operations:
            return
        record = new_record()
        write_batch(record, 0, operations)
        end = 0
        while True:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                log = self._writable_log()
                if log is not None:
                    memtable = self.require_open().memtable
                    first = self.last_seq + 1
                    count = len(operations)
                    keep_old = self.needs_old_values()
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
                        self._failure = error  # as in write_one
                        if self._was_appended(log, start, error):
                            memtable.put_all(operations, first, keep_old)
                            self.last_seq = first + count - 1
                            self._go_on()
                        raise
                    self.stats.writes += count
                    self.stats.write_batches += 1
                    self._owner = 0
            if log is not None:
                break
            self._await_room()
        if self._throttle.on:
            self._throttle.delay(end - start, self._changes.ticket)
        if sync:
            self._sync(log, end)

    def _was_appended(self, log: LogWriter, start: int, error: BaseException) -> bool:
        """Whether an interrupt came after the append, so that the memtable has to follow the log.

        Between log and memtable, the next write would repeat a sequence number.  (The mutex is held,
        and ``_failure`` is set: should another interrupt come, the store takes no more writes.)
        """
        if isinstance(error, OSError):
            self._fail(error)
            return False
        if log.end == start:
            self._go_on()
            return False
        return True

    def _go_on(self) -> None:
        """Take writes again: an interrupt has left log and memtable of one mind."""
        self._failure = None
        with contextlib.suppress(RuntimeError):  # they may just have seen the failure, and rest
            self._background.wake_flusher()
            self._background.wake_compactor()

    def _writable_log(self) -> LogWriter | None:
        """The log, if it has room for a write; None when that must be waited for (in the mutex)."""
        if self.super_version is None or self.read_only or self._failure is not None:
            self._check_writable()
        log = self._logs.current
        if log.end >= self._write_buffer_size_bytes:
            current = self.require_open()
            if not self._may_rotate(current):
                return None
            self._rotate(current)
            log = self._logs.current
        if self.last_seq > MAX_SEQUENCE - (1 << 32):
            raise OverflowError("the store has used up its sequence numbers; copy it to a new one")
        return log

    def _sync(self, log: LogWriter, end: int) -> None:
        try:
            log.sync_through(end)
        except OSError as error:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self._fail(error)
            raise

    def sync(self) -> None:
        """Make every write so far durable.  Raises as ``DB.sync``."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            self._check_writable()
            log = self._logs.current
            end = log.end
        self._sync(log, end)

    def _may_rotate(self, current: SuperVersion) -> bool:
        """Whether there is room for one more memtable that waits."""
        return (
            len(current.flushing) < self.options.max_immutable_memtables
            and current.version.levels.level0_run_count < self.options.level0_stop_trigger
        )

    def _await_room(self) -> None:
        """Wait until the full memtable is no more, or can be set aside."""
        self.stats.write_stops += 1
        started = time.perf_counter()
        thread = threading.get_ident()
        urgency = self._background.urgency
        has_room = False
        try:
            urgency.begin(thread)
            while not has_room:
                thread = self.entering()
                with self._mutex:
                    self._owner = thread
                    self._check_writable()
                    self._check_not_closing()
                    ticket = self._changes.ticket
                    is_full = self._logs.current.end >= self._write_buffer_size_bytes
                    has_room = not is_full or self._may_rotate(self.require_open())
                if not has_room:
                    self._background.wake_flusher()
                    self._background.wake_compactor()
                    await_change(ticket)
        finally:
            urgency.waiting.pop(thread, None)
            waited = time.perf_counter() - started
            self.stats.write_stop_s += waited

    def _rotate(self, current: SuperVersion) -> None:
        """Start a fresh log and memtable (the mutex is held)."""
        number = self._tables.manifest.allocate()
        log: LogWriter | None = None
        try:
            log = self._logs.prepare(number)
            current.memtable.log_bytes = self._logs.current.end
            following = SuperVersion(
                Memtable(self.last_seq + 1, number), current.memtables, current.version
            )
            # An interrupt comes before both of these or after them.
            self._logs.follow(log)
            self.super_version = following
            log.release_gil(self._logs.releases_gil)  # which may have changed meanwhile
        except BaseException as error:
            if log is not None and self._logs.current is not log:
                self._logs.give_up(log)
            if isinstance(error, OSError):
                self._fail(error)
            raise
        self._background.wake_flusher()

    def memtable_bytes(self) -> int:
        """About the memory of the memtables: the length of the logs that hold the same writes."""
        current = self.require_open()
        current.memtable.log_bytes = self._logs.end or current.memtable.log_bytes
        return sum(memtable.log_bytes for memtable in current.memtables)
