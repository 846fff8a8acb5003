"""Background work of one open store, in threads and helper processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lsmkv.background.background_thread import Host, Shared
from lsmkv.background.compactor import Compactor
from lsmkv.background.flusher import Flusher
from lsmkv.background.malloc_trim import find_malloc_trim
from lsmkv.background.threads import Errand
from lsmkv.compaction.picker import PickState, pick
from lsmkv.read.view import SuperVersion
from lsmkv.storage.storage import FileLock
from lsmkv.tree.version_set import VersionSet

_FOR_EVER: Final = 0  # no thread has this identifier


class BackgroundWork:
    """The flusher, the compactor, and the threads that wait for either."""

    def __init__(self, host: Host, tables: VersionSet, lock: FileLock | None) -> None:
        self._host = host
        self._tables = tables
        self._lock = lock
        self._shared = Shared(host, tables)
        self.urgency = self._shared.urgency
        self.compactor = Compactor(self._shared)
        self.flusher = Flusher(self._shared, self.compactor.worker)

    def start(self, current: SuperVersion) -> None:
        """Begin with the work that an earlier process left."""
        host = self._host
        find_malloc_trim()  # here: a thread's first import may wait for one that an interrupt broke
        if host.options.background == "process" and self._lock is not None:
            from lsmkv.background.process.runner import runners

            self.flusher.runner, self.compactor.runner = runners(
                host.directory, self._tables, host.stats, self._lock
            )
        self.compactor.set_read_budget(current.version)
        if current.flushing:
            self.wake_flusher()
        if not self.is_settled(current):
            self.wake_compactor()

    def wake_flusher(self) -> None:
        self.flusher.worker.wake()

    def wake_compactor(self) -> None:
        self.compactor.worker.wake()

    def work_here(self) -> bool:
        """Do a piece of work in a worker's own thread.

        A callback in that thread waits for it.  False in any other thread, or without work.
        """
        for thread in (self.flusher, self.compactor):
            if thread.worker.is_this_thread:
                return thread.run_once()
        return False

    def is_settled(self, current: SuperVersion) -> bool:
        """Whether no flush or compaction is due or running."""
        if current.flushing or self.flusher.worker.busy or self.compactor.worker.busy:
            return False
        if self.compactor.is_due_for_reads(current.version):
            return False
        return pick(current.version.levels, self._host.options, PickState()) is None

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
            _in_own_thread(runner.process.close)
        self.flusher.worker.stop()
        self.compactor.worker.stop()
        with self.compactor.running:  # a compaction of a range runs in a thread of its own
            pass
        for runner in runners:
            _in_own_thread(runner.process.reap)


def _in_own_thread(action: Callable[[], object]) -> None:
    """Protect ``action`` from interrupts, which cut ``subprocess`` short."""
    try:
        Errand("lsmkv-end", action).run()
    except RuntimeError:  # no thread can be started
        action()
