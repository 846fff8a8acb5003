"""Makes backups: copies of a store that later backups bring up to date.

The steps, of which only the last but one changes what the target opens as:

1. The source's tables are copied, unless they are there.  Writes that are only in the source's logs
   become tables of the target alone: a log, once there, would count for the present backup.
2. BACKUP is replaced, with the record of the present backup and of the next one.
3. A new manifest is written, and CURRENT replaced.
4. Files that only the previous backup needed are removed, tables with the oldest data first.

A table is known by its number, its length and its checksums.  The checksum of a whole file is that of
the copy, when it was made; the source's file is read again only if it is not the file of that time.
Tables made of logs have numbers that the source reaches only after a million more files.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from lsmkv.compaction.merge import flushed_batches
from lsmkv.compaction.picker import output_error_rate
from lsmkv.copies.contents import content_of, copy_table, install, source_path, with_empty_log
from lsmkv.copies.lineage import Previous, check_descends, previous_backup
from lsmkv.copies.record import Fingerprint, TableRecord, encode_records, new_record
from lsmkv.copies.target import Steps, check_new, check_outside, new_copy
from lsmkv.errors import CorruptionError
from lsmkv.inspection.report import Progress, Report, count
from lsmkv.inspection.table_check import UNREADABLE, open_uncached
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.storage.file_names import BACKUP, parse_file_name, table_path
from lsmkv.storage.storage import Storage
from lsmkv.storage.store_lock import holds_store, lock_store
from lsmkv.tree.capture import Capture
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import State, check_file_number, read_current
from lsmkv.tree.version_set import table_format

_AHEAD: Final = 1 << 20  # file numbers: the source gives out fewer between two backups


@dataclass(frozen=True, slots=True)
class BackupReport(Report):
    """The report of ``lsmkv.backup``.

    Attributes:
        source, target: the two directories.
        is_first: whether the target was empty.
        table_count, table_bytes: the tables of the backup.
        copied_count, copied_bytes: those that were not there yet.
        made_count: tables made of the writes that were only in the source's logs.
        removed_count: tables of the previous backup that were removed.
    """

    source: str
    target: str
    is_first: bool
    table_count: int
    table_bytes: int
    copied_count: int
    copied_bytes: int
    made_count: int
    removed_count: int

    def __str__(self) -> str:
        return (
            f"{self.target}: {count(self.table_count, 'table')} of {count(self.table_bytes, 'byte')}; "
            f"copied {self.copied_count:,} of {count(self.copied_bytes, 'byte')}, "
            f"made {self.made_count:,} of logs; removed {count(self.removed_count, 'old table')}"
        )


def back_up(
    storage: Storage,
    source: str,
    capture: Callable[[], Capture],
    target: str,
    options: Options,
    progress: Progress | None,
) -> BackupReport:
    """Make or renew the backup in ``target`` of the store in ``source``.  Raises as ``lsmkv.backup``."""
    check_outside(source, target)
    if not holds_store(storage, target):
        check_new(storage, target)
        with new_copy(storage, target, keep=True):
            return _Backup(storage, source, target, None, capture(), options, progress).run()
    previous_backup(storage, target)  # first: nothing is locked in another program's directory
    with lock_store(storage, target):
        previous = previous_backup(storage, target)
        captured = capture()
        check_descends(storage, captured, previous, source, target)
        return _Backup(storage, source, target, previous, captured, options, progress).run()


@dataclass
class _Backup:
    """One run, after all checks of the target."""

    storage: Storage
    source: str
    target: str
    previous: Previous | None
    capture: Capture
    options: Options
    progress: Progress | None
    copied: list[int] = field(default_factory=list)

    def run(self) -> BackupReport:
        tables = list(self.capture.state.levels.tables())
        steps = Steps(self.progress, sum(table.size_bytes for table in tables))
        records = [self._table(table, steps) for table in tables]
        made = tables_of_logs(self.storage, self.target, self.capture, self.options)
        for meta in [placed.meta for placed in made]:
            with self.storage.open_random(table_path(self.target, meta.number)) as file:
                content = content_of(file)
            record = TableRecord(meta.number, meta.size_bytes, meta.checksum, content, None)
            records.append(record)
        state = self._state(made)
        self._install(state, records)
        return BackupReport(
            source=self.source,
            target=self.target,
            is_first=self.previous is None,
            table_count=len(records),
            table_bytes=sum(record.size_bytes for record in records),
            copied_count=len(self.copied),
            copied_bytes=sum(self.copied),
            made_count=len(made),
            removed_count=self._remove_old(state),
        )

    def _state(self, made: list[PlacedTable]) -> State:
        """The new state of the target; its log, which stays empty, is made once."""
        present = self.capture.state
        # The source's logs may have numbers that its manifest does not know yet.  A restored copy must
        # not give them out again, to be known as a later state.
        numbers = [log.number for log in self.capture.logs]
        ranges = present.range_deletes
        for memtable in self.capture.memtables:
            ranges += memtable.range_deletes
        taken = max([highest_number(self.storage, self.target), *numbers])
        state = replace(
            present,
            levels=present.levels.changed(made, ()),
            range_deletes=ranges,
            next_file=max(present.next_file, taken + 1),
            last_seq=self.capture.last_seq,
        )
        if self.previous is None:
            return with_empty_log(self.storage, self.target, state)
        number, salt = self.previous.state.log_number, self.previous.log_salt
        closed = number, HEADER_BYTES
        return replace(state, log_number=number, closed_log=closed, closed_salt=salt)

    def _install(self, state: State, records: list[TableRecord]) -> None:
        earlier = [] if self.previous is None else [self.previous.record]
        self.storage.sync_directory(self.target)
        record = new_record(self.capture, records)
        records_path = os.path.join(self.target, BACKUP)
        self.storage.write_atomically(records_path, encode_records([*earlier, record]))
        store_id = "" if self.previous is None else self.previous.state.store_id
        install(self.storage, self.target, state, store_id)

    def _table(self, table: TableMeta, steps: Steps) -> TableRecord:
        """Have a table in the target, copied now or before."""
        original, path = None, source_path(self.capture, table.number)
        if path is not None:
            with contextlib.suppress(FileNotFoundError):  # a compaction has removed it
                original = self.storage.fingerprint(path)
        content = self._content_there(table, original)
        if content is None:
            path = table_path(self.target, table.number)
            content = copy_table(self.storage, self.capture.tables[table.number], path, steps)
            self.copied.append(table.size_bytes)
        else:
            steps.add(table.size_bytes)
        return TableRecord(table.number, table.size_bytes, table.checksum, content, original)

    def _content_there(self, table: TableMeta, original: Fingerprint | None) -> str | None:
        """The checksum of the table that the target has already; None if it is to be copied."""
        path = table_path(self.target, table.number)
        if not self.storage.exists(path):
            return None
        try:
            open_uncached(self.storage, path, table)  # checks its length, properties and index
        except UNREADABLE:
            return None
        known = None if self.previous is None else self.previous.tables.get(table.number)
        if known is not None and original is not None and known.original == original:
            return known.content
        content = content_of(self.capture.tables[table.number])
        if known is None:  # an earlier attempt has left it
            with self.storage.open_random(path) as file:
                return content if content_of(file) == content else None
        if known.content != content:
            reason = (
                "the backup's table has other bytes than the source's: one of the files is damaged, or "
                "the source went another way since; give another directory"
            )
            raise CorruptionError(path, None, reason, expected=known.content, got=content)
        return content

    def _remove_old(self, state: State) -> int:
        """Remove files that the new backup does not need; returns how many tables.

        What stays, the next backup removes.
        """
        names: list[str] = []
        with contextlib.suppress(OSError):
            manifest = read_current(self.storage, self.target)
            for name in self._unneeded(state, manifest):
                self.storage.remove(os.path.join(self.target, name))
                names.append(name)
            if names:
                self.storage.sync_directory(self.target)
        return sum(name.endswith(".sst") for name in names)

    def _unneeded(self, state: State, manifest: int) -> Iterator[str]:
        """Names of files, tables with the oldest data first: no old value may reappear."""
        needed = {("table", table.number) for table in state.levels.tables()}
        needed |= {("log", state.log_number), ("manifest", manifest)}
        age: dict[int, int] = {}
        if self.previous is not None:
            levels = self.previous.state.levels
            age = {table.number: at for at, table in enumerate(levels.tables())}
        found = [
            (parsed, name)
            for name in self.storage.list_directory(self.target)
            if (parsed := parse_file_name(name)) is not None and parsed not in needed
        ]
        found.sort(key=lambda item: -age.get(item[0][1], -1) if item[0][0] == "table" else 1)
        return (name for _, name in found)


def highest_number(storage: Storage, directory: str) -> int:
    """The highest file number in a directory; 0 without files."""
    parsed = filter(None, map(parse_file_name, storage.list_directory(directory)))
    return max((number for _, number in parsed), default=0)


def tables_of_logs(
    storage: Storage, target: str, capture: Capture, options: Options
) -> list[PlacedTable]:
    """Write each memtable as a run of level 0, oldest first; all is synced."""
    memtables = [memtable for memtable in capture.memtables if not memtable.is_empty]
    if not memtables:
        return []
    first = max(capture.state.next_file + _AHEAD, highest_number(storage, target) + 1)
    numbers = itertools.count(first)

    def allocate() -> int:
        number = next(numbers)
        check_file_number(number, target)
        return number

    made: list[PlacedTable] = []
    for memtable in memtables:
        count = memtable.key_count_bound
        rate = output_error_rate(capture.state.levels, (), count, options)
        job = TableJob(
            storage,
            target,
            table_format(options, rate, is_flush=True),
            options.table_size_bytes,
            allocate,
            lambda: False,
        )
        metas = write_tables(flushed_batches(memtable.entry_batches(), [], False), job)
        made += [PlacedTable(0, metas[0].number, meta) for meta in metas]
    return made
