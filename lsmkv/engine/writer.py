"""The write path of an open store, from top to bottom.

1. ``put`` and ``delete`` check key and value; ``write_one`` and ``write_batch`` do the rest.
2. Under the mutex, the write is appended to the log and then put into the memtable.  A full memtable is
   set aside with its log first, and a new pair takes their place (``rotate``).  If too many wait for
   their flush already, the writer waits (``_wait_for_room``).
3. Without the mutex, the throttle slows the writer down while level 0 is crowded.
4. With ``sync``, the writer waits for the group commit of its log.

An interrupt between log and memtable is raised once both have the write.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from lsmkv.background.background_work import BackgroundWork
from lsmkv.background.events import STALL_S, StallReason, WriteStalled
from lsmkv.background.state import FAILED, OPEN
from lsmkv.changes import await_change
from lsmkv.encoding.entries import (
    MAX_SEQUENCE,
    Absent,
    Buffer,
    Value,
    key_bytes,
    value_bytes,
)
from lsmkv.encoding.expiry import Held, Moment
from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.engine.readers import Readers
from lsmkv.engine.recent_writes import Place, RecentWrites
from lsmkv.engine.watch import Watch, Watches
from lsmkv.errors import untraced
from lsmkv.log.batch import Operation, set_sequence, write_batch, write_single
from lsmkv.log.log_set import LogSet
from lsmkv.log.writer import RECORD_HEAD_BYTES, LogWriter, new_record
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.snapshots import Pin
from lsmkv.read.view import SuperVersion
from lsmkv.stats import Stats
from lsmkv.tree.version_set import VersionSet

SLOWED_BYTES_PER_S: Final = 16 * 1024 * 1024
_SHORTEST_SLEEP_S: Final = 0.001  # shorter ones add up first


class Throttle:
    """Back-pressure: limits writers to :data:`SLOWED_BYTES_PER_S`."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._owed_s = 0.0

    def delay(self, size_bytes: int, ticket: threading.Lock) -> float:
        """Sleep for what this write takes at the limit; returns the seconds.  Holds no lock."""
        self._owed_s += size_bytes / SLOWED_BYTES_PER_S
        self._stats.write_slowdowns += 1
        slept_s = 0.0
        if self._owed_s >= _SHORTEST_SLEEP_S:
            started = time.perf_counter()
            await_change(ticket, self._owed_s)
            slept_s = time.perf_counter() - started
            self._owed_s = 0.0
            self._stats.write_slowdown_s += slept_s
        return slept_s


