"""The version set: the manifest, and the readers of its tables."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from lsmkv.encoding.range_deletes import RangeDelete, united
from lsmkv.filters.policy import FilterPolicy, chosen_policy
from lsmkv.log.reader import LogReader
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.multi_writer import TableJob, remove_tables
from lsmkv.sstable.read_around import Eviction
from lsmkv.sstable.reader import TableReader, open_table
from lsmkv.storage.file_names import parse_file_name, table_path
from lsmkv.storage.memory_limit import usable_memory_bytes
from lsmkv.storage.open_files import OpenFiles, SharedFile
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import MOST_ASKS, Asks, Manifest, State, VersionEdit
from lsmkv.tree.version import Version


class VersionSet:
    """The manifest and the open tables of a store.  Each change makes a :class:`Version`."""

    def __init__(
        self, storage: Storage, directory: str, options: Options, cache: BlockCache
    ) -> None:
        self.lock = threading.Lock()  # held during a change; taken before the mutex, never after
        self.storage = storage
        self.directory = directory
        self.options = options
        if options.max_open_files:
            storage.shared_files = OpenFiles(options.max_open_files)
        self._cache = cache
        self._readers: dict[int, TableReader] = {}
        self._eviction = Eviction()
        self._doubtful: list[TableMeta] = []  # added by edits that may or may not be on disk
        # Numbers of tables that left the tree, but whose files could not be removed, or are still read
        # and too many to be kept open.
        self.unremoved: list[int] = []
        self._still_read: dict[int, int] = {}  # of ``unremoved``: numbers of shared files
        self._manifest: Manifest | None = None
        self.store_id = ""  # of the store that was read last; a published one has none
        self.prepare: Callable[[Version], None] = lambda version: None  # of each, before readers

    def check_place(self) -> None:
        """Raise StoreReplacedError if another store took the place of this one."""
        self.storage.check_place(self.directory)

    @property
    def is_in_doubt(self) -> bool:
        """Whether an edit may be on disk or not; ``mend_manifest`` ends that."""
        return bool(self._doubtful)

    @property
    def manifest(self) -> Manifest:
        assert self._manifest is not None, "a read-only store changes no manifest"
        return self._manifest

    def start_manifest(
        self, state: State, names: list[str], untouched: LogReader | None = None
    ) -> None:
        """Continue from ``state``, with file numbers above all ``names`` in the directory.

        ``untouched`` is the manifest of a store that was closed properly; None starts a fresh one.
        """
        highest = max(
            (number for _, number in filter(None, map(parse_file_name, names))), default=0
        )
        state = replace(state, next_file=max(state.next_file, highest + 1))
        if untouched is not None:
            self._manifest = Manifest(self.storage, self.directory, state)
            self._manifest.resume(untouched)
        else:
            state = replace(state, closed_log=None, closed_salt=None)
            self._manifest = Manifest(self.storage, self.directory, state)
            self._manifest.rewrite()
        self.store_id = self._manifest.state.store_id

    def open_version(self, levels: Levels, ranges: tuple[RangeDelete, ...]) -> Version:
        """The version of ``levels`` and range deletes; readers of all other tables are forgotten."""
        around = self._may_read_around(levels)
        readers = {
            meta.number: self._reader_of(meta) or self._open(meta, around)
            for meta in levels.tables()
        }
        before, self._readers = self._readers, readers
        for number, reader in before.items():
            if readers.get(number) is not reader:
                reader.leave_cache()
        return Version(levels, readers, united(None, ranges))

    def forget_replaced(self, *, all_are: bool = False) -> None:
        """Forget the readers of files that are no longer at their paths; or all."""
        for number, reader in list(self._readers.items()):
            if all_are or not self.storage.is_at(reader.path, reader.file):
                del self._readers[number]
                reader.leave_cache()

    def _reader_of(self, meta: TableMeta) -> TableReader | None:
        """The open reader of this table, not of another with its number."""
        reader = self._readers.get(meta.number)
        return reader if reader is not None and reader.meta == meta else None

    def _may_read_around(self, levels: Levels) -> bool:
        """Whether memory has room for all tables twice."""
        size_bytes = sum([table.size_bytes for table in levels.tables()])
        return self.options.read_around and 2 * size_bytes <= usable_memory_bytes()

    def _open(self, meta: TableMeta, read_around: bool) -> TableReader:
        options = self.options
        return open_table(
            self.storage,
            self.directory,
            self._cache,
            meta,
            options.filter_residency,
            read_around,
            options.adaptive_filters,
            self._eviction,
        )

    def asks_of(self, table: TableReader) -> Asks:
        """How often absent keys were asked of a table: what the manifest has, and since then."""
        absent, lookups = self.manifest.state.asks.get(table.meta.number, (0, 0))
        now = self.storage.stats.gets
        absent += int(table.asks.absent)
        return min(absent, MOST_ASKS), min(lookups + now - table.asks.lookups_before, MOST_ASKS)

    def all_asks(self) -> dict[int, Asks]:
        """Those of every table, to be kept; none without a budget for filters."""
        if not self.options.filter_memory_bytes:
            return {}
        found = {number: self.asks_of(table) for number, table in self._readers.items()}
        return {number: asks for number, asks in found.items() if asks[1]}

    def readers(self, tables: tuple[TableMeta, ...]) -> list[TableReader]:
        return [self._readers[meta.number] for meta in tables]

    def install(self, edit: VersionEdit, publish: Callable[[Version], None]) -> None:
        """Commit ``edit``: open its tables, record it durably, publish the new version.

        The files of tables that left the tree are removed at once: a repair without a manifest must not
        take them for live tables.  Older versions may still read them: those are kept open, or, if they
        are too many, removed by a later change.  When a new table cannot be opened, all new ones are
        removed.  When the edit cannot be recorded they stay, because the record may be on disk.
        """
        with self.lock:
            self.check_place()
            metas = [placed.meta for placed in edit.added]
            fresh = [meta for meta in metas if meta.number not in self._readers]
            opened: dict[int, TableReader] = {}
            try:
                around = self._may_read_around(self.manifest.state.levels)
                for meta in fresh:
                    opened[meta.number] = self._open(meta, around)
                # Load now, while no lookup waits; without filters if there are no lookups, or while the
                # old tables have theirs in memory.
                has_lookups = self.storage.stats.gets > 0
                for reader in opened.values():
                    reader.load(filters=has_lookups and reader.admits_filters())
            except BaseException:
                for reader in opened.values():
                    reader.leave_cache()
                with contextlib.suppress(OSError):  # the next open removes what is left over
                    remove_tables(self.storage, self.directory, fresh)
                raise
            self._readers.update(opened)
            staying = {meta.number for meta in metas}
            gone = [number for number in edit.removed if number not in staying]
            runs = _runs_of(self.manifest.state.levels, gone)
            files = {number: self._readers[number].file.shared for number in gone}
            try:
                self.manifest.append(edit, files_stay=bool(self.unremoved))
            except BaseException:
                self._doubtful += fresh
                raise
            try:
                self._publish(publish, gone)
            except BaseException:  # raised by another thread: manifest and version must agree
                self._publish(publish, gone)
                raise
            self._remove(runs, files, is_noted=bool(metas))

    def _publish(self, publish: Callable[[Version], None], gone: list[int]) -> None:
        """Publish the manifest's version, and mark tables obsolete; idempotent."""
        state = self.manifest.state
        version = Version(state.levels, self._readers, united(None, state.range_deletes))
        self.prepare(version)
        publish(version)
        for number in gone:
            reader = self._readers.pop(number, None)
            if reader is not None:
                reader.leave_cache()

    def _remove(
        self, runs: list[list[int]], files: dict[int, SharedFile | None], *, is_noted: bool
    ) -> None:
        """Remove tables' files, oldest run first: no old value may reappear.

        Unless a new table notes the tables it replaced, the order must hold after a power failure too.
        ``files`` are kept open for those who still read them.
        """
        self._remove_unread()
        for run in runs:
            if not is_noted:
                self._sync_directory()
            for number in run:
                # Without a note, a file that stays keeps all newer ones: they hide its entries from
                # a repair.
                if self.unremoved and not is_noted:
                    self.unremoved.append(number)
                    continue
                file = files.get(number)
                if file is not None and not file.pin():
                    self._still_read[number] = file.number
                    self.unremoved.append(number)
                    continue
                try:
                    self.storage.remove(table_path(self.directory, number))
                except OSError:  # the next open tries again
                    self.unremoved.append(number)
        if runs and not is_noted:
            self._sync_directory()

    def remove_unread(self) -> None:
        """Remove tables that left the tree before, and were still read then."""
        if self._still_read:
            with self.lock:
                self._remove_unread()

    def _remove_unread(self) -> None:
        """Remove what was still read, in the order in which it came."""
        while self.unremoved:
            number = self.unremoved[0]
            file = self._still_read.get(number)
            if file is None or self.storage.shared_files.has(file):
                return
            try:
                self.storage.remove(table_path(self.directory, number))
            except OSError:  # the next open tries again
                return
            del self._still_read[self.unremoved.pop(0)]

    def _sync_directory(self) -> None:
        with contextlib.suppress(OSError):  # the store is whole without it
            self.storage.sync_directory(self.directory)

    def mend_manifest(self) -> None:
        """Start a fresh manifest after a failure (``lock`` is held); remove tables of lost edits."""
        self.manifest.rewrite()
        live = {meta.number for meta in self.manifest.state.levels.tables()}
        lost = [meta for meta in self._doubtful if meta.number not in live]
        self._doubtful = []
        for meta in lost:
            reader = self._readers.pop(meta.number, None)
            if reader is not None:
                reader.leave_cache()
        with contextlib.suppress(OSError):  # the next open removes what is left over
            remove_tables(self.storage, self.directory, lost)

    def job(
        self,
        form: TableFormat,
        is_cancelled: Callable[[], bool],
        give_way: Callable[[int], None],
        replaces: Sequence[int] = (),
    ) -> TableJob:
        return TableJob(
            self.storage,
            self.directory,
            form,
            self.options.table_size_bytes,
            self.manifest.allocate,
            is_cancelled,
            give_way,
            (*replaces, *self.unremoved),
        )

    def policies(self) -> set[FilterPolicy]:
        """The filter policies of new tables and of all open ones."""
        used = {reader.filter_policy for reader in self._readers.values()}
        name = self.options.filter_policy
        return {chosen_policy(name, is_flush=is_flush) for is_flush in (True, False)} | used

    def close(self) -> None:
        """Close the manifest, and forget every table (its last user closes it)."""
        self._readers = {}
        self.remove_unread()
        if self._manifest is not None:
            self._manifest.close()


def _runs_of(levels: Levels, numbers: list[int]) -> list[list[int]]:
    """These tables' numbers, run by run, oldest first."""
    wanted = set(numbers)
    runs = [
        [table.number for table in run.tables if table.number in wanted] for run in levels.runs()
    ]
    return [run for run in reversed(runs) if run]


def table_format(options: Options, error_rate: float, *, is_flush: bool = False) -> TableFormat:
    return TableFormat(
        options.block_size_bytes,
        options.fit_pages,
        options.compression,
        options.compression_level,
        options.compression_dictionary_size_bytes,
        options.filter_key.to_spec(),
        options.filter_granularity,
        chosen_policy(options.filter_policy, is_flush=is_flush).name,
        error_rate,
    )
