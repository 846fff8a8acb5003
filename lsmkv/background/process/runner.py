"""Runs flushes and compactions in helper processes, and sees to what may go wrong with these."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from typing import Final

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
from lsmkv.tree.version_set import VersionSet

_LOG_UNUSABLE: Final = LogUnusableError.__name__
_NUMBERS_USED_UP: Final = NumbersUsedUpError.__name__


def runners(
    directory: str, tables: VersionSet, stats: Stats, lock: FileLock
) -> tuple[JobRunner | None, JobRunner | None]:
    """One for flushes and one for compactions of an open store; none, with a warning, where its
    work cannot be done in another process.
    """
    executable = interpreter()
    reason = _why_not_elsewhere(tables)
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


def _why_not_elsewhere(tables: VersionSet) -> str | None:
    """Why no other process can write and read these tables; None when one can."""
    if type(tables.storage) is not Storage:
        return "its storage is one that only this process has"
    for policy in tables.policies():
        if policy.scheme in PRIVATE_SCHEMES:
            return f"filter policy {policy.name!r} is registered in this process alone"
    return None


class JobRunner:
    """Has jobs run in one helper process: ``run`` one at a time, ``close`` at any time."""

    def __init__(self, process: HelperProcess, tables: VersionSet, stats: Stats) -> None:
        self.process = process
        self._tables = tables
        self._stats = stats
        self._unavailable = False

    def order(
        self,
        error_rate: float,
        snapshots: list[int],
        input_bytes: int,
        most: int,
        replaces: Sequence[int] = (),
    ) -> JobSpec:
        """The order of a job that reads so much and writes ``most`` tables at the most."""
        tables = self._tables
        options = tables.options
        count = min(most, numbers_wanted(input_bytes, options.table_size_bytes))
        first = tables.manifest.allocate(count)
        numbers = range(first, first + count)
        replaced = (*replaces, *tables.unremoved)
        return JobSpec.of(tables.directory, options, error_rate, snapshots, numbers, replaced)

    def _with_more_numbers(self, order: JobSpec, count: int) -> JobSpec:
        """``order`` with that many table numbers, none of which it had before."""
        first = self._tables.manifest.allocate(count)
        return msgspec.structs.replace(order, first_number=first, number_count=count)

    def run(self, job: Job, most: int) -> list[TableMeta] | None:
        """Have ``job`` run, which writes ``most`` tables at the most.

        A process that is killed or crashes is replaced once; what it left half written is removed.

        Returns:
            The tables; None when the job must be done in this process: no helper can be started, or
            it cannot use the log, whose writes are all in memory here.

        Raises:
            CancelledError: the store is closing.
            HelperDiedError: the process ended in the middle of the job, twice.
            Others: what the job raised there.
        """
        if self._unavailable:
            return None
        try:
            reply = self._run_or_repeat(job)
            if isinstance(reply, Failed) and reply.failure.kind == _NUMBERS_USED_UP:
                order = self._with_more_numbers(job.order, most)
                reply = self._run_or_repeat(msgspec.structs.replace(job, order=order))
        except HelperUnavailableError as error:
            self._unavailable = True
            with contextlib.suppress(Warning):  # made an error, it would stop the store
                warnings.warn(
                    f"background work goes on in a thread: {error}", RuntimeWarning, stacklevel=2
                )
            return None
        if isinstance(reply, Done):
            return reply.tables
        if reply.failure.kind == _LOG_UNUSABLE:
            return None
        raise error_of(reply.failure)

    def _run_or_repeat(self, job: Job) -> Done | Failed:
        try:
            reply = self._run_once(job)
        except HelperDiedError:
            order = self._with_more_numbers(job.order, job.order.number_count)
            reply = self._run_once(msgspec.structs.replace(job, order=order))
        counted = Stats()
        for name, value in reply.counters.items():
            setattr(counted, name, value)
        self._stats.add_work(counted)
        return reply

    def _run_once(self, job: Job) -> Done | Failed:
        try:
            return self.process.run(job)
        except BaseException:
            remove_unfinished(self._tables.storage, job.order)
            raise

    def close(self) -> None:
        """End the process, and what it is doing.  ``run`` raises CancelledError from now on."""
        self.process.close()

    def reap(self) -> None:
        """After ``close``, once nobody is in ``run``: return when the process has ended."""
        self.process.reap()
