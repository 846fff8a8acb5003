"""Runs jobs in helper processes; retries or falls back when one fails."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence

import msgspec

from lsmkv.background.process.exceptions import error_of
from lsmkv.background.process.jobs import (
    Job,
    JobSpec,
    LogUnusableError,
    NumbersUsedUpError,
    numbers_wanted,
    remove_unfinished,
)
from lsmkv.background.process.messages import Done, Failed
from lsmkv.background.process.parent import (
    HelperDiedError,
    HelperProcess,
    HelperUnavailableError,
    interpreter,
)
from lsmkv.filters.policy import PRIVATE_SCHEMES
from lsmkv.sstable.format import TableMeta
from lsmkv.stats import Stats
from lsmkv.storage.storage import FileLock, Storage
from lsmkv.tree.version_set import VersionSet, table_format


def runners(
    directory: str, tables: VersionSet, stats: Stats, lock: FileLock
) -> tuple[JobRunner | None, JobRunner | None]:
    """Runners for flushes and for compactions.

    None, with a warning, where no other process can do the work.
    """
    executable = interpreter()
    reason = why_not_in_processes(tables)
    if reason is None and executable is None:
        reason = f"sys.executable, {sys.executable!r}, is not known to be a Python interpreter"
    if reason is not None or executable is None:
        warnings.warn(
            f"{directory}: background work is done in threads, not in a process: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, None
    flushes, merges = (HelperProcess(executable, lock.fileno()) for _ in range(2))
    return JobRunner(flushes, tables, stats), JobRunner(merges, tables, stats)


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
    error_rate: float,
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
        format=table_format(options, error_rate),
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
    def __init__(self, process: HelperProcess, tables: VersionSet, stats: Stats) -> None:
        self.process = process
        self._tables = tables
        self._stats = stats
        self._unavailable = False

    def spec(
        self,
        error_rate: float,
        snapshots: list[int],
        input_bytes: int,
        max_tables: int,
        replaces: Sequence[int] = (),
    ) -> JobSpec:
        """The spec of a job that writes at most ``max_tables`` tables."""
        return job_spec(self._tables, error_rate, snapshots, input_bytes, max_tables, replaces)

    def run(self, job: Job, max_tables: int) -> list[TableMeta] | None:
        """Run ``job``, which writes at most ``max_tables`` tables.

        A process that dies is replaced once, and its half-written tables are removed.  None means that
        this process must do the work: no helper can be started, or it cannot use the log.  Raises
        CancelledError, HelperDiedError when the process ended twice, and whatever the job raised.
        """
        if self._unavailable:
            return None
        try:
            reply = self._run_or_repeat(job)
            if isinstance(reply, Failed) and reply.failure.kind == NumbersUsedUpError.__name__:
                reply = self._run_or_repeat(with_fresh_numbers(self._tables, job, max_tables))
        except HelperUnavailableError as error:
            self._unavailable = True
            with contextlib.suppress(Warning):  # as an exception it would stop the store
                warnings.warn(
                    f"background work goes on in a thread: {error}", RuntimeWarning, stacklevel=2
                )
            return None
        if isinstance(reply, Done):
            return reply.tables
        if reply.failure.kind == LogUnusableError.__name__:
            return None
        raise error_of(reply.failure)

    def _run_or_repeat(self, job: Job) -> Done | Failed:
        try:
            reply = self._run_once(job)
        except HelperDiedError:
            fresh = with_fresh_numbers(self._tables, job, job.spec.number_count)
            reply = self._run_once(fresh)
        self._stats.add_work(reply.stats)
        return reply

    def _run_once(self, job: Job) -> Done | Failed:
        try:
            return self.process.run(job)
        except BaseException:
            remove_unfinished(self._tables.storage, job.spec)
            raise
