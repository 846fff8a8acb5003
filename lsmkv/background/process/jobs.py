"""Flushes and compactions as data, to be run anywhere that sees the store's directory.

A job reads finished files and writes tables, under numbers that were set aside for it; it changes
nothing else.  Whoever gave it out records the tables.  :func:`run_job` is all there is to running
one, so that any executor can: it opens its own readers, and leaves nothing behind when it fails.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec

from lsmkv.compaction.merge import flushed_batches, merge_tables
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.errors import CorruptionError, Error
from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.log.reader import read_log
from lsmkv.log.replay import replay
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableFormat
from lsmkv.stats import Stats
from lsmkv.storage.file_names import log_path, parse_file_name, table_path
from lsmkv.storage.storage import Storage


class NumbersUsedUpError(Error):
    """The job needs more table numbers than it was given; it has removed what it had written."""


class LogUnusableError(Error):
    """The log of a flush cannot be read, or does not hold what the memtable holds."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a job writes its tables, and what they must still show.

    Attributes:
        directory: the store's, as the file system knows it.
        first_number, number_count: table numbers that nobody else uses.
        snapshots: sequence numbers of live snapshots, ascending.
        replaces: numbers of the tables whose place those of the job take.
        filter_key: its text form (:meth:`~lsmkv.filters.keys.FilterKey.to_spec`).

    The others are those of :class:`~lsmkv.options.Options`; the error rate is the one for these
    tables.
    """

    directory: bytes
    first_number: int
    number_count: int
    snapshots: list[int]
    error_rate: float
    block_size_bytes: int
    compression: str
    compression_level: int
    compression_dictionary_size_bytes: int
    filter_key: str
    filter_granularity: str
    filter_policy: str
    table_size_bytes: int
    direct_reads: bool
    file_mode: int
    replaces: list[int] = []

    @classmethod
    def of(
        cls,
        directory: str,
        options: Options,
        error_rate: float,
        snapshots: list[int],
        numbers: range,
        replaces: Sequence[int] = (),
    ) -> JobSpec:
        """The order for a store with these options."""
        return cls(
            directory=os.fsencode(directory),
            first_number=numbers.start,
            number_count=len(numbers),
            snapshots=snapshots,
            error_rate=error_rate,
            block_size_bytes=options.block_size_bytes,
            compression=options.compression,
            compression_level=options.compression_level,
            compression_dictionary_size_bytes=options.compression_dictionary_size_bytes,
            filter_key=options.filter_key.to_spec(),
            filter_granularity=options.filter_granularity,
            filter_policy=options.filter_policy,
            table_size_bytes=options.table_size_bytes,
            direct_reads=options.direct_reads,
            file_mode=options.file_mode,
            replaces=list(replaces),
        )

    @property
    def path(self) -> str:
        """The store's directory."""
        return os.fsdecode(self.directory)

    @property
    def numbers(self) -> range:
        """The table numbers set aside."""
        return range(self.first_number, self.first_number + self.number_count)


class FlushJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write what a finished log holds to tables.

    Attributes:
        log_number, log_bytes: the log, and where its last record ends.
        first_seq, end_seq: sequence number of its first write, and the one after its last.
        key_count: how many keys it names; None when the memtable has not counted them.
        drop_deletions: nothing older than the log's writes exists.
    """

    order: JobSpec
    log_number: int
    log_bytes: int
    first_seq: int
    end_seq: int
    key_count: int | None
    drop_deletions: bool


class CompactionJob(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Merge tables: the inputs of a :class:`~lsmkv.compaction.picker.Compaction`, newest run first."""

    order: JobSpec
    runs: list[list[TableMeta]]
    drop_deletions: bool


Job = FlushJob | CompactionJob


def numbers_wanted(input_bytes: int, table_size_bytes: int) -> int:
    """Table numbers to set aside for a job: four times those its input would fill.

    (What was compressed may now be stored plain, and a table may end early.)
    """
    return 4 + 4 * input_bytes // table_size_bytes


def run_job(
    job: Job, stats: Stats, is_cancelled: Callable[[], bool] = lambda: False
) -> list[TableMeta]:
    """Run one job.

    Args:
        stats: to count in.
        is_cancelled: asked every few entries.

    Returns:
        The tables that it wrote, in key order; they are synced, and so is the directory.

    Raises:
        LogUnusableError: the log of a flush does not hold what it should.
        NumbersUsedUpError: more tables came out than numbers were set aside.
        CancelledError: it was cancelled.
        CorruptionError, UnsupportedFormatError: an input is damaged, or cannot be read here.
        OSError: an input cannot be read, or a table not be written.
    """
    order = job.order
    storage = Storage(stats, direct_reads=order.direct_reads, file_mode=order.file_mode)
    if isinstance(job, FlushJob):
        versions = _log_versions(storage, job)
    else:
        cache = BlockCache(0, stats)
        runs = [[_open(storage, order.path, cache, meta) for meta in run] for run in job.runs]
        versions = merge_tables(runs, order.snapshots, job.drop_deletions)
    return write_tables(versions, _table_job(storage, order, is_cancelled))


def _log_versions(storage: Storage, job: FlushJob) -> Iterator[EntryBatch]:
    """What tables must hold of a log.

    The log is checked against what the memtable is known to hold, key for key and write for write,
    because it is removed afterwards.
    """
    path = log_path(job.order.path, job.log_number)
    snapshots = job.order.snapshots
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
    return flushed_batches(memtable.entry_batches(), snapshots, job.drop_deletions)


def _open(storage: Storage, directory: str, cache: BlockCache, meta: TableMeta) -> TableReader:
    path = table_path(directory, meta.number)
    try:
        return TableReader(storage, path, cache, meta=meta, filter_residency="off")
    except FileNotFoundError as error:
        reason = "a table that the manifest names is missing"
        raise CorruptionError(path, None, reason) from error


def _table_job(storage: Storage, order: JobSpec, is_cancelled: Callable[[], bool]) -> TableJob:
    unused = iter(order.numbers)

    def allocate() -> int:
        number = next(unused, None)
        if number is None:
            raise NumbersUsedUpError(f"{order.number_count} table numbers are too few")
        return number

    form = TableFormat(
        order.block_size_bytes,
        order.compression,
        order.compression_level,
        order.compression_dictionary_size_bytes,
        filter_key_from_spec(order.filter_key),
        order.filter_granularity,
        order.filter_policy,
        order.error_rate,
    )
    return TableJob(
        storage,
        order.path,
        form,
        order.table_size_bytes,
        allocate,
        is_cancelled,
        replaces=tuple(order.replaces),
    )


def remove_unfinished(storage: Storage, order: JobSpec) -> None:
    """Remove the tables of a job whose process ended in the middle of it.

    What cannot be removed is left to the next open.
    """
    numbers = order.numbers
    with contextlib.suppress(OSError):
        for name in storage.list_directory(order.path):
            parsed = parse_file_name(name)
            if parsed is not None and parsed[0] == "table" and parsed[1] in numbers:
                storage.remove(os.path.join(order.path, name))
