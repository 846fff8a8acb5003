"""Rebuilds a store from its readable tables and logs.

A readable manifest names the tables that count, and their levels.  Without one, every table file
counts, ordered by sequence numbers (:mod:`lsmkv.salvage.order`).  Whole tables are kept as they are;
the whole blocks of damaged ones, and the logs, become new tables.  The originals are never changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lsmkv.encoding.entry_batch import Entry, batches_of
from lsmkv.encoding.range_deletes import RangeDelete, united
from lsmkv.errors import NotAStoreError
from lsmkv.inspection.report import Progress
from lsmkv.inspection.table_check import open_uncached
from lsmkv.log.writer import LogWriter
from lsmkv.options import Options
from lsmkv.salvage.damaged_table import holds_whole_block
from lsmkv.salvage.logs import SalvagedLogs
from lsmkv.salvage.order import SortableEntry, newest_versions, stack, table_entries, tangled_groups
from lsmkv.salvage.report import LOST_FOLDER, RepairReport
from lsmkv.salvage.state import FoundState, find_state, live_tables
from lsmkv.salvage.tables import RescuedTable, TableRescue
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.storage.file_names import CURRENT, ERASED, LOCK, log_path, parse_file_name, table_path
from lsmkv.storage.storage import FileLock, ReadKind, Storage, absolute_path
from lsmkv.storage.store_lock import lock_store
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import (
    EMPTY_STATE,
    Manifest,
    State,
    VersionEdit,
    check_file_number,
    no_store,
)
from lsmkv.tree.ownership import IS_A_FILE, check_is_ours, is_free, other_program

_COPY_BYTES: Final = 1 << 20


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RepairReport:
    """Rebuild a store from its readable tables and logs.

    It keeps the whole blocks of a damaged table, and the records of a log before its first damage.
    Later records and later logs are left out, even whole ones: a store with them would lack the writes
    between.

    Args:
        path: the damaged store; it must not be open.
        output: directory for the repaired store, absent or empty, and not inside the damaged one, which
            stays as it is.
        in_place: repair in the same directory instead.  Files that are no part of the repaired store
            are moved to the folder ``lost`` in it; nothing is deleted.
        progress: called with the bytes of table files read so far, and the bytes in all.

    Raises:
        ValueError: not exactly one of ``output`` and ``in_place`` is given, or ``output`` is the
            damaged store's directory or inside it.
        NotAStoreError: no file of a store is at ``path``, or the files are another program's.  Nothing
            was written.
        FileExistsError: ``output`` is not empty.
        LockedError: the store is open for writing.
        UnsupportedFormatError: a file is in a format of another release: repair with that one.
        OSError: ``path`` is a file, the repaired store cannot be written, or ``lost`` is a link or a
            file.  Repair in place has changed nothing then.

    It reads every byte twice, or three times where tables are merged.  Memory holds the operations of
    the logs and one table's filters.

    >>> import lsmkv, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, output = os.path.join(folder, "store"), os.path.join(folder, "repaired")
    ...     with lsmkv.open(store) as db:
    ...         db[b"fox"] = b"red"
    ...     os.remove(os.path.join(store, "CURRENT"))
    ...     report = lsmkv.repair(store, output)
    ...     with lsmkv.open(output) as db:
    ...         report.is_complete, db[b"fox"]
    (True, b'red')
    """
    if (output is None) != in_place:
        raise ValueError("give either output or in_place=True")
    storage = Storage()
    source = absolute_path(path)
    target = source if output is None else absolute_path(output, "output")
    _check_source(storage, source)
    if in_place:
        _check_lost_folder(source)
    else:
        _check_target(storage, source, target)
    with contextlib.ExitStack() as stack_of_locks:
        stack_of_locks.enter_context(_lock_source(storage, source, is_read_only=target != source))
        if target != source:
            storage.make_directory(target)
            storage.sync_name(target)  # whoever made it may have failed before
            stack_of_locks.enter_context(storage.lock(os.path.join(target, LOCK)))
            _check_free(storage, target)  # again: another process may have been faster
        return _Repair(storage, source, target, progress).run()


def _check_source(storage: Storage, source: str) -> None:
    """Refuse a directory without a file of a store of ours."""
    try:
        names = storage.list_directory(source)
    except FileNotFoundError:
        raise no_store(storage, source) from None
    except NotADirectoryError as error:
        raise NotADirectoryError(error.errno, IS_A_FILE, source) from None
    parsed = list(filter(None, map(parse_file_name, names)))
    if CURRENT not in names and not parsed:
        raise NotAStoreError(f"{source} holds no file of an lsmkv store")
    try:
        check_is_ours(storage, source)
    except NotAStoreError:
        numbers = [number for kind, number in parsed if kind == "table"]
        if other_program(storage, source, names) or not any(
            holds_whole_block(storage, source, number) for number in numbers
        ):
            raise


def _check_target(storage: Storage, source: str, target: str) -> None:
    """Refuse an output that is not empty, or not outside the store."""
    parent = os.path.realpath(target)
    while True:
        with contextlib.suppress(FileNotFoundError):  # ``output`` need not exist yet
            if os.path.samefile(parent, source):
                raise ValueError(
                    f"output={target!r} is the damaged store's own directory, or inside it; "
                    "give another directory, or in_place=True instead"
                )
        if parent == os.path.dirname(parent):
            break
        parent = os.path.dirname(parent)
    if storage.exists(target):
        _check_free(storage, target)


def _check_free(storage: Storage, target: str) -> None:
    if not is_free(storage, target):
        raise FileExistsError(errno.EEXIST, "it is not empty; give a directory that is", target)


def _check_lost_folder(source: str) -> None:
    folder = os.path.join(source, LOST_FOLDER)
    if os.path.islink(folder):
        raise OSError(errno.ELOOP, "is a symbolic link; none is followed", folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, "is not a directory; move it away", folder)


def _lock_source(
    storage: Storage, source: str, *, is_read_only: bool
) -> FileLock | contextlib.nullcontext[None]:
    """The lock of the damaged store; a read-only file system needs none."""
    try:
        return lock_store(storage, source)
    except OSError as error:
        if is_read_only and error.errno == errno.EROFS:
            return contextlib.nullcontext()
        raise


class _Repair:
    def __init__(
        self, storage: Storage, source: str, target: str, progress: Progress | None
    ) -> None:
        self._storage = storage
        self._source = source
        self._target = target
        self._progress = progress
        self._originals = storage.list_directory(source)
        self._numbers: dict[str, list[int]] = {"table": [], "log": [], "manifest": []}
        highest = 0
        for kind, number in filter(None, map(parse_file_name, self._originals)):
            self._numbers.setdefault(kind, []).append(number)
            highest = max(highest, number)
        self._next = highest + 1
        self._created: list[str] = []
        self._uncertain: list[int] = []
        self._ranges: list[RangeDelete] = []
        self._used = 0
        self._merged = self._done_bytes = self._all_bytes = 0
        self._rescue = TableRescue(storage, source, target, self._allocate, self._advance)

    def run(self) -> RepairReport:
        try:
            found = find_state(self._storage, self._source, self._numbers)
            numbers = self._numbers["log"]
            logs = SalvagedLogs(self._storage, self._source, numbers, found.state)
            kept = (found.range_deletes or []) if found.state is None else found.state.range_deletes
            self._ranges = [*dict.fromkeys([*kept, *logs.range_deletes])]
            self._rescue.newest_range = max([seq for _, _, seq in self._ranges], default=0)
            placed = self._gather(found.state, found.outdated, logs)
            new_state = self._prepare(placed, found.state, logs)
        except BaseException:
            with contextlib.suppress(OSError):
                for path in self._created + self._rescue.created:
                    self._storage.remove(path)
            raise
        moved = self._install(new_state)
        return self._report(found, logs, moved)

    def _allocate(self) -> int:
        number = self._next
        check_file_number(number, self._source)
        self._next += 1
        return number

    def _advance(self, size: int) -> None:
        self._done_bytes += size
        if self._progress is not None:
            self._progress(min(self._done_bytes, self._all_bytes), self._all_bytes)

    # What is kept

    def _gather(
        self, state: State | None, outdated: State | None, logs: SalvagedLogs
    ) -> list[PlacedTable]:
        """Put tables into the target; ``outdated`` tells only what is lost."""
        if state is None:
            present = self._numbers["table"]
            live, self._uncertain, replaced = live_tables(
                self._storage, self._source, present, are_staged="staged" in self._numbers
            )
            wanted: list[tuple[int, TableMeta | None]] = [(number, None) for number in live]
            named = [] if outdated is None else outdated.levels.tables()
            explained = replaced.union(present)
            wanted += [(meta.number, meta) for meta in named if meta.number not in explained]
        else:
            wanted = [(table.number, table) for table in state.levels.tables()]
        for number, _ in wanted:
            with contextlib.suppress(OSError):
                self._all_bytes += self._storage.file_size(table_path(self._source, number))
        self._used = len({number for number, _ in wanted}.intersection(self._numbers["table"]))
        rescued: dict[int, RescuedTable] = {}
        for number, expected in wanted:
            table = self._rescue.take(number, expected)
            if table is not None:
                rescued[number] = table
        if outdated is not None and outdated.closed_log is not None:
            number, end = outdated.closed_log
            newest = max(self._numbers["table"] + self._numbers["log"], default=0)
            if number not in self._numbers["log"] and newest < outdated.next_file:
                logs.lost_bytes += end  # nothing came after it
        logged = self._write((key, *logs.newest[key]) for key in sorted(logs.newest))
        if state is None:
            return self._placed_by_sequence([*rescued.values(), *logged])
        runs = [placed.run for placed in state.levels.placed() if placed.level == 0]
        newest = max([self._next, *(run + 1 for run in runs)])
        placed_tables = [PlacedTable(0, newest, table.meta) for table in logged]
        for placed in state.levels.placed():
            found = rescued.get(placed.meta.number)
            if found is not None:
                self._copy(found)
                placed_tables.append(PlacedTable(placed.level, placed.run, found.meta))
        return placed_tables

    def _write(self, entries: Iterator[Entry], erased_seq: int = 0) -> list[RescuedTable]:
        """Write tables in the format of those that were rescued."""
        size = Options().table_size_bytes
        form = replace(self._rescue.form, erased_seq=erased_seq)
        job = TableJob(self._storage, self._target, form, size, self._allocate, lambda: False)
        metas = write_tables(batches_of(entries), job)
        tables = [
            RescuedTable(meta, table_path(self._target, meta.number), False) for meta in metas
        ]
        self._created += [table.path for table in tables]
        return tables

    def _placed_by_sequence(self, rescued: list[RescuedTable]) -> list[PlacedTable]:
        """All tables as runs of level 0, ordered by sequence numbers."""
        by_number = {table.meta.number: table for table in rescued}
        metas: list[TableMeta] = []
        for group in tangled_groups([table.meta for table in rescued]):
            if len(group) == 1:
                self._copy(by_number[group[0].number])
                metas += group
            else:
                metas += self._merge([by_number[meta.number] for meta in group])
        runs = stack(metas)
        return [
            PlacedTable(0, len(runs) - depth, meta)
            for depth, run in enumerate(runs)
            for meta in run
        ]

    def _merge(self, tables: list[RescuedTable]) -> list[TableMeta]:
        self._merged += len(tables)
        paths = {table.meta.number: table.path for table in tables}
        erased = united(None, tuple(self._ranges))
        erased_seq = max([self._rescue.newest_range, *(table.meta.erased_seq for table in tables)])
        sources: list[Iterator[SortableEntry]] = [
            (
                entry
                for meta in run
                for entry in table_entries(
                    open_uncached(self._storage, paths[meta.number], meta, shared=True), erased
                )
            )
            for run in stack([table.meta for table in tables])
        ]
        merged = self._write(newest_versions(sources), erased_seq)
        for table in tables:
            if not table.is_original:
                self._storage.remove(table.path)
        return [table.meta for table in merged]

    def _copy(self, table: RescuedTable) -> None:
        """Copy an original to the target, unless it is repaired in place."""
        path = table_path(self._target, table.meta.number)
        if path == table.path:
            return
        self._created.append(path)
        with self._storage.open_random(table.path) as old, self._storage.create(path) as new:
            for offset in range(0, old.size, _COPY_BYTES):
                length = min(_COPY_BYTES, old.size - offset)
                new.append(old.pread(offset, length, ReadKind.COMPACTION))
            new.sync()

    # The repaired store

    def _prepare(self, placed: list[PlacedTable], state: State | None, logs: SalvagedLogs) -> State:
        """Write the new log, one more at the end of the chain; all but the manifest is on disk then."""
        log_number = self._allocate()
        path = log_path(self._target, log_number)
        self._created.append(path)
        previous = (self._target == self._source and logs.last_log) or (0, 0)
        LogWriter.create(self._storage, path, log_number, "log", previous=previous).close()
        self._storage.sync_directory(self._target)
        last_seq = max(
            logs.last_seq,
            0 if state is None else state.last_seq,
            self._rescue.newest_range,
            *(table.meta.newest_seq for table in placed),
        )
        edit = VersionEdit(
            added=placed,
            next_file=self._next,
            last_seq=last_seq,
            log_number=log_number,
            range_deletes_added=self._ranges,
            # A copy is a store of its own.
            store_id=state.store_id if state and self._target == self._source else None,
        )
        return EMPTY_STATE.changed(edit)

    def _install(self, state: State) -> list[str]:
        """Switch to the new manifest; in place, move the other files to ``lost``."""
        linked: list[tuple[str, str]] = []
        if self._target == self._source:
            kept = {f"{table.number:06}.sst" for table in state.levels.tables()}
            ours = filter(parse_file_name, self._originals)
            linked = self._link([name for name in ours if name not in kept])
        manifest = Manifest(self._storage, self._target, state)
        manifest.rewrite()
        manifest.close()
        for name, moved in linked:
            original = os.path.join(self._source, name)
            if self._storage.exists(moved):
                self._storage.remove(original)
            else:
                self._storage.replace(original, moved)
        if linked:
            self._storage.sync_directory(os.path.join(self._source, LOST_FOLDER))
            self._storage.sync_directory(self._source)
        return [name for name, _ in linked]

    def _link(self, names: list[str]) -> list[tuple[str, str]]:
        """Give files a second name in the folder of lost ones; returns names and paths there."""
        folder = os.path.join(self._source, LOST_FOLDER)
        _check_lost_folder(self._source)  # again: it may have changed since
        self._storage.make_directory(folder)
        linked: list[tuple[str, str]] = []
        for name in {CURRENT, ERASED}.intersection(self._originals):  # they will be replaced
            with contextlib.suppress(OSError):
                self._storage.link(os.path.join(self._source, name), self._free_name(folder, name))
        for name in names:
            moved = self._free_name(folder, name)
            with contextlib.suppress(OSError):
                self._storage.link(os.path.join(self._source, name), moved)
            linked.append((name, moved))
        self._storage.sync_directory(folder)
        return linked

    def _free_name(self, folder: str, name: str) -> str:
        path = os.path.join(folder, name)
        count = 0
        while self._storage.exists(path):
            count += 1
            path = os.path.join(folder, f"{name}.{count}")
        return path

    def _report(self, found: FoundState, logs: SalvagedLogs, moved: list[str]) -> RepairReport:
        rescue = self._rescue
        return RepairReport(
            path=self._source,
            output=self._target,
            manifest=found.manifest,
            tables_kept=rescue.kept,
            tables_salvaged=rescue.salvaged,
            tables_lost=rescue.lost,
            tables_merged=self._merged,
            tables_ignored=len(self._numbers["table"]) - self._used,
            tables_uncertain=tuple(self._uncertain),
            blocks_kept=rescue.blocks_kept,
            blocks_lost=rescue.blocks_lost,
            entries_kept=rescue.entries_kept,
            entries_lost=rescue.entries_lost,
            log_records_kept=logs.record_count,
            log_operations_kept=logs.operation_count,
            log_bytes_lost=logs.lost_bytes,
            range_deletes_lost=found.range_deletes is None,
            lost_ranges=tuple(rescue.lost_ranges),
            problems=(*found.problems, *rescue.problems, *logs.problems),
            notes=tuple(found.notes),
            moved=tuple(moved),
        )
