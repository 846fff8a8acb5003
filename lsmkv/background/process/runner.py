"""Runs jobs in helper processes; retries or falls back when one fails."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Final

import msgspec

from lsmkv.background.process import jobs
from lsmkv.background.process.exceptions import error_of
from lsmkv.background.process.messages import Order
from lsmkv.background.process.parent import (
    HelperDiedError,
    HelperProcess,
    HelperUnavailableError,
    interpreter,
)
from lsmkv.background.process.staged import Failed, StagingDirectory, Written
from lsmkv.errors import Error
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.stats import Stats
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import VersionSet

PAUSE_S: Final = 300.0  # what ends a helper, such as want of memory or a limit, may pass


def runners(
    directory: str, tables: VersionSet, stats: Stats
) -> tuple[JobRunner | None, JobRunner | None]:
    """Runners for flushes and compactions; None, with a warning, where no process can do the work."""
    reason = why_not_in_processes(tables) or _why_no_helper()
    if reason is not None:
        warnings.warn(
            f"{directory}: background work is done in threads, not in a process: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, None

    def runner() -> JobRunner:
        return JobRunner(HelperProcess(sys.executable), tables, stats, _warn, is_optional=False)

    return runner(), runner()


def runner_where_possible(
    known: JobRunner | None,
    tables: VersionSet,
    stats: Stats,
    log: Callable[[str], None],
    say: Callable[[str], None],
) -> JobRunner | None:
    """The ``known`` runner or a new one; None, with a reason in the log, where none can do the work."""
    reason = _why_no_helper() or why_not_in_processes(tables)
    if reason is None and _core_count() < 2:
        reason = "this process has one core"
    if reason is not None:
        log(f"{tables.directory}: a job is done in a thread, not in a process: {reason}")
        return None
    if known is not None:
        return known
    return JobRunner(HelperProcess(sys.executable), tables, stats, say, is_optional=True)


def _why_no_helper() -> str | None:
    if interpreter() is None:
        return f"sys.executable, {sys.executable!r}, is not known to be a Python interpreter"
    return None


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _warn(reason: str) -> None:
    with contextlib.suppress(Warning):  # as an exception it would stop the store
        warnings.warn(
            f"background work goes on in a thread: {reason}", RuntimeWarning, stacklevel=3
        )


def why_not_in_processes(tables: VersionSet) -> str | None:
    """Why no other process can write this store's tables, or None."""
    if type(tables.storage) is not Storage:
        return "its storage is one that only this process has"
    for policy in tables.policies():
        if policy.is_registered:
            return f"filter policy {policy.name!r} is registered in this process alone"
    return None


class JobRunner:
    """Runs jobs in one process."""

    def __init__(
        self,
        process: HelperProcess,
        tables: VersionSet,
        stats: Stats,
        say: Callable[[str], None],
        *,
        is_optional: bool,
    ) -> None:
        self.process = process
        self._say = say  # is told why a thread must do the work for PAUSE_S
        self.tables = tables
        self._stats = stats
        self._is_optional = is_optional  # a thread may do any job: no failure is the store's
        self._paused_until_s = 0.0

    @property
    def is_paused(self) -> bool:
        """Whether a failure keeps jobs out of the process for now."""
        return time.monotonic() < self._paused_until_s

    def run(self, job: jobs.Job, max_tables: int) -> list[TableMeta] | None:
        """Run ``job``; None: a thread must do it.  Unless optional, raises what it raised."""
        if self.is_paused:
            return None
        try:
            return self._run(job, max_tables)
        except CancelledError:
            raise
        except Exception as error:
            if not self._is_optional and not isinstance(error, HelperUnavailableError):
                raise
            self._paused_until_s = time.monotonic() + PAUSE_S
            is_ours = isinstance(error, Error)
            self._say(str(error) if is_ours else f"{type(error).__name__}: {error}")
            return None

    def _run(self, job: jobs.Job, max_tables: int) -> list[TableMeta] | None:
        with StagingDirectory(self.tables) as staging:
            reply = self._run_or_repeat(job, staging)
            if isinstance(reply, Failed) and reply.failure.kind == jobs.NumbersUsedUpError.__name__:
                first = self.tables.manifest.allocate(max_tables)
                numbers = {"first_number": first, "number_count": max_tables}
                spec = msgspec.structs.replace(job.spec, **numbers)
                reply = self._run_or_repeat(msgspec.structs.replace(job, spec=spec), staging)
            if isinstance(reply, Written):
                return staging.adopt(reply)
        if reply.failure.kind == jobs.LogUnusableError.__name__:
            return None
        self.tables.check_place()  # which is the cause, where it fails
        self.process.reap()  # another is started under the limits of then, which may be what failed
        raise error_of(reply.failure)

    def _run_or_repeat(self, job: jobs.Job, staging: StagingDirectory) -> Written | Failed:
        """The reply to ``job``; a process that dies is replaced once."""
        order = Order(job, os.fsencode(staging.path))
        try:
            reply = self.process.run(order)
        except HelperDiedError:
            reply = self.process.run(order)
        self._stats.add_work(reply.stats)
        return reply
