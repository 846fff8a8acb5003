"""The base of the flusher and the compactor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lsmkv.background.malloc_trim import trim_heap
from lsmkv.background.pace import Pacer, Starvation, StarvedError, Urgency
from lsmkv.background.state import StoreState
from lsmkv.background.work import Work
from lsmkv.background.worker import Worker
from lsmkv.log.log_set import LogSet
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import write_tables
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.background.process.runner import JobRunner

_LEAST_MOVED_BYTES: Final = 1 << 20  # a smaller job stays in the thread, even a starved one


class Shared:
    """State shared by the background threads; ``stopping``: running jobs must give up."""

    def __init__(self, store: StoreState, tables: VersionSet, logs: LogSet) -> None:
        self.store = store
        self.tables = tables
        self.logs = logs
        self.urgency = Urgency()
        self.stopping = False


class BackgroundThread(Pacer):
    """A worker that writes tables, itself or through a ``runner``."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(shared.store.stats, shared.urgency)
        self.shared = shared
        self.store = shared.store
        self.tables = shared.tables
        self.runner: JobRunner | None = None
        # Is given the present runner, and gives one where that is possible, or None.
        self.find_runner: Callable[[JobRunner | None], JobRunner | None] | None = None
        self.works_for_callback = False  # the job was begun by a callback in the worker's thread
        self._may_move_jobs = True
        self._starvation: Starvation | None = None  # of the job in this thread, if it may move
        self.worker = Worker(name, self.run_once, self._failed)

    def run_once(self) -> bool:
        """Do one piece of work; True when there may be more."""
        raise NotImplementedError

    def _failed(self, error: BaseException) -> None:
        self.store.work_failed(error)
        self.store.events.tell()

    def is_stopping(self) -> bool:
        return self.shared.stopping

    def runner_for(self, input_bytes: int) -> JobRunner | None:
        """The helper process for a job of this size; None: it runs here."""
        if input_bytes < self.store.options.process_job_size_bytes:
            return None
        return self.runner if self.find_runner is None else self._found_runner(self.find_runner)

    def _found_runner(
        self, find: Callable[[JobRunner | None], JobRunner | None]
    ) -> JobRunner | None:
        found = find(self.runner)
        self.runner = self.runner or found
        return None if self.is_stopping() else found  # whoever stops has seen it, or is seen here

    def set_pace(self, work: Work) -> None:
        """Begin the pace of ``work`` in this thread."""
        raise NotImplementedError

    def may_be_helped(self) -> bool:
        """Whether a helper process may do the next piece of work."""
        return True

    def do(
        self, work: Work, runner: JobRunner | None, is_cancelled: Callable[[], bool]
    ) -> list[TableMeta]:
        """The tables of some work, by ``runner`` or this thread; a starved one moves to a process."""
        find = self.find_runner
        is_paused = self.runner is not None and self.runner.is_paused
        may_move = self._may_move_jobs and not is_paused and work.input_bytes >= _LEAST_MOVED_BYTES
        if runner is None and find is not None and may_move:
            self._starvation = Starvation()
            try:
                return self._do_here(work, is_cancelled)
            except StarvedError:
                runner = self._found_runner(find)
                self._may_move_jobs = runner is not None  # or each job would be done twice
            finally:
                self._starvation = None
        tables = work.run_by(runner) if runner is not None and self.may_be_helped() else None
        return self._do_here(work, is_cancelled) if tables is None else tables

    def _do_here(self, work: Work, is_cancelled: Callable[[], bool]) -> list[TableMeta]:
        self.set_pace(work)
        job = self.tables.job(work.form, is_cancelled, self._pause, work.replaces)
        return write_tables(work.batches(), job)

    def _pause(self, done: int) -> None:
        self.give_way(done)
        if self._starvation is not None and self._starvation.is_found():
            raise StarvedError
        trim_heap()

    def nap(self) -> None:
        super().nap()
        if self._starvation is not None:
            self._starvation.restart()
