"""Flushes and compactions as data, for any process to run.

A job reads finished files and writes tables under numbers allocated for it; the store records them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from lsmkv.compaction.merge import compact_tables, flushed_batches
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.range_deletes import RangeDelete, united
from lsmkv.errors import CorruptionError, Error
from lsmkv.log.reader import read_log
from lsmkv.log.replay import replay
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.reader import open_table
from lsmkv.sstable.stored_blocks import StoredBlocks
from lsmkv.stats import Stats
from lsmkv.storage.file_names import log_path
from lsmkv.storage.storage import Storage


class NumbersUsedUpError(Error):
    """The job needs more table numbers than it has."""


class LogUnusableError(Error):
    """The log of a flush is unreadable, or differs from the memtable."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a job writes its tables."""

    directory: bytes  # the store's, encoded as the file system does
    format: TableFormat
    table_size_bytes: int
    direct_reads: bool
    file_mode: int
    # first_number, number_count: the table numbers allocated for the job.
    first_number: int
    number_count: int
    snapshots: list[int]  # sequence numbers of live snapshots, ascending
    drop_deletions: bool  # nothing older is left for a deletion to hide
    due_s: int  # by which time entries are due for every reader
    replaces: list[int]  # numbers of the tables that the new ones replace

    @property
    def path(self) -> str:
        return os.fsdecode(self.directory)

    @property
    def numbers(self) -> range:
        return range(self.first_number, self.first_number + self.number_count)


class FlushJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write the contents of a finished log to tables."""

    spec: JobSpec
    log_number: int
    log_bytes: int  # where the log's last record ends
    # first_seq, end_seq: sequence number of its first write, and the one after its last.
    first_seq: int
    end_seq: int
    key_count: int | None  # number of distinct keys; None when the memtable has not counted them


class CompactionJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Merge the tables of some runs, newest run first; ``may_copy``: blocks as they are stored."""

    spec: JobSpec
    runs: list[list[TableMeta]]
    may_copy: bool = False
    erased: list[RangeDelete] = []


Job = FlushJob | CompactionJob


def numbers_wanted(input_bytes: int, table_size_bytes: int) -> int:
    """Four times what the input fills: it may be compressed, tables may end early."""
    return 4 + 4 * input_bytes // table_size_bytes


def job_storage(spec: JobSpec, stats: Stats) -> Storage:
    return Storage(stats, direct_reads=spec.direct_reads, file_mode=spec.file_mode)


def run_job(
    job: Job, storage: Storage, directory: str, is_cancelled: Callable[[], bool]
) -> list[TableMeta]:
    """Run a job; returns the tables in ``directory`` in key order, synced with it."""
    spec = job.spec
    if isinstance(job, FlushJob):
        return _write(spec, storage, _log_entries(storage, job), directory, is_cancelled)
    cache = BlockCache(0, storage.stats)
    runs = [[open_table(storage, spec.path, cache, meta) for meta in run] for run in job.runs]
    form = spec.format if job.may_copy else None
    erased = united(None, tuple(job.erased))
    batches = compact_tables(runs, spec.snapshots, spec.drop_deletions, form, spec.due_s, erased)
    return _write(spec, storage, batches, directory, is_cancelled)


def _write(
    spec: JobSpec,
    storage: Storage,
    batches: Iterator[EntryBatch | StoredBlocks],
    directory: str,
    is_cancelled: Callable[[], bool],
) -> list[TableMeta]:
    unused = iter(spec.numbers)

    def allocate() -> int:
        number = next(unused, None)
        if number is None:
            raise NumbersUsedUpError(f"{spec.number_count} table numbers are too few")
        return number

    tables = TableJob(
        storage,
        directory,
        spec.format,
        spec.table_size_bytes,
        allocate,
        is_cancelled,
        replaces=tuple(spec.replaces),
    )
    return write_tables(batches, tables)


def _log_entries(storage: Storage, job: FlushJob) -> Iterator[EntryBatch]:
    """The entries of a log, which must be exactly the memtable's."""
    path = log_path(job.spec.path, job.log_number)
    spec, snapshots = job.spec, job.spec.snapshots
    memtable = Memtable(job.first_seq, job.log_number)
    try:
        contents = read_log(storage, path, job.log_number, "log")
        if contents is None:
            raise LogUnusableError(f"{path} is cut short")
        end_seq = replay(contents, memtable, job.first_seq, snapshots[0] if snapshots else None)
    except (OSError, CorruptionError) as error:
        raise LogUnusableError(str(error)) from error
    found = (contents.end, end_seq)
    keys_differ = job.key_count is not None and len(memtable) != job.key_count
    if found != (job.log_bytes, job.end_seq) or keys_differ:
        raise LogUnusableError(f"{path} does not hold what the memtable holds")
    return flushed_batches(memtable.entry_batches(), snapshots, spec.drop_deletions, spec.due_s)
