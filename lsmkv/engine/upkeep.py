"""Flushes, compactions and ingests: what callers ask, and what the background work asks and tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lsmkv.background.events import Ingested
from lsmkv.engine.write_path import WriteState
from lsmkv.errors import caused
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import VersionEdit
from lsmkv.tree.version import Version

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from lsmkv.engine.adoption import IngestReport, Staging


class Upkeep(WriteState):
    """The part of an open store that changes its tree."""

    # What the background work asks and tells (see background_thread.Host)

    def may_flush(self) -> bool:
        return self._failure is None or self._resuming

    def may_compact(self) -> bool:
        return self._failure is None

    def release_gil(self, wanted: bool) -> None:
        self._logs.release_gil(wanted)

    def work_failed(self, error: BaseException) -> None:
        """Take no more writes, unless the work was only cancelled.  Notes an event."""
        if not isinstance(error, CancelledError):
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self._fail(error)

    def publish(self, version: Version, flushed: Memtable | None) -> None:
        """Show ``version`` to readers, without the memtable that it replaces."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            current = self.require_open()
            flushing = tuple(memtable for memtable in current.flushing if memtable is not flushed)
            self._background.compactor.set_read_budget(version)
            self.super_version = SuperVersion(current.memtable, flushing, version)
            self._update_throttle()
            self._changes.announce()

    def _update_throttle(self) -> None:
        runs = self.require_open().version.levels.level0_run_count
        self._throttle.on = runs >= self.options.level0_slowdown_trigger

    def remove_log(self, number: int) -> None:
        self._logs.remove(number)

    # Upkeep

    def flush(self) -> None:
        """Write every memtable to tables.  Raises as ``DB.flush``."""
        self.check_not_telling("flush()")
        try:
            self._urgently(self._flush)
        finally:
            self.tell()

    def _flush(self) -> None:
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            self._check_writable()
            self.check_not_closing()
            current = self.require_open()
            if not current.memtable.is_empty:
                self._rotate(current)
            number = self._logs.current.number
        self._wait_until(lambda: self._is_flushed(number))

    def _is_flushed(self, log_number: int) -> bool:
        """Whether tables hold the writes of all logs before ``log_number``."""
        self._check_writable()
        return all(memtable.log_number >= log_number for memtable in self.require_open().flushing)

    def check_executor(self, executor: Executor) -> None:
        """Raise TypeError or ValueError if ``executor`` cannot run jobs of this store."""
        self._background.compactor.check_executor(executor)

    def compact_range(
        self, start: bytes | None, stop: bytes | None, force: bool, executor: Executor | None
    ) -> None:
        """Flush, and merge a range into one run.  Raises as the method of ``DB``."""
        self.check_not_telling("compact_range()")
        compactor = self._background.compactor
        self.flush()
        try:
            self._urgently(lambda: compactor.compact_range(start, stop, force, executor))
        except CancelledError:
            raise caused(self.unusable(), None)
        self._background.wake_compactor()

    def adopt(self, staging: Staging) -> IngestReport:
        """Make staged tables part of the store; their files go if that fails.

        Raises as ``DB.ingest``.  ``check_for_adopting`` comes before; :mod:`lsmkv.engine.adoption`
        has the steps.
        """
        reports: list[IngestReport] = []

        def action(is_cancelled: Callable[[], bool]) -> None:
            report = self._adopt(staging, is_cancelled)
            reports.append(report)
            found = report.tables, report.entries, report.size_bytes
            self.note(Ingested(self.directory, *found))

        self.check_not_telling("ingest() or bulk_load()")
        compactor = self._background.compactor
        try:
            self._urgently(lambda: compactor.exclusively("lsmkv-ingest", action, staging.remove))
        except CancelledError:
            raise caused(self.unusable(), None)
        self._background.wake_compactor()
        return reports[0]

    def _adopt(self, staging: Staging, is_cancelled: Callable[[], bool]) -> IngestReport:
        self._flush()  # most of it, while writers go on
        try:
            self._hold_writers()
            self._flush()
            if is_cancelled():
                raise CancelledError("the store is closing, or the caller was interrupted")
            seq = self.last_seq + 1
            placed = staging.adopt(self._tables, seq)
            edit = VersionEdit(added=placed, last_seq=seq)
            try:
                self._tables.install(
                    edit, lambda version: self._publish_adopted(version, placed, seq)
                )
            except BaseException as error:
                if self._tables.is_in_doubt:
                    self.work_failed(error)  # before a writer may use the sequence number
                raise
        finally:
            self._release_writers()
        return staging.report(placed)

    def _publish_adopted(self, version: Version, placed: list[PlacedTable], seq: int) -> None:
        """Show tables numbered ``seq``, with a memtable for what is newer.

        Nothing is in the memtable, and writers are held.
        """
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            current = self.require_open()
            memtable = Memtable(seq + 1, current.memtable.log_number)
            metas = [table.meta for table in placed]
            self.recent_writes.add_ranges([(meta.smallest, meta.largest) for meta in metas])
            self._background.compactor.set_read_budget(version)
            self.last_seq = seq
            self.floor = None
            self.super_version = SuperVersion(memtable, current.flushing, version)
            self._update_throttle()
            self._changes.announce()

    def wait_until_settled(self) -> None:
        """Wait until no work is due.  Raises as the method of ``DB``."""
        self.check_not_telling("wait_until_settled()")
        self._urgently(self._settle)

    def _settle(self) -> None:
        is_settled = False
        while not is_settled:
            thread = self.entering()
            with self._mutex:
                self._owner = thread
                self._check_writable()
                self.check_not_closing()
                is_settled = self._background.is_settled(self.require_open())
            if not is_settled:
                self._background.wake_flusher()
                self._background.wake_compactor()
                self._background.wait_idle()
