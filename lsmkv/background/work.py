"""A flush or a compaction as data: a thread does it, or a helper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsmkv.background.process.jobs import CompactionJob, FlushJob, JobSpec
from lsmkv.compaction.merge import compact_tables, flushed_batches
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.range_deletes import RangeDelete, RangeDeletes
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks

if TYPE_CHECKING:
    from lsmkv.background.process.runner import JobRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Tables to write.

    Attributes:
        form: that of the new tables.
        snapshots: sequence numbers of live snapshots, ascending.
        drop_deletions: whether nothing older is left for a deletion to hide.
        due_s: by which time entries are due for every reader.
        input_bytes, entry_count: how much there is to do, at the most.
        replaces: numbers of the tables that the new ones replace.
    """

    form: TableFormat
    snapshots: list[int]
    drop_deletions: bool
    due_s: int
    input_bytes: int
    entry_count: int
    replaces: list[int]

    def batches(self) -> Iterator[EntryBatch | StoredBlocks]:
        """What the tables hold, for this process to write."""
        raise NotImplementedError

    def spec(self, runner: JobRunner) -> JobSpec:
        return runner.spec(
            self.form,
            self.snapshots,
            drop_deletions=self.drop_deletions,
            due_s=self.due_s,
            input_bytes=self.input_bytes,
            max_tables=self.entry_count,
            replaces=self.replaces,
        )

    def run_by(self, runner: JobRunner) -> list[TableMeta] | None:
        """Let a helper process do it; None: a thread must."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushWork(Work):
    """Write ``memtable``; ``end_seq`` is the sequence number after its last write."""

    memtable: Memtable
    end_seq: int

    def batches(self) -> Iterator[EntryBatch | StoredBlocks]:
        batches = self.memtable.entry_batches()
        return flushed_batches(batches, self.snapshots, self.drop_deletions, self.due_s)

    def run_by(self, runner: JobRunner) -> list[TableMeta] | None:
        memtable = self.memtable
        job = FlushJob(
            spec=self.spec(runner),
            log_number=memtable.log_number,
            log_bytes=self.input_bytes,
            first_seq=memtable.first_seq,
            end_seq=self.end_seq,
            key_count=None if memtable.batches else len(memtable),
        )
        return runner.run(job, self.entry_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWork(Work):
    """Merge the tables of some runs, newest run first; ``may_copy`` as in ``Compaction``.

    ``erased`` are the range deletes to apply.
    """

    runs: list[list[TableReader]]
    may_copy: bool
    erased: list[RangeDelete]

    def batches(self) -> Iterator[EntryBatch | StoredBlocks]:
        form = self.form if self.may_copy else None
        erased = RangeDeletes(tuple(self.erased)) if self.erased else None
        return compact_tables(
            self.runs, self.snapshots, self.drop_deletions, form, self.due_s, erased
        )

    def run_by(self, runner: JobRunner) -> list[TableMeta] | None:
        job = CompactionJob(
            spec=self.spec(runner),
            runs=[[table.meta for table in run] for run in self.runs],
            may_copy=self.may_copy,
            erased=self.erased,
        )
        return runner.run(job, self.entry_count)
