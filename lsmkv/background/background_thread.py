"""What the flusher and the compactor share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from lsmkv.background.events import Event
from lsmkv.background.malloc_trim import trim_heap
from lsmkv.background.pace import Pacer, Urgency
from lsmkv.background.worker import Worker
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.snapshots import SnapshotList
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import write_tables
from lsmkv.stats import Stats
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.background.process.runner import JobRunner


class Host(Protocol):
    """The open store that background threads work for."""

    directory: str
    super_version: SuperVersion | None
    stats: Stats
    snapshots: SnapshotList
    options: Options

    def may_flush(self) -> bool:
        """Whether flushes may run now."""

    def may_compact(self) -> bool:
        """Whether compactions may run now."""

    def publish(self, version: Version, flushed: Memtable | None) -> None:
        """Show readers ``version``, and hide the memtable that its tables replace."""

    def remove_log(self, number: int) -> None:
        """Remove a log whose writes are in tables."""

    def work_failed(self, error: BaseException) -> None:
        """Stop taking writes: a flush or compaction failed.  Notes an event."""

    def note(self, event: Event) -> None:
        """Keep an event for :meth:`tell`."""

    def tell(self) -> None:
        """Tell the events that this thread noted; it holds no lock."""

    def release_gil(self, wanted: bool) -> None:
        """Make each write release the GIL, or not."""


class Shared:
    """What the background threads share; ``stopping``: running jobs must give up."""

    def __init__(self, host: Host, tables: VersionSet) -> None:
        self.host = host
        self.tables = tables
        self.urgency = Urgency()
        self.stopping = False
        self._computing: dict[int, None] = {}
        self._lock = threading.Lock()

    def begin_computing(self) -> None:
        """Make writes release the GIL while any such thread computes."""
        self._computing[threading.get_ident()] = None
        self._tell_host()

    def end_computing(self) -> None:
        self._computing.pop(threading.get_ident(), None)
        self._tell_host()

    def _tell_host(self) -> None:
        with self._lock:
            self.host.release_gil(bool(self._computing))


class BackgroundThread(Pacer):
    """A worker that writes tables, itself or through a ``runner``."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(shared.host.stats, shared.urgency)
        self.shared = shared
        self.host = shared.host
        self.tables = shared.tables
        self.runner: JobRunner | None = None
        self.worker = Worker(name, self.run_once, self._failed)

    def run_once(self) -> bool:
        """Do one piece of work; True when there may be more."""
        raise NotImplementedError

    def _failed(self, error: BaseException) -> None:
        self.host.work_failed(error)
        self.host.tell()

    def is_stopping(self) -> bool:
        return self.shared.stopping

    def runner_for(self, input_bytes: int) -> JobRunner | None:
        """The helper process for a job of this size; None: it runs here."""
        return self.runner if input_bytes >= self.host.options.process_job_size_bytes else None

    def write_tables(
        self,
        batches: Iterator[EntryBatch],
        error_rate: float,
        is_cancelled: Callable[[], bool],
        replaced: Sequence[int] = (),
    ) -> list[TableMeta]:
        """Write tables in this thread, at the pace that was started."""
        try:
            self.shared.begin_computing()
            job = self.tables.job(error_rate, is_cancelled, self._pause, replaced)
            return write_tables(batches, job)
        finally:
            self.shared.end_computing()

    def _pause(self, done: int) -> None:
        self.give_way(done)
        trim_heap()

    def nap(self) -> None:
        """Sleep for a moment, in which writes need not release the GIL."""
        self.shared.end_computing()
        super().nap()
        self.shared.begin_computing()
