"""Background work of one open store, in threads and helper processes."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Final

from lsmkv.background.background_thread import Shared
from lsmkv.background.compactor import Compactor
from lsmkv.background.events import HelperFailed
from lsmkv.background.flusher import Flusher
from lsmkv.background.malloc_trim import find_malloc_trim
from lsmkv.background.state import StoreState
from lsmkv.background.threads import in_own_thread
from lsmkv.changes import await_change
from lsmkv.compaction.picker import PickState
from lsmkv.log.log_set import LogSet
from lsmkv.read.view import SuperVersion
from lsmkv.tree.version_set import VersionSet

_FOR_EVER: Final = 0  # no thread has this identifier


class BackgroundWork:
    """The flusher, the compactor, and the threads that wait for either."""

    def __init__(self, store: StoreState, tables: VersionSet, logs: LogSet) -> None:
        self._store = store
        self._tables = tables
        self._shared = Shared(store, tables, logs)
        self.urgency = self._shared.urgency
        self.compactor = Compactor(self._shared)
        self.flusher = Flusher(self._shared, self.compactor)

    def start(self, current: SuperVersion) -> None:
        """Begin with the work that an earlier process left."""
        store = self._store
        find_malloc_trim()  # here: a thread's first import may wait for one that an interrupt broke
        if store.options.background == "process":
            from lsmkv.background.process.runner import runners

            self.flusher.runner, self.compactor.runner = runners(
                store.directory, self._tables, store.stats
            )
        elif store.options.background == "auto":
            from lsmkv.background.process.runner import PAUSE_S, runner_where_possible  # as above

            def failed(reason: str) -> None:
                store.events.note(HelperFailed(store.directory, reason, PAUSE_S))

            for thread in (self.flusher, self.compactor):
                thread.find_runner = lambda known: runner_where_possible(
                    known, self._tables, store.stats, store.events.log, failed
                )
        self._tables.prepare = self.compactor.set_read_budget
        self.compactor.set_read_budget(current.version)
        if current.flushing:
            self.wake_flusher()
        if not self.is_settled(current):
            self.wake_compactor()

    def wake_flusher(self) -> None:
        self.flusher.worker.wake()

    def wake_compactor(self) -> None:
        self.compactor.worker.wake()

    def urgently(self, work: Callable[[], None]) -> None:
        """Run ``work``, which waits for background work and makes it urgent."""
        thread = get_ident()
        urgency = self.urgency
        try:
            urgency.begin(thread)
            work()
        finally:
            urgency.waiting.pop(thread, None)

    def wait_until(self, is_done: Callable[[], bool], *, compact: bool = False) -> None:
        """Wait for background work until ``is_done``, asked under the mutex."""
        done = False

        def look() -> None:
            nonlocal done
            done = is_done()
            if not done:
                self._store.check_not_ending()

        while True:
            ticket = self._store.changes.ticket
            self._store.with_mutex(look)
            if done:
                return
            self.wake_flusher()
            if compact:
                self.wake_compactor()
            if not self._work_here(self._store.events.is_telling):
                await_change(ticket)

    def _work_here(self, is_callback: bool) -> bool:
        """Do work in a worker's own thread, for a callback there; RuntimeError inside a job."""
        for thread in (self.flusher, self.compactor):
            if thread.worker.is_this_thread:
                if thread.works_for_callback or not is_callback:
                    raise RuntimeError(
                        f"a finalizer inside a flush or compaction of {self._store.directory} would "
                        "wait for its end: leave writing to another thread"
                    )
                thread.works_for_callback = True
                try:
                    return thread.run_once()
                finally:
                    thread.works_for_callback = False
        return False

    def is_settled(self, current: SuperVersion) -> bool:
        """Whether no flush or compaction is due or running."""
        if current.flushing or self.flusher.worker.busy or self.compactor.worker.busy:
            return False
        if self.compactor.is_due_for_reads(current.version):
            return False
        return self.compactor.due(current.version, PickState()) is None

    def wait_idle(self) -> None:
        """Wait for both workers; after a failure none starts anything new."""
        self.flusher.worker.wait_idle()
        self.compactor.worker.wait_idle()

    def stop(self) -> None:
        """Start nothing more, cancel what runs, and return once it has ended."""
        self._shared.stopping = True
        self.urgency.begin(_FOR_EVER)
        runners = [runner for runner in (self.flusher.runner, self.compactor.runner) if runner]
        for runner in runners:
            in_own_thread("lsmkv-end", runner.process.close)  # interrupts cut ``subprocess`` short
        self.flusher.worker.stop()
        self.compactor.worker.stop()
        with self.compactor.running:  # a compaction of a range runs in a thread of its own
            pass
        for runner in runners:
            in_own_thread("lsmkv-end", runner.process.reap)
