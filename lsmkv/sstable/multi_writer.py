"""Writes sorted entries to as many tables as they need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.errors import Error
from lsmkv.sstable.filter_plan import FilterPlan
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.stored_blocks import StoredBlocks
from lsmkv.sstable.writer import TableWriter
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import Storage

_MAX_NOTED = 1 << 16  # numbers of tables; properties are at most 1 MiB


class CancelledError(Error):
    """The store is closing: the job stopped and removed the tables it had written."""


@dataclass(frozen=True, slots=True)
class TableJob:
    """Where and how a flush or compaction writes its tables.

    ``give_way`` is called with the number of entries written so far, and may sleep.  The written tables
    replace those of the numbers ``replaces``.  ``path_of`` a number is the path of the table; None: the
    one that it has in a store.  Without ``sync`` nothing is made durable.
    """

    storage: Storage
    directory: str
    form: TableFormat
    table_size_bytes: int
    allocate: Callable[[], int]
    is_cancelled: Callable[[], bool]
    give_way: Callable[[int], None] = lambda entries: None
    replaces: tuple[int, ...] = ()
    path_of: Callable[[int], str] | None = None
    sync: bool = True

    def path(self, number: int) -> str:
        if self.path_of is not None:
            return self.path_of(number)
        return table_path(self.directory, number)


def write_tables(batches: Iterator[EntryBatch | StoredBlocks], job: TableJob) -> list[TableMeta]:
    """Write batches and stored blocks in order to tables; sync files and directory.

    A new table starts only at a new key; all versions of a key are in one batch.  On any failure, also
    CancelledError, the tables written so far are removed.  This loop is interpreted on purpose: other
    threads may run between two batches.
    """

    process = os.getpid()
    plan = FilterPlan.unpacked(job.form.plan) if job.form.plan else None
    done: list[TableMeta] = []
    writer: TableWriter | None = None
    try:
        entries = 0
        for batch in batches:
            job.give_way(entries)
            entries += batch.entry_count if isinstance(batch, StoredBlocks) else batch.count
            if job.is_cancelled():
                raise CancelledError("the store is closing")
            at = 0
            while at < batch.count:
                if writer is None:
                    number = job.allocate()
                    form = job.form
                    if plan is not None:
                        assert isinstance(batch, EntryBatch)  # with a plan nothing is copied
                        form = replace(form, error_rate=plan.error_rate(batch.key(at)))
                    writer = TableWriter(job.storage, job.path(number), number, form)
                if isinstance(batch, StoredBlocks):
                    at = writer.copy(batch, at, job.table_size_bytes)
                else:
                    at = writer.add_from(batch, at, job.table_size_bytes)
                if at < batch.count:
                    done.append(writer.finish([], sync=job.sync))
                    if plan is not None:
                        plan.note_table(
                            done[-1].entry_count, writer.filter_bytes, writer.index_bytes
                        )
                    writer = None
        if writer is not None:  # only the last table says what all of them replace
            done.append(writer.finish(*_note(job.replaces, done), sync=job.sync))
        if done and job.sync:
            job.storage.sync_directory(job.directory)
    except BaseException:
        with contextlib.suppress(OSError):  # the next open removes leftovers
            if os.getpid() == process:  # the child of a fork leaves them to its parent
                if writer is not None:
                    writer.abandon()
                for table in done:
                    job.storage.remove(job.path(table.number))
        raise
    return done


def _note(replaces: tuple[int, ...], before: list[TableMeta]) -> tuple[list[int] | None, list[int]]:
    """The lineage recorded in the last table: tables replaced, and tables written ``before`` it."""
    if len(replaces) + len(before) > _MAX_NOTED:
        return None, []
    return list(replaces), [table.number for table in before] if replaces else []


def remove_tables(storage: Storage, directory: str, tables: Iterable[TableMeta]) -> None:
    for table in tables:
        storage.remove(table_path(directory, table.number))