class Writer:
    """The writing part of an open store."""

    def __init__(
        self, readers: Readers, tables: VersionSet, logs: LogSet, background: BackgroundWork
    ) -> None:
        self.state = readers.state
        self._readers = readers
        self._tables = tables
        self._logs = logs
        self._background = background
        self._throttle = Throttle(self.state.stats)
        self._full_bytes: int = self.state.options.write_buffer_size_bytes
        self._is_held = False
        self.rotates = True  # whether memtables are set aside and others begun
        self.most_deletions = 128  # a range of more keys is deleted by a range delete
        self.recent_writes = RecentWrites()  # the record that transactions are checked by
        self.watches = Watches()  # what is told of each write

    def put(self, key: Buffer, value: Buffer, sync: bool) -> None:
        try:
            self.write_one(key_bytes(key), value_bytes(value), sync, None)
        except OSError:
            self.state.events.tell()
            raise

    def delete(self, key: Buffer, sync: bool) -> None:
        try:
            self.write_one(key_bytes(key), None, sync, None)
        except OSError:
            self.state.events.tell()
            raise

    def write_one(self, key: bytes, value: Held, sync: bool, watch: Watch | None) -> bool:
        """Put (or, with None, delete) one key, if ``watch`` admits it; tells whether.  As ``DB.put``."""
        state = self.state
        end = 0
        while True:
            thread = state.entering()
            with state.mutex:
                state.owner = thread
                log = self._log_with_room()
                if log is not None:
                    if self.watches.exist:
                        if watch is not None and not watch.admits(key):
                            state.owner = 0
                            return False
                        self.watches.note(key, value)
                    memtable = state.require_open().memtable
                    keep_old = self._readers.need_old_values()
                    if keep_old:  # as it is while a transaction is open
                        self.recent_writes.add(key)
                    memtable.prepare(1, keep_old)
                    seq = state.last_seq + 1
                    start = log.end
                    try:
                        record = log.own_record()
                        write_single(record, seq, key, value)
                        end = log.append_record(record)
                        memtable.put(key, value, seq, keep_old)
                        state.last_seq = seq
                    except BaseException as error:
                        state.failure = error  # first of all: the next interrupt may come at once
                        if state.life is OPEN:
                            state.life = FAILED
                        self._end_interrupted(log, start, [(key, value)], seq, keep_old, error)
                        raise
                    state.stats.writes += 1
                    state.owner = 0
            if log is not None:
                break
            self._wait_for_room()
        if state.is_crowded:
            self._slow_down(end - start)
        if sync:
            self._sync(log, end)
        return True

    def write_watched(self, key: bytes, value: Held, sync: bool, watch: Watch | None) -> bool:
        """Put or delete ``key`` if ``watch`` admits it; tells whether."""
        try:
            return self.write_one(key, value, sync, watch)
        except OSError:
            self.state.events.tell()
            raise

    def revise(self, key: bytes, sync: bool, revised: Callable[[Value], Held | Absent]) -> Value:
        """Set ``key`` to what ``revised`` makes of its value, in one step.

        Returns the old value.  ABSENT leaves it as it is.  It tries again only after another thread wrote
        to the key.
        """
        self.state.check_for_writing()
        watch = Watch(self.watches, key)
        try:
            while True:
                self.state.with_mutex(watch.begin)
                old = self._readers.lookup(key)
                new = revised(old)
                if isinstance(new, Absent) or self.write_watched(key, new, sync, watch):
                    return old
        finally:
            self.watches.active.pop(watch, None)

    def write_batch(
        self,
        operations: list[Operation],
        sync: bool,
        check: Callable[[], None] | None = None,
        ranges: list[KeyRange] | None = None,
    ) -> None:
        """Delete ``ranges``, then apply operations in order; all or none.  Raises as ``DB.put``.

        ``check`` ends an open transaction: it is called with the mutex held, and raises to refuse them.
        """
        try:
            self._write_batch(operations, sync, check, ranges or [])
        except OSError:
            self.state.events.tell()
            raise

    def _write_batch(
        self,
        operations: list[Operation],
        sync: bool,
        check: Callable[[], None] | None,
        ranges: list[KeyRange],
    ) -> None:
        """As :meth:`write_one`, for many: one function for both costs each put 2 % more instructions."""
        if not operations and not ranges:
            return
        record = new_record()
        write_batch(record, 0, operations, ranges)
        state = self.state
        end = 0
        while True:
            thread = state.entering()
            with state.mutex:
                state.owner = thread
                log = self._log_with_room(bool(ranges))
                if log is not None:
                    memtable = state.require_open().memtable
                    first = state.last_seq + 1
                    count = len(operations) + len(ranges)
                    keep_old = self._readers.need_old_values()
                    if keep_old or check is not None:
                        self.recent_writes.admit(operations, ranges, check)
                        keep_old = self._readers.need_old_values()  # that transaction has ended
                    memtable.prepare(count, keep_old)
                    start = log.end
                    if self.watches.exist:
                        for low, high in ranges:
                            self.watches.note_range(low, high)
                        for key, value in operations:
                            self.watches.note(key, value)
                    following: SuperVersion | None = None
                    if ranges:
                        following = _following(
                            state.require_open(), ranges, operations, first, keep_old
                        )
                    try:
                        set_sequence(record, RECORD_HEAD_BYTES, first)
                        end = log.append_record(record)
                        if following is None:
                            memtable.put_all(operations, first, keep_old)
                        else:
                            state.super_version = following
                        state.last_seq = first + count - 1
                    except BaseException as error:
                        state.failure = error  # as in write_one
                        if state.life is OPEN:
                            state.life = FAILED
                        self._end_interrupted(
                            log, start, operations, first, keep_old, error, following, count
                        )
                        raise
                    state.stats.writes += count
                    state.stats.write_batches += 1
                    state.owner = 0
            if log is not None:
                break
            self._wait_for_room(bool(ranges))
        if state.is_crowded:
            self._slow_down(end - start)
        if sync:
            self._sync(log, end)

    def _end_interrupted(
        self,
        log: LogWriter,
        start: int,
        operations: list[Operation],
        first: int,
        keep_old: bool,
        error: BaseException,
        following: SuperVersion | None = None,
        count: int = 1,
    ) -> None:
        """Put an interrupted write into the memtable if the log has it.

        The log ended at ``start``.  Else the next write would repeat its numbers.  The mutex is held,
        and ``failure`` is set: should another interrupt come, the store takes no more writes.
        """
        state = self.state
        if isinstance(error, OSError):
            kept = state.failure = untraced(error)
            state.fail(kept)
            return
        if log.end != start:
            if following is None:
                state.require_open().memtable.put_all(operations, first, keep_old)
            else:
                state.super_version = following
            state.last_seq = first + count - 1
        state.take_writes_again()
        with contextlib.suppress(RuntimeError):  # both may have seen the failure, and stopped
            self._background.wake_flusher()
            self._background.wake_compactor()

    # Step 2: log and memtable, and the room in them

    def _log_with_room(self, begins: bool = False) -> LogWriter | None:
        """The log to append to; None without room.  ``begins``: a memtable must begin."""
        state = self.state
        if state.life is not OPEN or state.read_only:
            state.check_writable()
        log = self._logs.current
        is_full = (log.end >= self._full_bytes or self._is_held) and self.rotates
        if is_full or begins:
            current = state.require_open()
            if is_full or not current.memtable.is_empty:
                if not self.rotates:
                    raise state.unusable()
                if not self._may_rotate(current):
                    return None
                self.rotate(current)
                log = self._logs.current
        if state.last_seq > MAX_SEQUENCE - (1 << 32):
            raise state.numbers_used_up()
        return log

    def _may_rotate(self, current: SuperVersion) -> bool:
        options = self.state.options
        return (
            not self._is_held
            and len(current.flushing) < options.max_immutable_memtables
            and current.version.levels.level0_run_count < options.level0_stop_trigger
        )

    def rotate(self, current: SuperVersion) -> int:
        """Start a new log and memtable; returns its number (the mutex is held)."""
        state = self.state
        number = self._tables.manifest.allocate()
        log: LogWriter | None = None
        try:
            log = self._logs.prepare(number)
            current.memtable.log_bytes = self._logs.current.end
            fresh = Memtable(state.last_seq + 1, number)
            following = SuperVersion(fresh, current.memtables, current.version)
            # An interrupt comes before both of these or after them.
            self._logs.follow(log)
            state.super_version = following
        except BaseException as error:
            if log is not None and self._logs.current is not log:
                self._logs.give_up(log)
            if isinstance(error, OSError):
                state.fail(untraced(error))
            raise
        self._background.wake_flusher()
        return number

    def hold(self) -> None:
        """Make writers wait until :meth:`let_go` (the mutex is held)."""
        self._is_held = True

    def let_go(self) -> None:
        self._is_held = False
        self.state.changes.announce()

    def stop_rotating(self) -> None:
        """Let the log grow: nothing flushes any more (the mutex is held)."""
        self._is_held = self.rotates = False

    def _wait_for_room(self, begins: bool = False) -> None:
        stats = self.state.stats
        stats.write_stops += 1
        reason = self._stall_reason()
        started, background = time.perf_counter(), self._background
        try:
            background.urgently(
                lambda: background.wait_until(lambda: self._has_room(begins), compact=True)
            )
        finally:
            waited = time.perf_counter() - started
            stats.write_stop_s += waited
        self._tell_stall(reason, waited)

    def _stall_reason(self) -> StallReason:
        if self._is_held:
            return "ingest"
        current = self.state.super_version
        limit = self.state.options.max_immutable_memtables
        return "compaction" if current and len(current.flushing) < limit else "flush"

    def _has_room(self, begins: bool) -> bool:
        self.state.check_writable()
        is_full = begins or self._is_held or self._logs.current.end >= self._full_bytes
        return not (is_full and self.rotates) or self._may_rotate(self.state.require_open())

    def _slow_down(self, size_bytes: int) -> None:
        slept_s = self._throttle.delay(size_bytes, self.state.changes.ticket)
        if slept_s >= STALL_S:
            self._tell_stall("slowdown", slept_s)

    def _tell_stall(self, reason: StallReason, waited_s: float) -> None:
        self.state.events.note(WriteStalled(self.state.directory, reason, waited_s))
        self.state.events.tell()

    def room_bytes(self) -> int:
        """The room in the current log; 0 if the next write may wait."""
        state = self.state
        state.require_open()
        if state.read_only or state.is_crowded or self._is_held:
            return 0
        return max(0, self._full_bytes - self._logs.current.end)

    def memtable_bytes(self) -> int:
        """The memory of the memtables, as the length of their logs."""
        current = self.state.require_open()
        current.memtable.log_bytes = self._logs.end or current.memtable.log_bytes
        return sum(memtable.log_bytes for memtable in current.memtables)

    # Step 4: syncing

    def sync(self) -> None:
        """Make every write so far durable.  Raises as ``DB.sync``."""
        state = self.state
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            state.check_writable()
            log = self._logs.current
            end = log.records_end
        self._sync(log, end)

    def _sync(self, log: LogWriter, end: int) -> None:
        try:
            log.sync_through(end)
            self._logs.check_place()  # what nobody will find is not durable
        except OSError as caught:
            error = untraced(caught)
            self.state.with_mutex(lambda: self.state.fail(error))
            self.state.events.tell()
            raise

    # Transactions

    def begin(self) -> tuple[SuperVersion, Pin, Place]:
        """Begin a transaction: what it sees, while it keeps the pin, and its place among all writes."""
        state = self.state
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            current = state.require_open()
            place = self.recent_writes.begin()
            return current, state.snapshots.pin(state.last_seq, Moment(state.clock)), place


def put_expiring(
    writer: Writer,
    key: Buffer,
    value: Buffer,
    sync: bool,
    ttl_s: object = None,
    expires_at: object = None,
) -> None:
    """Put what expires, or what does by default.  Raises as ``DB.put``."""
    data, held = key_bytes(key), writer.state.clock.held(value_bytes(value), ttl_s, expires_at)
    writer.write_watched(data, held, sync, None)


def _following(
    current: SuperVersion,
    ranges: list[KeyRange],
    operations: list[Operation],
    seq: int,
    keep_old: bool,
) -> SuperVersion:
    """What readers see after a batch with range deletes: of its steps they see none or all."""
    empty = current.memtable
    memtable = Memtable(empty.first_seq, empty.log_number)
    memtable.range_deletes = empty.range_deletes
    memtable.begin_with(ranges, seq)
    memtable.put_all(operations, seq, keep_old)
    return SuperVersion(memtable, current.flushing, current.version)
