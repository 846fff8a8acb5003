"""Adopts tables that were written outside the tree: one edit makes all of them part of it.

Until then they are *staged*: files in the store's directory with names of their own.  Staging takes no
lock, and the next opening removes what a crash leaves.  Then, while no compaction runs:

1. The memtable is flushed; writers are made to wait, as if the log were full; what they wrote meanwhile
   is flushed too.
2. All entries get the next sequence number: the tree is older, the log newer, and no snapshot sees them.
3. Each table gets a file number; its file's end is rewritten with both numbers, synced and renamed.
4. One edit of the manifest adds the tables and the sequence number.  Writers go on.

An error before the edit undoes all of it; only if the edit may be on disk the store takes no more writes
until ``resume``, as after a flush that fails so.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lsmkv.engine.placement import places
from lsmkv.inspection.report import Report, count
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.table_end import MAX_SEAL, TableEnd, adopted_end, new_seal, read_end
from lsmkv.storage.file_names import staged_path, table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.version_set import VersionSet

_SYNCS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class IngestReport(Report):
    """What ``DB.ingest`` or ``DB.bulk_load`` added.

    Attributes:
        tables: how many tables.
        entries: their keys, deletions included.
        size_bytes: the length of their files.
        levels: how many of them went to each level, by its number.
    """

    tables: int
    entries: int
    size_bytes: int
    levels: dict[int, int]

    def __str__(self) -> str:
        where = ", ".join(f"{number} on level {level}" for level, number in self.levels.items())
        tables = count(self.tables, "table")
        found = f"{self.entries:,} entries in {tables} of {self.size_bytes:,} bytes"
        return f"{found}: {where}" if where else found


NOTHING: Final = IngestReport(0, 0, 0, {})


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table that waits; ``in_place``: it shares its file with a name outside the store."""

    path: str
    end: TableEnd
    in_place: bool


class Staging:
    """The staged tables of one adoption."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self.token = os.urandom(8).hex()
        self.tables: list[StagedTable] = []
        self.paths: list[str] = []
        self._number = new_seal()
        self._process = os.getpid()

    def allocate(self) -> int:
        """Another number: for a file's name, and to seal its blocks."""
        self._number = self._number % MAX_SEAL + 1
        self.paths.append(self.path(self._number))
        return self._number

    def path(self, number: int) -> str:
        return staged_path(self._directory, self.token, number)

    def add(self, path: str, *, in_place: bool = False) -> None:
        """Add a finished table.  ``in_place``: another name outside the store has the same file."""
        with self._storage.open_random(path) as file:
            self.tables.append(StagedTable(path, read_end(file), in_place))

    def remove(self) -> None:
        """Remove the files, but in the child of a fork; the next opening removes what stays."""
        if os.getpid() != self._process:
            return
        for path in self.paths:
            with contextlib.suppress(OSError):
                self._storage.remove(path)

    def adopt(self, tables: VersionSet, seq: int) -> list[PlacedTable]:
        """Give the tables numbers, names and places.  Then the caller sees to the files."""
        numbers = [tables.manifest.allocate() for _ in self.tables]
        self.paths += [table_path(self._directory, number) for number in numbers]
        jobs = self.tables, numbers, [seq] * len(numbers)
        if len(numbers) == 1:
            metas = list(map(self._adopt, *jobs))
        else:
            with ThreadPoolExecutor(_SYNCS_AT_ONCE, "lsmkv-adopt") as threads:
                metas = list(threads.map(self._adopt, *jobs))
        self._storage.sync_directory(self._directory)
        placed = _placed(tables, metas)
        self.paths = []
        return placed

    def report(self, placed: list[PlacedTable]) -> IngestReport:
        """What was added; counted."""
        levels = Counter(sorted(table.level for table in placed))
        size_bytes = sum(table.meta.size_bytes for table in placed)
        self._storage.stats.ingested_tables += len(placed)
        self._storage.stats.ingested_bytes += size_bytes
        entries = sum(table.meta.entry_count for table in placed)
        return IngestReport(len(placed), entries, size_bytes, dict(levels))

    def _adopt(self, table: StagedTable, number: int, seq: int) -> TableMeta:
        storage, end = self._storage, adopted_end(table.end, number, seq)
        size_bytes = end.meta.size_bytes if table.in_place else end.offset
        with storage.open_append(table.path, size_bytes) as file:
            if table.in_place:
                file.overwrite(end.offset, end.data)
            else:
                file.append(end.data)
            file.sync()
        storage.replace(table.path, table_path(self._directory, number))
        return end.meta


def _placed(tables: VersionSet, metas: list[TableMeta]) -> list[PlacedTable]:
    manifest = tables.manifest
    wanted = places(manifest.state.levels, tables.options, metas)
    new_runs: dict[int, int] = {}
    found: list[PlacedTable] = []
    for meta, (level, run) in zip(metas, wanted, strict=True):
        if run is None:
            if level not in new_runs:
                new_runs[level] = manifest.allocate()
            run = new_runs[level]
        found.append(PlacedTable(level, run, meta))
    return found
