"""The write path of an open store, from top to bottom.

1. ``put`` and ``delete`` check key and value; ``write_one`` and ``write_batch`` do the rest.
2. Under the mutex, the write is appended to the log and then put into the memtable.  A full memtable is
   set aside with its log first, and a new pair takes their place (``_rotate``).  If too many wait for
   their flush already, the writer waits (``_wait_for_room``).
3. Without the mutex, the throttle slows the writer down while level 0 is crowded.
4. With ``sync``, the writer waits for the group commit of its log.

``_mutex`` serialises writes and changes of ``super_version``.  No thread waits while it holds the
mutex: it releases the mutex, waits as in :mod:`lsmkv.changes`, and looks again.  An interrupt between
log and memtable is raised once both have the write.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from lsmkv.background.background_work import BackgroundWork
from lsmkv.background.events import (
    STALL_S,
    BackgroundFailed,
    Event,
    EventTeller,
    OnEvent,
    StallReason,
    WriteStalled,
)
from lsmkv.changes import Changes, await_change
from lsmkv.encoding.entries import MAX_SEQUENCE, Buffer, key_bytes, value_bytes
from lsmkv.engine.recent_writes import Place, RecentWrites
from lsmkv.engine.write_throttle import Throttle
from lsmkv.errors import BackgroundError, ReadOnlyError, caused
from lsmkv.log.batch import Operation, set_sequence, write_batch, write_single
from lsmkv.log.log_set import LogSet
from lsmkv.log.writer import RECORD_HEAD_BYTES, LogWriter, new_record
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.snapshots import Pin
from lsmkv.read.view import ReadState, SuperVersion
from lsmkv.storage.storage import Storage, is_url
from lsmkv.tree.version_set import VersionSet


class WriteState(ReadState):
    _tables: VersionSet
    _background: BackgroundWork

    def __init__(
        self,
        storage: Storage,
        directory: str,
        options: Options,
        *,
        read_only: bool,
        on_event: OnEvent | None,
    ) -> None:
        super().__init__(storage.stats, directory)
        self.options = options
        self.storage = storage
        self.read_only = read_only
        self.opens_on_use = False  # a read-only store that nobody has used yet
        self._write_buffer_size_bytes = options.write_buffer_size_bytes  # 0 while writers are held
        self._failure: BaseException | None = None
        self._noted_failure: BaseException | None = None  # as an event
        self._events = EventTeller(on_event)
        self.popper = 0  # the last thread that took ``popping``
        self._resuming = False
        self._closing = False
        self._changes = Changes()
        self._logs = LogSet(storage, directory)
        self._throttle = Throttle(storage.stats)
        self.recent_writes = RecentWrites()

    def check_for_writing(self) -> None:
        """Raise for a handle that can never write."""
        if self.super_version is None and not self.opens_on_use:
            raise self.unusable()
        if self.read_only:
            remedy = (
                "a published store is only read: write to the store in its directory, "
                "and publish it again"
                if is_url(self.directory)
                else "open it without, to write"
            )
            raise ReadOnlyError(f"{self.directory} was opened with read_only=True; {remedy}")

    def _check_writable(self) -> None:
        """As :meth:`check_for_writing`; raise BackgroundError after a failure, too."""
        self.check_for_writing()
        if self._failure is not None:
            reason = (
                f"{self.directory} takes no more writes after a failure ({self._failure}); "
                "mend its cause and call resume()"
            )
            raise caused(BackgroundError(reason), self._failure)

    @property
    def is_closing(self) -> bool:
        """Whether the store is closed, or about to be."""
        return self._closing or self.super_version is None

    def check_not_closing(self) -> None:
        """Raise if the store is closing: no work will end the wait."""
        if self._closing:
            raise self.unusable()

    def check_for_adopting(self) -> None:
        """Raise for a handle, or in a place, that cannot adopt tables.

        RuntimeError in a signal handler or finalizer inside a call: the thread that adopts would wait
        for the lock of this one.
        """
        self.check_for_writing()
        self.entering()

    def _fail(self, error: BaseException) -> None:
        """Take no more writes (the caller holds the mutex)."""
        if self._failure is None or self._resuming:
            self._failure = error
        if self._failure is error and self._noted_failure is not error:
            self._noted_failure = error
            self.note(BackgroundFailed(self.directory, error))
        self._changes.announce()

    # Events

    def note(self, event: Event) -> None:
        """Keep an event, under whatever lock, until this thread calls :meth:`tell`."""
        self._events.note(event)

    def tell(self) -> None:
        """Tell the events that this thread noted.  It holds no lock, unless that of popitem."""
        if not (self.popping.locked() and self.popper == threading.get_ident()):
            self._events.tell()

    def check_not_telling(self, call: str) -> None:
        """RuntimeError inside a callback: ``call`` may wait for the thread that it is in."""
        if self._events.is_telling:
            raise RuntimeError(
                f"{call} was called inside on_event, whose thread it may have to wait for; "
                "leave it to another thread"
            )

    def _urgently(self, work: Callable[[], None]) -> None:
        """Run ``work``, which waits for background work and makes it urgent."""
        thread = threading.get_ident()
        urgency = self._background.urgency
        try:
            urgency.begin(thread)
            work()
        finally:
            urgency.waiting.pop(thread, None)

    def _wait_until(self, is_done: Callable[[], bool], *, compact: bool = False) -> None:
        """Wait for background work until ``is_done``, asked under the mutex."""
        done = False
        while not done:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self.check_not_closing()
                ticket = self._changes.ticket
                done = is_done()
            if not done:
                self._background.wake_flusher()
                if compact:
                    self._background.wake_compactor()
                if not self._background.work_here():
                    await_change(ticket)

    # Writing

    def put(self, key: Buffer, value: Buffer, sync: bool) -> None:
        try:
            self.write_one(key_bytes(key), value_bytes(value), sync)
        except OSError:
            self.tell()
            raise

    def delete(self, key: Buffer, sync: bool) -> None:
        try:
            self.write_one(key_bytes(key), None, sync)
        except OSError:
            self.tell()
            raise

    def write_one(self, key: bytes, value: bytes | None, sync: bool) -> None:
        """Put (or, with None, delete) one key.  Raises as ``DB.put``."""
        end = 0
        while True:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                log = self._log_with_room()
                if log is not None:
                    memtable = self.require_open().memtable
                    keep_old = self.needs_old_values()
                    if keep_old:  # as it is while a transaction is open
                        self.recent_writes.add(key)
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
                            self._take_writes_again()
                        raise
                    self.stats.writes += 1
                    self._owner = 0
            if log is not None:
                break
            self._wait_for_room()
        if self._throttle.on:
            self._slow_down(end - start)
        if sync:
            self._sync(log, end)

    def write_batch(
        self,
        operations: list[Operation],
        sync: bool,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Apply operations in order, all or none.  Raises as ``DB.put``."""
        try:
            self._write_batch(operations, sync, check)
        except OSError:
            self.tell()
            raise

    def _write_batch(
        self, operations: list[Operation], sync: bool, check: Callable[[], None] | None
    ) -> None:
        """Apply operations in order.

        ``check`` ends an open transaction: it is called with the mutex held, and raises to refuse the
        operations.

        It repeats :meth:`write_one`: one function for both costs each put 2 % more instructions.
        """
        if not operations:
            return
        record = new_record()
        write_batch(record, 0, operations)
        end = 0
        while True:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                log = self._log_with_room()
                if log is not None:
                    memtable = self.require_open().memtable
                    first = self.last_seq + 1
                    count = len(operations)
                    keep_old = self.needs_old_values()
                    if keep_old or check is not None:
                        self.recent_writes.admit(operations, check)
                        keep_old = self.needs_old_values()  # the transaction may have been the last
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
                            self._take_writes_again()
                        raise
                    self.stats.writes += count
                    self.stats.write_batches += 1
                    self._owner = 0
            if log is not None:
                break
            self._wait_for_room()
        if self._throttle.on:
            self._slow_down(end - start)
        if sync:
            self._sync(log, end)

    # Step 2: log and memtable, and the room in them

    def _log_with_room(self) -> LogWriter | None:
        """The log to append to; None without room (the mutex is held)."""
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

    def _may_rotate(self, current: SuperVersion) -> bool:
        return (
            self._write_buffer_size_bytes > 0
            and len(current.flushing) < self.options.max_immutable_memtables
            and current.version.levels.level0_run_count < self.options.level0_stop_trigger
        )

    def _rotate(self, current: SuperVersion) -> None:
        """Start a new log and memtable (the mutex is held)."""
        number = self._tables.manifest.allocate()
        log: LogWriter | None = None
        try:
            log = self._logs.prepare(number)
            current.memtable.log_bytes = self._logs.current.end
            fresh = Memtable(self.last_seq + 1, number)
            following = SuperVersion(fresh, current.memtables, current.version)
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

    def _hold_writers(self) -> None:
        """Make writers wait as if the log were full, until :meth:`_release_writers`."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            self._write_buffer_size_bytes = 0

    def _release_writers(self) -> None:
        self._write_buffer_size_bytes = self.options.write_buffer_size_bytes
        self._changes.announce()

    def _wait_for_room(self) -> None:
        self.stats.write_stops += 1
        reason = self._stall_reason()
        started = time.perf_counter()
        try:
            self._urgently(lambda: self._wait_until(self._has_room, compact=True))
        finally:
            waited = time.perf_counter() - started
            self.stats.write_stop_s += waited
        self.note(WriteStalled(self.directory, reason, waited))
        self.tell()

    def _stall_reason(self) -> StallReason:
        if self._write_buffer_size_bytes == 0:
            return "ingest"
        current = self.super_version
        limit = self.options.max_immutable_memtables
        return "compaction" if current and len(current.flushing) < limit else "flush"

    def _slow_down(self, size_bytes: int) -> None:
        slept_s = self._throttle.delay(size_bytes, self._changes.ticket)
        if slept_s >= STALL_S:
            self.note(WriteStalled(self.directory, "slowdown", slept_s))
            self.tell()

    def _has_room(self) -> bool:
        self._check_writable()
        is_full = self._logs.current.end >= self._write_buffer_size_bytes
        return not is_full or self._may_rotate(self.require_open())

    def room_bytes(self) -> int:
        """The room in the current log; 0 if the next write may wait."""
        self.require_open()
        if self.read_only or self._throttle.on:
            return 0
        return max(0, self._write_buffer_size_bytes - self._logs.current.end)

    def _was_appended(self, log: LogWriter, start: int, error: BaseException) -> bool:
        """Whether an interrupted write is in the log but not the memtable.

        Otherwise the next write would repeat a sequence number.  The mutex is held and ``_failure`` is
        set: should another interrupt come, the store takes no more writes.
        """
        if isinstance(error, OSError):
            self._fail(error)
            return False
        if log.end == start:
            self._take_writes_again()
            return False
        return True

    def _take_writes_again(self) -> None:
        """Take writes again after an interrupt: log and memtable agree."""
        self._failure = None
        with contextlib.suppress(RuntimeError):  # both may have seen the failure, and stopped
            self._background.wake_flusher()
            self._background.wake_compactor()

    # Step 4: syncing

    def sync(self) -> None:
        """Make every write so far durable.  Raises as ``DB.sync``."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            self._check_writable()
            log = self._logs.current
            end = log.end
        self._sync(log, end)

    def _sync(self, log: LogWriter, end: int) -> None:
        try:
            log.sync_through(end)
        except OSError as error:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self._fail(error)
            self.tell()
            raise

    # Transactions

    def begin(self) -> tuple[SuperVersion, Pin, Place]:
        """Begin a transaction: what it sees, and the place from which to check what it read.

        As long as it keeps the pin, the store keeps a record of what is written from there on.
        """
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            current = self.require_open()
            place = self.recent_writes.begin()
            return current, self.snapshots.pin(self.last_seq), place

    def memtable_bytes(self) -> int:
        """The memory of the memtables, as the length of their logs."""
        current = self.require_open()
        current.memtable.log_bytes = self._logs.end or current.memtable.log_bytes
        return sum(memtable.log_bytes for memtable in current.memtables)
