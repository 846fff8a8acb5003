"""Background work: the flusher and the compactor, each a thread of its own.

A flush turns the oldest memtable that waits into tables of a new run on level 0; a compaction
merges tables.  Either writes its tables first, then records them in the manifest, and then has the
new version published.  With ``Options.background="process"`` the writing of larger ones is a job for
a helper process, one for flushes and one for compactions, which the thread waits for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from lsmkv.background.malloc_trim import Heap
from lsmkv.background.pace import Pace, Urgency, Writers
from lsmkv.background.process.jobs import CompactionJob, FlushJob
from lsmkv.background.threads import Errand
from lsmkv.background.worker import Worker
from lsmkv.compaction.merge import flushed_batches, merge_tables
from lsmkv.compaction.picker import (
    Compaction,
    PickState,
    output_error_rate,
    pick,
    pick_for_reads,
    pick_range,
)
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.errors import CorruptionError
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.snapshots import SnapshotList
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import CancelledError, write_tables
from lsmkv.stats import Stats
from lsmkv.storage.storage import FileLock
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import VersionEdit
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.background.process.runner import JobRunner

_FOR_EVER: Final = 0  # no thread has this number
_SORTING: Final = 4  # sorting a memtable takes about this part of what writing it does
_LEAST_PATIENCE: Final = 1 << 16  # asking in vain so often takes as long as syncing a table's file


class Host(Protocol):
    """The open store that the background work is done for."""

    directory: str
    super_version: SuperVersion | None
    stats: Stats
    snapshots: SnapshotList
    options: Options

    def may_flush(self) -> bool:
        """Whether flushes are wanted now."""

    def may_compact(self) -> bool:
        """Whether compactions are wanted now."""

    def publish(self, version: Version, flushed: Memtable | None) -> None:
        """Let readers see ``version``, and no more the memtable that is in its tables now."""

    def mark_log_obsolete(self, number: int) -> None:
        """What the log holds is in tables now."""

    def work_failed(self, error: BaseException) -> None:
        """A flush or compaction failed."""

    def release_gil(self, wanted: bool) -> None:
        """Whether writes are to let other threads of the interpreter have their turn."""


class BackgroundWork:
    """Flushes and compactions, one of each at a time.

    Attributes:
        urgency: told of those who wait for either.
    """

    def __init__(self, host: Host, tables: VersionSet, lock: FileLock | None) -> None:
        self._host = host
        self._tables = tables
        self._lock = lock
        self._flush_runner: JobRunner | None = None
        self._merge_runner: JobRunner | None = None
        self._picked = PickState()
        self._compacts_for_reads = host.options.read_compaction_rate_bytes > 0
        options = host.options
        between = options.level0_slowdown_trigger - options.level0_compaction_trigger
        self._busy_level0_runs = options.level0_compaction_trigger + between // 2
        self._late_level0_runs = options.level0_compaction_trigger + between * 3 // 4
        self._busy_options = replace(options, level0_compaction_trigger=self._busy_level0_runs)
        self.urgency = Urgency()
        self._heap = Heap()
        self._flusher_sees = Writers(host.stats)
        self._compactor_sees = Writers(host.stats)
        self._compacting = threading.Lock()
        self._stopping = False
        self._working: dict[int, None] = {}  # threads that flush or compact, and do not nap
        self._working_lock = threading.Lock()
        self._flusher = Worker("lsmkv-flush", self._flush_oldest, host.work_failed)
        self._compactor = Worker("lsmkv-compact", self._compact_once, host.work_failed)

    def start(self, current: SuperVersion) -> None:
        """Begin, with what an earlier process left to do.  No helper process starts before its time."""
        host = self._host
        if host.options.background == "process" and self._lock is not None:
            from lsmkv.background.process.runner import runners

            self._flush_runner, self._merge_runner = runners(
                host.directory, self._tables, host.stats, self._lock
            )
        self.watch(current.version)
        if current.flushing:
            self.wake_flusher()
        if not self.is_settled(current):
            self.wake_compactor()

    def wake_flusher(self) -> None:
        """Have memtables that wait flushed soon."""
        self._flusher.wake()

    def wake_compactor(self) -> None:
        """Have the tree brought into shape soon."""
        self._compactor.wake()

    def is_settled(self, current: SuperVersion) -> bool:
        """Whether there is nothing to do, and nothing being done."""
        if current.flushing or self._flusher.busy or self._compactor.busy:
            return False
        if current.version.needs_read_compaction and self._compacts_for_reads:
            return False
        return pick(current.version.levels, self._host.options, PickState()) is None

    def watch(self, version: Version) -> None:
        """Have ``version``, which is new, compacted once runs have been asked in vain too often."""
        if not self._compacts_for_reads:
            return
        chosen = pick_for_reads(version.levels, self._host.options, PickState())
        if chosen is not None:
            size_bytes = sum(meta.size_bytes for meta in chosen.tables())
            rate_bytes = self._host.options.read_compaction_rate_bytes
            version.watch(max(_LEAST_PATIENCE, size_bytes // rate_bytes), self._wake_for_reads)

    def _wake_for_reads(self) -> None:
        with contextlib.suppress(RuntimeError):  # a look-up does not fail for want of a thread
            self.wake_compactor()

    def rest(self) -> None:
        """Return once no worker does anything; after a failure none starts anything new."""
        self._flusher.rest()
        self._compactor.rest()

    def stop(self) -> None:
        """Start nothing more, have what runs give up, and return once it has."""
        self._stopping = True
        self.urgency.begin(_FOR_EVER)
        running = [runner for runner in (self._flush_runner, self._merge_runner) if runner]
        for runner in running:
            _apart(runner.close)
        self._flusher.stop()
        self._compactor.stop()
        with self._compacting:  # a compaction of a range is not the compactor's
            pass
        for runner in running:
            _apart(runner.reap)

    def _is_stopping(self) -> bool:
        return self._stopping

    def _write(
        self,
        versions: Iterator[EntryBatch],
        rate: float,
        pace: Pace,
        is_cancelled: Callable[[], bool],
        replaced: Sequence[int] = (),
    ) -> list[TableMeta]:
        """Write tables in this thread, to which writers give turns meanwhile."""
        thread = threading.get_ident()
        try:
            self._note_working(thread)
            job = self._tables.job(rate, is_cancelled, self._pause(pace), replaced)
            return write_tables(versions, job)
        finally:
            self._working.pop(thread, None)
            self._release_gil()

    def _note_working(self, thread: int) -> None:
        self._working[thread] = None
        self._release_gil()

    def _release_gil(self) -> None:
        with self._working_lock:
            self._host.release_gil(bool(self._working))

    def _pause(self, pace: Pace) -> Callable[[int], None]:
        """What work in this thread does between two stretches."""

        def pause(done: int) -> None:
            pace.give_way(done)
            self._heap.give_back()

        return pause

    def _nap(self) -> None:
        thread = threading.get_ident()
        self._working.pop(thread, None)
        self._release_gil()
        self.urgency.nap()
        self._note_working(thread)

    # Flushing

    def _flush_oldest(self) -> bool:
        """Flush the oldest memtable that waits; False when none does."""
        host = self._host
        current = host.super_version
        if current is None or not current.flushing or self._stopping or not host.may_flush():
            return False
        memtable = current.flushing[-1]
        newer = current.flushing[-2] if len(current.flushing) > 1 else current.memtable
        started = time.perf_counter()
        tables: list[TableMeta] = []
        if not memtable.is_empty:
            rate = output_error_rate(
                current.version.levels, (), memtable.key_count_bound, host.options
            )
            # Only flushes add tables, and this is the oldest memtable: the tree stays empty.  Where
            # old files could not be removed, a repair may meet them, and the deletions count.
            is_oldest = current.version.levels.deepest < 0 and not self._tables.unremoved
            tables = self._write_memtable(memtable, newer.first_seq, rate, is_oldest)
        run = tables[0].number if tables else 0
        edit = VersionEdit(
            added=[PlacedTable(0, run, meta) for meta in tables],
            last_seq=newer.first_seq - 1,
            log_number=newer.log_number,
        )
        written = sum(meta.size_bytes for meta in tables)
        host.stats.flushes += 1  # counted before anybody who waits for it can see it done
        host.stats.flush_bytes += written
        host.stats.flush_us.add((time.perf_counter() - started) * 1e6)
        self._tables.install(edit, lambda version: host.publish(version, memtable))
        host.mark_log_obsolete(memtable.log_number)
        self._compactor.wake()
        self._heap.give_back()
        return True

    def _write_memtable(
        self, memtable: Memtable, end_seq: int, rate: float, drop_deletions: bool
    ) -> list[TableMeta]:
        """``drop_deletions``: nothing older than the memtable exists."""
        snapshots = self._host.snapshots.sequence_numbers()
        runner = self._flush_runner
        size, count = memtable.log_bytes, memtable.key_count_bound
        # After a failure the log may be what failed: then only memory holds it all for certain.
        if runner is not None and self._is_worth_a_process(size) and self._host.may_compact():
            job = FlushJob(
                order=runner.order(rate, snapshots, size, count),
                log_number=memtable.log_number,
                log_bytes=size,
                first_seq=memtable.first_seq,
                end_seq=end_seq,
                key_count=None if memtable.batches else len(memtable),
                drop_deletions=drop_deletions,
            )
            tables = runner.run(job, count)
            if tables is not None:
                return tables
        versions = flushed_batches(memtable.entry_batches(), snapshots, drop_deletions)
        sorting = count // _SORTING
        pace = Pace(
            self._flusher_sees,
            total=sorting + count,
            first=sorting,
            allowance_bytes=self._host.options.write_buffer_size_bytes // 2,
            is_urgent=self._is_flush_urgent,
            nap=self._nap,
        )
        pace.give_way(0)
        return self._write(versions, rate, pace, self._is_stopping)

    def _is_flush_urgent(self) -> bool:
        """Whether somebody waits for it, or another memtable does."""
        current = self._host.super_version
        return bool(self.urgency) or current is None or len(current.flushing) > 1

    def _is_worth_a_process(self, input_bytes: int) -> bool:
        return input_bytes >= self._host.options.process_job_size_bytes

    # Compaction

    def _compact_once(self) -> bool:
        """Run the most urgent compaction, or wait a moment; False when the tree is in shape."""
        host = self._host
        with self._compacting:
            current = host.super_version
            if current is None or self._stopping or not host.may_compact():
                return False
            if not (self._may_gather(current) and self._compactor_sees.are_busy()):
                chosen = pick(current.version.levels, host.options, self._picked)
                if chosen is None:
                    return current.version.needs_read_compaction and self._compact_for_reads(
                        current
                    )
                self._run(current, chosen, self._is_stopping)
                return True
        self.urgency.nap()
        return True

    def _compact_for_reads(self, current: SuperVersion) -> bool:
        """Run the compaction that spares look-ups most; False when there is none now.

        Nobody needs it: it must not disturb busy writers, and a full disk is no failure of the store.
        """
        if self._compactor_sees.are_busy():
            self.watch(current.version)  # anew: what was asked meanwhile counts for nothing
            return False
        chosen = pick_for_reads(current.version.levels, self._host.options, self._picked)
        if chosen is None or not self._compacts_for_reads:
            return False
        self._compacts_for_reads = self._run(current, chosen, self._is_stopping, is_needed=False)
        return self._compacts_for_reads

    def _may_gather(self, current: SuperVersion) -> bool:
        """Whether level 0 may gather more runs before it is compacted, while writers are busy."""
        options = self._host.options
        if self.urgency or self._merge_runner or options.compaction != "leveled":
            return False
        levels = current.version.levels
        return (
            options.level0_compaction_trigger <= levels.level0_run_count
            and pick(levels, self._busy_options, PickState()) is None
        )

    def compact_range(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        """Merge everything between two keys into one run.

        An interrupt of the caller has the work given up, between two steps of it: it is done in
        another thread, where no interrupt comes.

        Raises:
            CancelledError: the store is closing.
            OSError, CorruptionError: a table could not be written or read.
            RuntimeError: no thread can be started.
        """

        def is_cancelled() -> bool:
            return self._stopping or errand.given_up

        errand = Errand(
            "lsmkv-range", lambda: self._compact_range(start, stop, force, is_cancelled)
        )
        errand.run()

    def _compact_range(
        self,
        start: bytes | None,
        stop: bytes | None,
        force: bool,
        is_cancelled: Callable[[], bool],
    ) -> None:
        host = self._host
        with self._compacting:
            current = host.super_version
            if current is None or is_cancelled():
                raise CancelledError("the store is closing")
            chosen = pick_range(current.version.levels, host.options, start, stop, force=force)
            if chosen is not None:
                try:
                    self._run(current, chosen, is_cancelled)
                except (OSError, CorruptionError) as error:
                    host.work_failed(error)  # here: perhaps nobody waits any more
                    raise

    def _run(
        self,
        current: SuperVersion,
        chosen: Compaction,
        is_cancelled: Callable[[], bool],
        *,
        is_needed: bool = True,
    ) -> bool:
        """Merge or move ``chosen``; False when that failed, and was not needed."""
        host = self._host
        inputs = chosen.tables()
        removed = [meta.number for meta in inputs]
        if chosen.move:
            run = chosen.output_run
            if run is None:
                run = self._tables.manifest.allocate()
            added = [PlacedTable(chosen.output_level, run, meta) for meta in inputs]
            self._install(VersionEdit(added=added, removed=removed))
            moved = len(inputs)
            host.stats.tables_moved += moved
            return True
        started = time.perf_counter()
        entries = sum(meta.entry_count for meta in inputs)
        joined = chosen.output_level, chosen.output_run
        rate = output_error_rate(current.version.levels, removed, entries, host.options, joined)
        most_runs = self._busy_level0_runs if chosen.output_level > 1 else self._late_level0_runs
        try:
            tables = self._merge(chosen, rate, most_runs, is_cancelled)
        except OSError:
            if is_needed:
                raise
            return False
        number = chosen.output_run
        if number is None:
            number = tables[0].number if tables else 0
        added = [PlacedTable(chosen.output_level, number, meta) for meta in tables]
        self._install(VersionEdit(added=added, removed=removed))
        written = sum(meta.size_bytes for meta in tables)
        host.stats.compactions += 1
        host.stats.compaction_write_bytes += written
        host.stats.compaction_us.add((time.perf_counter() - started) * 1e6)
        self._heap.give_back()
        return True

    def _merge(
        self,
        chosen: Compaction,
        rate: float,
        most_runs: int,
        is_cancelled: Callable[[], bool],
    ) -> list[TableMeta]:
        """``most_runs``: how many level 0 may have until this is done."""
        snapshots = self._host.snapshots.sequence_numbers()
        runner = self._merge_runner
        size = sum(meta.size_bytes for meta in chosen.tables())
        most = sum(meta.entry_count for meta in chosen.tables())
        replaced = [meta.number for meta in chosen.tables()]
        if runner is not None and self._is_worth_a_process(size):
            job = CompactionJob(
                order=runner.order(rate, snapshots, size, most, replaced),
                runs=[list(run) for run in chosen.inputs],
                drop_deletions=chosen.drop_deletions,
            )
            tables = runner.run(job, most)
            if tables is not None:
                return tables
        runs = [self._tables.readers(run) for run in chosen.inputs]
        versions = merge_tables(runs, snapshots, chosen.drop_deletions)
        room = max(0, most_runs - self._level0_run_count())
        pace = Pace(
            self._compactor_sees,
            total=most,
            allowance_bytes=room * self._host.options.write_buffer_size_bytes,
            is_urgent=lambda: bool(self.urgency) or self._level0_run_count() >= most_runs,
            nap=self._nap,
        )
        return self._write(versions, rate, pace, is_cancelled, replaced)

    def _level0_run_count(self) -> int:
        current = self._host.super_version
        return 0 if current is None else current.version.levels.level0_run_count

    def _install(self, edit: VersionEdit) -> None:
        self._tables.install(edit, lambda version: self._host.publish(version, None))


def _apart(action: Callable[[], None]) -> None:
    """Do in a thread of its own what an interrupt must not cut short: ``subprocess`` is Python code."""
    try:
        Errand("lsmkv-end", action).run()
    except RuntimeError:  # no thread can be started
        action()
