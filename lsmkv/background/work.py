"""A flush or a compaction as data: a thread does it, or a helper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsmkv.background.process import jobs
from lsmkv.compaction.merge import compact_tables, flushed_batches
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.range_deletes import RangeDelete, united
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks

if TYPE_CHECKING:
    from lsmkv.background.process.runner import JobRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Tables to write."""

    form: TableFormat  # that of the new tables
    snapshots: list[int]  # sequence numbers of live snapshots, ascending
    drop_deletions: bool  # whether nothing older is left for a deletion to hide
    due_s: int  # by which time entries are due for every reader
    # input_bytes, entry_count: how much there is to do, at the most.
    input_bytes: int
    entry_count: int
    replaces: list[int]  # numbers of the tables that the new ones replace

    def batches(self) -> Iterator[EntryBatch | StoredBlocks]:
        """What the tables hold, for this process to write."""
        raise NotImplementedError

    def job(self, spec: jobs.JobSpec) -> jobs.Job:
        """The same for a helper process."""
        raise NotImplementedError

    def run_by(self, runner: JobRunner) -> list[TableMeta] | None:
        """Let a helper process do it; None: a thread must."""
        tables = runner.tables
        options = tables.options
        count = min(
            self.entry_count, jobs.numbers_wanted(self.input_bytes, options.table_size_bytes)
        )
        spec = jobs.JobSpec(
            directory=os.fsencode(tables.directory),
            format=self.form,
            table_size_bytes=options.table_size_bytes,
            direct_reads=options.direct_reads,
            file_mode=options.file_mode,
            first_number=tables.manifest.allocate(count),
            number_count=count,
            snapshots=self.snapshots,
            drop_deletions=self.drop_deletions,
            due_s=self.due_s,
            replaces=[*self.replaces, *tables.unremoved],
        )
        return runner.run(self.job(spec), self.entry_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushWork(Work):
    """Write ``memtable``; ``end_seq`` is the sequence number after its last write."""

    memtable: Memtable
    end_seq: int

    def batches(self) -> Iterator[EntryBatch | StoredBlocks]:
        batches = self.memtable.entry_batches()
        return flushed_batches(batches, self.snapshots, self.drop_deletions, self.due_s)

    def job(self, spec: jobs.JobSpec) -> jobs.Job:
        memtable = self.memtable
        return jobs.FlushJob(
            spec=spec,
            log_number=memtable.log_number,
            log_bytes=self.input_bytes,
            first_seq=memtable.first_seq,
            end_seq=self.end_seq,
            key_count=None if memtable.batches else len(memtable),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWork(Work):
    """Merge the tables of some runs, newest run first; ``may_copy`` as in ``Compaction``."""

    runs: list[list[TableReader]]
    may_copy: bool
    erased: list[RangeDelete]

    def batches(self) -> Iterator[EntryBatch | StoredBlocks]:
        form = self.form if self.may_copy else None
        erased = united(None, tuple(self.erased))
        return compact_tables(
            self.runs, self.snapshots, self.drop_deletions, form, self.due_s, erased
        )

    def job(self, spec: jobs.JobSpec) -> jobs.Job:
        runs = [[table.meta for table in run] for run in self.runs]
        return jobs.CompactionJob(spec=spec, runs=runs, may_copy=self.may_copy, erased=self.erased)
