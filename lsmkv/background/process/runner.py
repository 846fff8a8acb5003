"""Runs jobs in helper processes; retries or falls back when one fails."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from lsmkv.background.process.exceptions import error_of
from lsmkv.background.process.jobs import (
    Job,
    JobSpec,
    LogUnusableError,
    NumbersUsedUpError,
    numbers_wanted,
)
from lsmkv.background.process.messages import Order
from lsmkv.background.process.parent import (
    HelperDiedError,
    HelperProcess,
    HelperUnavailableError,
    interpreter,
)
from lsmkv.background.process.staged import Failed, StagingDirectory, Written
from lsmkv.filters.policy import PRIVATE_SCHEMES
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.writer import TableFormat
from lsmkv.stats import Stats
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import VersionSet

_NEXT_TRY_S: Final = 60.0  # what keeps a helper from starting, such as a limit, may pass


def runners(
    directory: str, tables: VersionSet, stats: Stats
) -> tuple[JobRunner | None, JobRunner | None]:
    """Runners for flushes and for compactions.

    None, with a warning, where no other process can do the work.
    """
    reason = why_not_in_processes(tables) or _why_no_helper()
    if reason is not None:
        warnings.warn(
            f"{directory}: background work is done in threads, not in a process: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, None
    flushes, merges = (HelperProcess(sys.executable) for _ in range(2))
    return JobRunner(flushes, tables, stats, _warn), JobRunner(merges, tables, stats, _warn)


def runner_where_possible(
    known: JobRunner | None,
    tables: VersionSet,
    stats: Stats,
    log: Callable[[str], None],
) -> JobRunner | None:
    """A runner, or the ``known`` one, where it can do the work.

    Otherwise, as without a second core, None; and the log has the reason.
    """
    reason = _why_no_helper() or why_not_in_processes(tables)
    if reason is None and _core_count() < 2:
        reason = "this process has one core"
    if reason is not None:
        log(f"{tables.directory}: a job is done in a thread, not in a process: {reason}")
        return None
    return known or JobRunner(HelperProcess(sys.executable), tables, stats, log)


def _why_no_helper() -> str | None:
    if interpreter() is None:
        return f"sys.executable, {sys.executable!r}, is not known to be a Python interpreter"
    return None


def _core_count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _warn(text: str) -> None:
    with contextlib.suppress(Warning):  # as an exception it would stop the store
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def why_not_in_processes(tables: VersionSet) -> str | None:
    """Why no other process can write this store's tables, or None."""
    if type(tables.storage) is not Storage:
        return "its storage is one that only this process has"
    for policy in tables.policies():
        if policy.scheme in PRIVATE_SCHEMES:
            return f"filter policy {policy.name!r} is registered in this process alone"
    return None


def job_spec(
    tables: VersionSet,
    form: TableFormat,
    snapshots: list[int],
    input_bytes: int,
    max_tables: int,
    replaces: Sequence[int] = (),
) -> JobSpec:
    """The spec of a job that writes at most ``max_tables`` tables."""
    options = tables.options
    count = min(max_tables, numbers_wanted(input_bytes, options.table_size_bytes))
    return JobSpec(
        directory=os.fsencode(tables.directory),
        format=form,
        table_size_bytes=options.table_size_bytes,
        direct_reads=options.direct_reads,
        file_mode=options.file_mode,
        first_number=tables.manifest.allocate(count),
        number_count=count,
        snapshots=snapshots,
        replaces=[*replaces, *tables.unremoved],
    )


def with_fresh_numbers(tables: VersionSet, job: Job, count: int) -> Job:
    """The job with ``count`` newly allocated table numbers."""
    first = tables.manifest.allocate(count)
    spec = msgspec.structs.replace(job.spec, first_number=first, number_count=count)
    return msgspec.structs.replace(job, spec=spec)


class JobRunner:
    """Runs jobs in one process; ``say`` is told why it no longer can."""

    def __init__(
        self, process: HelperProcess, tables: VersionSet, stats: Stats, say: Callable[[str], None]
    ) -> None:
        self.process = process
        self._say = say
        self._tables = tables
        self._stats = stats
        self._unavailable_until_s = 0.0

    def spec(
        self,
        form: TableFormat,
        snapshots: list[int],
        input_bytes: int,
        max_tables: int,
        replaces: Sequence[int] = (),
    ) -> JobSpec:
        """The spec of a job that writes at most ``max_tables`` tables."""
        return job_spec(self._tables, form, snapshots, input_bytes, max_tables, replaces)

    def run(self, job: Job, max_tables: int) -> list[TableMeta] | None:
        """Run ``job``, which writes at most ``max_tables`` tables.

        A process that dies is replaced once.  None means that this process must do the work: no helper
        can be started, or it cannot use the log.  Raises CancelledError, HelperDiedError when the process
        ended twice, and whatever the job raised.
        """
        if time.monotonic() < self._unavailable_until_s:
            return None
        with StagingDirectory(self._tables) as staging:
            try:
                reply = self._run_or_repeat(job, staging)
                if isinstance(reply, Failed) and reply.failure.kind == NumbersUsedUpError.__name__:
                    again = with_fresh_numbers(self._tables, job, max_tables)
                    reply = self._run_or_repeat(again, staging)
            except HelperUnavailableError as error:
                self._unavailable_until_s = time.monotonic() + _NEXT_TRY_S
                self._say(f"background work goes on in a thread: {error}")
                return None
            if isinstance(reply, Written):
                return staging.adopt([reply])
        if reply.failure.kind == LogUnusableError.__name__:
            return None
        self._tables.check_place()  # which is the cause, where it fails
        self.process.reap()  # another is started under the limits of then, which may be what failed
        raise error_of(reply.failure)

    def _run_or_repeat(self, job: Job, staging: StagingDirectory) -> Written | Failed:
        order = Order(job, os.fsencode(staging.path))
        try:
            reply = self.process.run(order)
        except HelperDiedError:
            reply = self.process.run(order)
        self._stats.add_work(reply.stats)
        return reply
