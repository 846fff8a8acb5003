"""A published store: a location that an engine reads from."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lsmkv.encoding.range_deletes import united
from lsmkv.errors import BackgroundError, CorruptionError, NotAStoreError
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.remote.bucket import PART_BYTES, Bucket
from lsmkv.remote.disk_cache import DiskCache
from lsmkv.remote.generation import (
    GENERATIONS,
    Generation,
    PublishedTable,
    newest_generation,
    read_generation,
)
from lsmkv.remote.object_file import ObjectFile, OneFile
from lsmkv.remote.urls import checked_url, local_folder
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.manifest import State
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.inspection.verify import VerifyReport

_MOST_ATTEMPTS: Final = 10
_PIECES_AT_ONCE: Final = 4  # of one table's sections
_TABLES_AT_ONCE: Final = 32  # whose sections are held in memory before their tables are opened


class PublishedStore:
    """A store below a URL, as the last look found it: an ``engine.location.Location``."""

    directory = None

    def __init__(self, url: str, options: Options, storage: Storage) -> None:
        stats = storage.stats
        self.storage = storage
        self.found_more = self.found_another = False
        self._cache: DiskCache | None = None
        checked = checked_url(url)
        if checked.startswith("file:") and not os.path.lexists(local_folder(checked)):
            # A bucket would make it.
            raise NotAStoreError(f"{url} holds no published store (there is no such folder)")
        self.bucket = Bucket(url, options, stats)
        if options.disk_cache_path is not None:
            self._cache = DiskCache(options.disk_cache_path, options.disk_cache_size_bytes, stats)
        self._tables: PublishedTables | None = None
        self._open: tuple[SuperVersion, Generation] | None = None

    @property
    def name(self) -> str:
        """The URL."""
        return self.bucket.url

    @property
    def generation(self) -> int:
        """The number of the open generation; 0 before the first."""
        return 0 if self._open is None else self._open[1].number

    def open_tables(self, options: Options, cache: BlockCache) -> VersionSet:
        """The version set of the engine that reads this store."""
        tables = PublishedTables(self.bucket, self._cache, self.storage, options, cache)
        self._tables = tables
        return tables

    def recover(self) -> tuple[SuperVersion, int]:
        """The newest generation, or the open one if none is newer; and its last sequence number."""
        missing = -1
        for _ in range(_MOST_ATTEMPTS):
            number = newest_generation(self.bucket)
            if number is None:
                url = self.bucket.url
                raise NotAStoreError(f"{url} holds no published store (it has no {GENERATIONS}/)")
            if self._open is not None and number <= self.generation:
                current, generation = self._open
                self.found_more = self.found_another = False
                return current, generation.last_seq
            try:
                found = self._opened(number)
                self.found_more = True
                return found
            except (FileNotFoundError, CorruptionError) as error:
                is_gone = isinstance(error, FileNotFoundError) or isinstance(
                    error.__cause__, FileNotFoundError
                )
                if missing == number and isinstance(error, FileNotFoundError):
                    reason = "a generation that is listed is missing"
                    raise CorruptionError(str(error.filename), None, reason) from error
                if not is_gone or missing == number:
                    raise
                missing = number
        raise BackgroundError(
            f"{self.bucket.url} changed during each of {_MOST_ATTEMPTS} attempts to open it"
        )

    def _opened(self, number: int) -> tuple[SuperVersion, int]:
        assert self._tables is not None
        generation = read_generation(self.bucket, number)
        version = self._tables.open_generation(generation)
        # No memtable ever has entries: nothing is written here.
        current = SuperVersion(Memtable(generation.last_seq + 1, 0), (), version)
        self._open = current, generation
        return current, generation.last_seq

    def capture(self, current: SuperVersion, last_seq: int, /) -> Capture:
        """The state that is open; a published store has no logs."""
        levels = current.version.levels
        highest = max((table.number for table in levels.tables()), default=0)
        ranges = current.version.range_deletes
        state = State(levels, highest + 1, last_seq, log_number=0)
        if ranges is not None:
            state = replace(state, range_deletes=ranges.ranges)
        files = {table.meta.number: table.file for table in current.version.tables()}
        return Capture(None, state, last_seq, files, [])

    def verify(
        self, current: SuperVersion, progress: Callable[[int, int], None] | None, /
    ) -> VerifyReport:
        """Check every byte of the open generation and its tables."""
        from lsmkv.remote.verify import verify_published

        assert self._open is not None
        current, generation = self._open  # which go together
        return verify_published(self.bucket, generation, current, self.storage.stats, progress)

    def close(self) -> None:
        """End all requests; may come twice."""
        self.bucket.close()
        if self._cache is not None:
            self._cache.close()


class PublishedTables(VersionSet):
    """The open tables of a generation."""

    def __init__(
        self,
        bucket: Bucket,
        ranges: DiskCache | None,
        storage: Storage,
        options: Options,
        cache: BlockCache,
    ) -> None:
        super().__init__(storage, bucket.url, options, cache)
        self._bucket = bucket
        self._ranges = ranges
        self._by_name: dict[str, TableReader] = {}

    def open_generation(self, generation: Generation) -> Version:
        """The version of a generation; tables that are open stay so, the ends of others are read."""
        known = self._by_name
        missing = [table for table in generation.tables if self._reader(table) is None]
        opened = {table.name: reader for table, reader in self._open_all(missing)}
        tables = generation.tables
        self._by_name = {
            table.name: opened.get(table.name) or known[table.name] for table in tables
        }
        self._readers = {table.meta.number: self._by_name[table.name] for table in tables}
        ranges = tuple(generation.range_deletes)
        return Version(generation.levels(), self._readers, united(None, ranges))

    def _reader(self, table: PublishedTable) -> TableReader | None:
        reader = self._by_name.get(table.name)
        return reader if reader is not None and reader.meta == table.meta else None

    def _open_all(
        self, tables: Sequence[PublishedTable]
    ) -> Iterator[tuple[PublishedTable, TableReader]]:
        rest = iter(tables)
        asked: deque[_Sections] = deque()
        try:
            while True:
                while len(asked) < _TABLES_AT_ONCE and (table := next(rest, None)) is not None:
                    asked.append(self._ask(table))
                if not asked:
                    return
                yield asked[0].table, self._open_published(asked[0])
                asked.popleft()
        finally:
            for sections in asked:
                sections.give_up()

    def _ask(self, table: PublishedTable) -> _Sections:
        size, options = table.meta.size_bytes, self.options
        file = ObjectFile(self._bucket, table.object_name, size, self.storage.stats, self._ranges)
        start = table.data_length
        if options.filter_residency == "resident":
            return _Sections(table, file, [(start, size - start)])
        # Filters, if asked at all, are read piece by piece.
        index = table.index_offset
        dictionary = [(start, table.dictionary_length)] if table.dictionary_length else []
        return _Sections(table, file, [*dictionary, (index, size - index)])

    def _open_published(self, sections: _Sections) -> TableReader:
        options, table, file = self.options, sections.table, sections.file
        file.hold(sections.read())
        reader = TableReader(
            OneFile(file, self.storage.stats),
            file.path,
            self._cache,
            table.meta,
            options.filter_residency,
            False,
            options.adaptive_filters,
        )
        reader.load()
        if not reader.filters.section.was_damaged:
            file.keep_held(sections.pieces)
        file.hold(())
        return reader

    def close(self) -> None:
        super().close()
        self._by_name = {}


class _Sections:
    """The sections of a table that an opening reads, under way."""

    def __init__(
        self, table: PublishedTable, file: ObjectFile, ranges: Sequence[tuple[int, int]]
    ) -> None:
        self.table = table
        self.file = file
        self._starts = [start for start, _ in ranges]
        self.pieces = [
            (offset, min(PART_BYTES, start + length - offset))
            for start, length in ranges
            for offset in range(start, start + length, PART_BYTES)
        ]
        self._fetch(0, _PIECES_AT_ONCE)

    def _fetch(self, first: int, end: int) -> None:
        for place in self.pieces[first:end]:
            self.file.fetch(*place)

    def read(self) -> list[tuple[int, bytes]]:
        """The ranges, each with its offset."""
        read: dict[int, list[bytes]] = {start: [] for start in self._starts}
        start = 0
        for number, place in enumerate(self.pieces):
            start = place[0] if place[0] in read else start
            read[start].append(self.file.take(*place))
            self._fetch(number + _PIECES_AT_ONCE, number + _PIECES_AT_ONCE + 1)
        return [(start, b"".join(pieces)) for start, pieces in read.items()]

    def give_up(self) -> None:
        for place in self.pieces:
            self.file.forget(*place)
