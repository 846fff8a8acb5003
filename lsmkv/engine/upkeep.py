"""Flush, compaction, ingest and resume: what users ask of the tree of an open store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lsmkv.background.background_work import BackgroundWork
from lsmkv.background.events import Ingested, Resumed
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.engine.writer import Writer
from lsmkv.errors import caused, untraced
from lsmkv.log.log_set import LogSet
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.bounds import Bounds
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import VersionEdit
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.engine.adoption import IngestReport, Staging


class Upkeep:
    """The part of an open store that changes its tree."""

    def __init__(
        self, writer: Writer, tables: VersionSet, logs: LogSet, background: BackgroundWork
    ) -> None:
        self.state = writer.state
        self.tables = tables
        self._writer = writer
        self._logs = logs
        self._background = background

    # Flush

    def flush(self) -> None:
        """Write every memtable to tables.  Raises as ``DB.flush``."""
        self.state.check_not_telling("flush()")
        try:
            self._background.urgently(self._flush)
        finally:
            self.state.events.tell()

    def _flush(self) -> None:
        state = self.state
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            state.check_writable()
            state.check_not_ending()
            current = state.require_open()
            if current.memtable.is_empty and not current.memtable.range_deletes:
                number = self._logs.current.number
            else:
                number = self._writer.rotate(current)
        self._background.wait_until(lambda: self._is_flushed(number))

    def _is_flushed(self, log_number: int) -> bool:
        """Whether tables hold the writes of all logs before ``log_number``."""
        self.state.check_writable()
        flushing = self.state.require_open().flushing
        return all(memtable.log_number >= log_number for memtable in flushing)

    # Compaction

    def compact_range(self, wanted: Bounds, force: bool) -> None:
        """Flush, and merge a range into one run.  Raises as the method of ``DB``."""
        compactor, start, stop = self._background.compactor, wanted.start, wanted.stop
        self.state.check_not_telling("compact_range()")
        self.flush()
        if wanted.is_empty:
            return
        try:
            self._background.urgently(lambda: compactor.compact_range(start, stop, force))
        except CancelledError:
            raise caused(self.state.unusable(), None)
        self._background.wake_compactor()

    def wait_until_settled(self) -> None:
        """Wait until no work is due.  Raises as the method of ``DB``."""
        self.state.check_not_telling("wait_until_settled()")
        self._background.urgently(self._settle)

    def _settle(self) -> None:
        state = self.state
        is_settled = False
        while not is_settled:
            thread = state.entering()
            with state.mutex:
                state.owner = thread
                state.check_writable()
                state.check_not_ending()
                is_settled = self._background.is_settled(state.require_open())
            if not is_settled:
                self._background.wake_flusher()
                self._background.wake_compactor()
                self._background.wait_idle()

    # Ingest

    def check_for_adopting(self) -> None:
        """Raise where no tables can be adopted: also in a signal handler inside a call."""
        self.state.check_for_writing()
        self.state.entering()

    def adopt(self, staging: Staging) -> IngestReport:
        """Make staged tables part of the store, or remove their files.  Raises as ``DB.ingest``."""
        state = self.state
        reports: list[IngestReport] = []

        def action(is_cancelled: Callable[[], bool]) -> None:
            report = self._adopt(staging, is_cancelled)
            reports.append(report)
            found = report.tables, report.entries, report.size_bytes
            state.events.note(Ingested(state.directory, *found))

        state.check_not_telling("ingest() or bulk_load()")
        compactor = self._background.compactor
        try:
            self._background.urgently(
                lambda: compactor.exclusively("lsmkv-ingest", action, staging.remove)
            )
        except CancelledError:
            raise caused(state.unusable(), None)
        self._background.wake_compactor()
        return reports[0]

    def _adopt(self, staging: Staging, is_cancelled: Callable[[], bool]) -> IngestReport:
        self._flush()  # most of it, while writers go on
        try:
            self.state.with_mutex(self._writer.hold)
            self._flush()
            if is_cancelled():
                raise CancelledError("the store is closing, or the caller was interrupted")
            seq = self.state.last_seq + 1
            if seq > MAX_SEQUENCE:
                raise self.state.numbers_used_up()
            placed = staging.adopt(self.tables, seq)
            edit = VersionEdit(added=placed, last_seq=seq)
            try:
                self.tables.install(edit, lambda version: self._publish(version, placed, seq))
            except BaseException as error:
                if self.tables.is_in_doubt:  # before a writer may use the sequence number
                    self.state.work_failed(untraced(error))
                raise
        finally:
            self._writer.let_go()
        return staging.report(placed)

    def _publish(self, version: Version, placed: list[PlacedTable], seq: int) -> None:
        """Show tables numbered ``seq``, with a memtable for what is newer; writers are held."""
        state, metas = self.state, [table.meta for table in placed]
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            current = state.require_open()
            memtable = Memtable(seq + 1, current.memtable.log_number)
            written: list[KeyRange] = [(meta.smallest, meta.largest + b"\0") for meta in metas]
            self._writer.recent_writes.add_ranges(written)
            self._writer.watches.note_all()
            state.last_seq = seq
            state.show(SuperVersion(memtable, current.flushing, version))

    # Failures

    def resume(self) -> None:
        """Take writes again after a failure.  Raises as ``DB.resume``.

        It flushes the memtables first, because their logs may be what failed.
        """
        self.state.require_open()
        self.state.check_not_telling("resume()")
        try:
            self._background.urgently(self._resume)
        finally:
            self.state.events.tell()

    def _resume(self) -> None:
        state = self.state
        if state.failure is not None:
            self._background.wait_idle()  # work that began before the mending may still fail
        thread = state.entering()
        with self.tables.lock, state.mutex:
            state.owner = thread
            if state.super_version is None or state.read_only:
                state.check_writable()
            state.check_not_ending()
            cause = state.failure
            if cause is None:
                return
            self.tables.mend_manifest()
            self._writer.rotate(state.require_open())
        try:
            state.resuming = True
            self._background.wait_until(lambda: self._is_mended(cause))
        finally:
            state.resuming = False
        self._background.wake_compactor()

    def _is_mended(self, cause: BaseException) -> bool:
        """Whether everything is flushed after ``cause``; then takes writes again."""
        state = self.state
        if state.failure is not cause:
            state.check_writable()
        if state.require_open().flushing:
            return False
        state.take_writes_again()
        state.events.note(Resumed(state.directory))
        return True
