"""The flusher: turns the oldest waiting memtable into tables of a new run on level 0."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lsmkv.background.background_thread import BackgroundThread, Shared
from lsmkv.background.compactor import Compactor
from lsmkv.background.events import FlushEnded
from lsmkv.background.malloc_trim import trim_heap
from lsmkv.background.work import FlushWork, Work
from lsmkv.compaction import budget
from lsmkv.compaction.picker import output_error_rate
from lsmkv.memtable.memtable import Memtable
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import VersionEdit
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import table_format

if TYPE_CHECKING:
    from lsmkv.background.process.runner import JobRunner

_SORTING_DIVISOR: Final = 4  # sorting a memtable takes about a quarter of the time of writing it


class Flusher(BackgroundThread):
    def __init__(self, shared: Shared, compactor: Compactor) -> None:
        super().__init__("lsmkv-flush", shared)
        self._compactor = compactor

    def run_once(self) -> bool:
        """Flush the oldest memtable that waits; False when none does."""
        store = self.store
        current = store.super_version
        if current is None or not current.flushing or self.is_stopping() or not store.may_flush():
            return False
        memtable = current.flushing[-1]
        newer = current.flushing[-2] if len(current.flushing) > 1 else current.memtable
        started = time.perf_counter()
        tables: list[TableMeta] = []
        if not memtable.is_empty:
            levels = current.version.levels
            form = self._format(current.version, memtable)
            # An empty tree stays empty meanwhile, since only flushes add tables.  Deletions must stay
            # where old files could not be removed: they hide the old entries from a repair.
            nothing_older = levels.deepest < 0 and not self.tables.unremoved
            tables = self._write_memtable(memtable, newer.first_seq, form, nothing_older)
        run = tables[0].number if tables else 0
        edit = VersionEdit(
            added=[PlacedTable(0, run, meta) for meta in tables],
            last_seq=newer.first_seq - 1,
            log_number=newer.log_number,
            range_deletes_added=[*memtable.range_deletes],
        )
        written = sum(meta.size_bytes for meta in tables)
        store.stats.flushes += 1  # before a thread that waits for the flush can see it done
        store.stats.flush_bytes += written
        duration_s = time.perf_counter() - started
        store.stats.flush_us.add(duration_s * 1e6)
        self.tables.install(edit, lambda version: store.publish(version, memtable))
        self.shared.logs.remove(memtable.log_number)
        self._compactor.worker.wake()
        trim_heap()
        entries = sum(meta.entry_count for meta in tables)
        ended = FlushEnded(store.directory, len(tables), entries, written, duration_s)
        store.events.note(ended)
        store.events.tell()
        return True

    def _format(self, version: Version, memtable: Memtable) -> TableFormat:
        options, count = self.tables.options, memtable.key_count_bound
        if options.filter_memory_bytes:
            planned = budget.of_new_tables(self.tables, version, count, memtable.log_bytes)
            form = table_format(options, options.error_rate, is_flush=True)
            return replace(form, plan=planned.plan)
        rate = output_error_rate(version.levels, (), count, options)
        return table_format(options, rate, is_flush=True)

    def _write_memtable(
        self, memtable: Memtable, end_seq: int, form: TableFormat, drop_deletions: bool
    ) -> list[TableMeta]:
        """Write the tables; ``drop_deletions``: the store has no older data."""
        work = FlushWork(
            form=form,
            snapshots=self.store.snapshots.sequence_numbers(),
            drop_deletions=drop_deletions,
            due_s=self.store.drop_due(),
            input_bytes=memtable.log_bytes,
            entry_count=memtable.key_count_bound,
            replaces=[],
            memtable=memtable,
            end_seq=end_seq,
        )
        return self.do(work, self.runner_for(work.input_bytes), self.is_stopping)

    def set_pace(self, work: Work) -> None:
        sorting = work.entry_count // _SORTING_DIVISOR
        self.start(
            total=sorting + work.entry_count,
            first=sorting,
            allowance_bytes=self.store.options.write_buffer_size_bytes // 2,
        )
        self.give_way(0)

    def may_be_helped(self) -> bool:
        """Not after a failure: the log may be what failed, and only memory surely holds all writes."""
        return self.store.may_compact()

    def runner_for(self, input_bytes: int) -> JobRunner | None:
        """As for compactions; but what may run in a thread does, where the memtable is."""
        return super().runner_for(input_bytes) if self.find_runner is None else None

    def is_urgent(self) -> bool:
        current = self.store.super_version
        return super().is_urgent() or current is None or len(current.flushing) > 1
