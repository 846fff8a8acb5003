"""Runs one compaction as several jobs in an executor.

The inputs are cut into key ranges of about the same size.  A job merges one of them, in any process
that sees the store's directory.  When all jobs are done, their tables move to the store's directory.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import msgspec

from lsmkv.background.process.exceptions import error_of
from lsmkv.background.process.jobs import (
    CompactionJob,
    NumbersUsedUpError,
    job_storage,
)
from lsmkv.background.process.ranges import key_ranges
from lsmkv.background.process.runner import job_spec, why_not_in_processes, with_fresh_numbers
from lsmkv.background.process.staged import Failed, StagingDirectory, Written, run_staged
from lsmkv.errors import WorkerError
from lsmkv.sstable.filter_budget import FilterBudget
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.sstable.writer import TableFormat
from lsmkv.stats import Stats
from lsmkv.tree.version_set import VersionSet

_POLL_S: Final = 0.2  # how soon a closing store is noticed
_CHECK_S: Final = 1.0  # how soon a worker notices that its folder is gone
_FEWEST_JOBS: Final = 8  # if each has ``process_job_size_bytes``
_MOST_JOBS: Final = 256
_TABLES_PER_JOB: Final = 4
_MORE_NUMBERS: Final = 8

_JOB: Final[msgspec.msgpack.Decoder[CompactionJob]] = msgspec.msgpack.Decoder(CompactionJob)


_REPLY: Final[msgspec.msgpack.Decoder[Written | Failed]] = msgspec.msgpack.Decoder(Written | Failed)


def check_executor(executor: object, tables: VersionSet) -> None:
    """Raise TypeError or ValueError if ``executor`` cannot run jobs of this store."""
    if not isinstance(executor, Executor):
        raise TypeError(
            f"executor is a concurrent.futures.Executor, not {type(executor).__name__} "
            "(a Dask client gives one: client.get_executor())"
        )
    reason = None if _runs_here(executor) else why_not_in_processes(tables)
    if reason is not None:
        raise ValueError(
            f"{type(executor).__name__} runs jobs in other processes, which cannot compact this "
            f"store: {reason}; give a ThreadPoolExecutor"
        )


def _runs_here(executor: Executor) -> bool:
    """Whether jobs run in this interpreter."""
    elsewhere = getattr(concurrent.futures, "InterpreterPoolExecutor", ())
    return isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, elsewhere)


def run_elsewhere(data: bytes, staging: str) -> bytes:
    """Run an encoded :class:`CompactionJob`; the encoded reply.  For other processes."""
    job = _JOB.decode(data)
    storage = job_storage(job.spec, Stats())
    return msgspec.msgpack.encode(run_staged(job, storage, staging, lambda: False))


class ParallelMerge:
    """Merges runs by jobs in an executor.  Used once, by one thread."""

    def __init__(
        self, executor: Executor, tables: VersionSet, is_cancelled: Callable[[], bool]
    ) -> None:
        self._executor = executor
        self._tables = tables
        self._storage = tables.storage
        self._is_cancelled = is_cancelled
        self._runs_here = _runs_here(executor)
        self._has_failed = False
        self._futures: dict[Future[bytes], CompactionJob] = {}
        self._staging = StagingDirectory(tables)

    def run(
        self,
        inputs: Sequence[tuple[TableMeta, ...]],
        drop_deletions: bool,
        form: TableFormat,
        snapshots: list[int],
    ) -> list[TableMeta]:
        """The merged tables, in key order, in the store's directory.

        After an error no new file is left.  Raises CancelledError; WorkerError when a worker ended
        without a reply, or the executor takes no jobs; and what a job raised.
        """
        jobs = self._jobs(inputs, drop_deletions, form, snapshots)
        with self._staging:
            try:
                for job in jobs:
                    self._submit(job)
                replies = self._await()
                moved = self._staging.adopt(replies)
            finally:
                self._has_failed = True  # whatever still runs is not wanted
                running = [future for future in self._futures if not future.cancel()]
                if self._runs_here:
                    concurrent.futures.wait(running)
        if not self._runs_here:  # its storage counts in the store's own statistics
            for reply in replies:
                self._storage.stats.add_work(reply.stats)
        return moved

    def _jobs(
        self,
        inputs: Sequence[tuple[TableMeta, ...]],
        drop_deletions: bool,
        form: TableFormat,
        snapshots: list[int],
    ) -> list[CompactionJob]:
        size = sum(meta.size_bytes for run in inputs for meta in run)
        count = self._job_count(size)
        readers = [reader for run in inputs for reader in self._tables.readers(run)]
        jobs = []
        ranges = key_ranges(readers, count)
        budgets = [b""] * len(ranges)
        if form.budget:
            whole = FilterBudget.unpacked(form.budget)
            budgets = [part.packed() for part in whole.divided(ranges)]
        for (after, through), budget in zip(ranges, budgets, strict=True):
            runs = [
                [
                    meta
                    for meta in run
                    if (through is None or meta.smallest <= through)
                    and (after is None or meta.largest > after)
                ]
                for run in inputs
            ]
            runs = [run for run in runs if run]
            entries = sum(meta.entry_count for run in runs for meta in run)
            spec = job_spec(
                self._tables,
                replace(form, budget=budget),
                snapshots,
                size // count + 1,
                entries,
            )
            jobs.append(
                CompactionJob(
                    spec=spec,
                    runs=runs,
                    drop_deletions=drop_deletions,
                    after=after,
                    through=through,
                )
            )
        return jobs

    def _job_count(self, input_bytes: int) -> int:
        options = self._tables.options
        count = max(_FEWEST_JOBS, input_bytes // (_TABLES_PER_JOB * options.table_size_bytes))
        most = min(_MOST_JOBS, input_bytes // max(1, options.process_job_size_bytes))
        return max(1, min(count, most))

    def _submit(self, job: CompactionJob) -> None:
        try:
            if self._runs_here:
                future = self._executor.submit(self._run_here, job)
            else:
                data = msgspec.msgpack.encode(job)
                future = self._executor.submit(run_elsewhere, data, self._staging.path)
        except Exception as error:
            raise WorkerError(f"the executor takes no job: {_said(error)}") from error
        if not isinstance(future, Future):
            raise WorkerError(
                f"{type(self._executor).__name__}.submit returned {type(future).__name__}, "
                "not a concurrent.futures.Future: give another executor"
            )
        self._futures[future] = job

    def _run_here(self, job: CompactionJob) -> bytes:
        reply = run_staged(job, self._storage, self._staging.path, self._is_unwanted)
        return msgspec.msgpack.encode(reply)

    def _is_unwanted(self) -> bool:
        return self._has_failed or self._is_cancelled()

    def _await(self) -> list[Written]:
        """The replies to all jobs, when all have succeeded."""
        replies: list[Written] = []
        waiting = set(self._futures)
        while waiting:
            done, waiting = concurrent.futures.wait(
                waiting, _POLL_S, concurrent.futures.FIRST_COMPLETED
            )
            if self._is_cancelled():
                raise CancelledError("the store is closing")
            # ``wait`` takes no notice of one that was cancelled before any worker took it.
            done |= {future for future in waiting if future.cancelled()}
            waiting -= done
            for future in done:
                job = self._futures.pop(future)
                reply = self._reply(future)
                if isinstance(reply, Written):
                    replies.append(reply)
                elif reply.failure.kind == NumbersUsedUpError.__name__:
                    waiting.add(self._with_more_numbers(job))
                else:
                    self._tables.check_place()  # which is the cause, where it fails
                    raise error_of(reply.failure)
        return replies

    def _reply(self, future: Future[bytes]) -> Written | Failed:
        try:
            return _REPLY.decode(future.result())
        except Exception as error:
            raise WorkerError(
                f"a worker ended in the middle of its job, and the store is as it was: {_said(error)}"
            ) from error

    def _with_more_numbers(self, job: CompactionJob) -> Future[bytes]:
        entries = sum(meta.entry_count for run in job.runs for meta in run)
        count = min(entries, _MORE_NUMBERS * job.spec.number_count)
        before = set(self._futures)
        again = with_fresh_numbers(self._tables, job, count)
        assert isinstance(again, CompactionJob)
        self._submit(again)
        (future,) = set(self._futures) - before
        return future


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
