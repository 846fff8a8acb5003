"""Publishes a store to object storage: its tables first, then one object that names them all.

Any number of processes may publish to one URL, and nothing locks it.  These rules keep every
generation whole:

1. A publication makes generation n + 1, where n is the newest when it begins.  Of two with the same
   number only one can create the object.
2. It needs only tables of generation n, and tables that bear the number n + 1 in their names.
3. Clean-up keeps the newest generations and every table that they need.  It removes other tables only
   if their number is not above that of the newest generation.

So a table that another publication is sending is never removed: its number is above.  And a publication
that begins later needs no table but those that were kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Final

from lsmkv.encoding.checksums import running_content_checksum
from lsmkv.encoding.range_deletes import RangeDelete
from lsmkv.errors import CorruptionError, PublishConflictError
from lsmkv.read.view import SuperVersion
from lsmkv.remote.bucket import PART_BYTES, AlreadyThereError, Bucket
from lsmkv.remote.generation import (
    FORMAT,
    GENERATIONS,
    LAST_GENERATION,
    MAX_GENERATION_BYTES,
    TABLES,
    Generation,
    PublishedTable,
    encode_generation,
    generation_name,
    generation_number,
    newest_generation,
    read_generation,
    table_generation,
    table_name,
)
from lsmkv.remote.report import PublishReport
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import ReadKind
from lsmkv.tree.levels import Levels

Progress = Callable[[int, int], None]

_TABLES_AT_ONCE: Final = 4  # tables that are being sent


class Publication:
    """One attempt to make the next generation: ``send`` each table, then ``commit``.

    Attributes:
        number: the generation that it makes.
        base: the newest generation when it began; None if there was none, or it is damaged.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.number = _next_generation(bucket)
        self.base: Generation | None = None
        if self.number > 1:
            try:
                self.base = read_generation(bucket, self.number - 1)
            except CorruptionError:
                pass  # all tables are sent, and the new generation mends it
            except FileNotFoundError as error:
                raise _lost_race(bucket, self.number) from error
        known = [] if self.base is None else self.base.tables
        self._known = {table.content: table.name for table in known}
        self._sent: frozenset[str] | None = None  # names there, of an attempt that broke off

    def name_of(self, content: str) -> str:
        """The name, below ``tables/``, of a table with this whole-file checksum."""
        return self._known.get(content) or table_name(content, self.number)

    def is_there(self, name: str) -> bool:
        """Whether a table need not be sent.  One request for each thousand tables, once."""
        if name in self._known.values():
            return True
        if self._sent is None:
            self._sent = frozenset(self.bucket.names(TABLES))
        return name in self._sent

    def start_sending(self, name: str, reader: TableReader) -> Future[None]:
        """Send a table; does not wait."""
        read = partial(_file_bytes, reader)
        return self.bucket.start_upload(f"{TABLES}/{name}", reader.meta.size_bytes, read)

    def commit(
        self, tables: list[PublishedTable], ranges: list[RangeDelete], last_seq: int
    ) -> Generation:
        """Create the generation, whose tables are there.  PublishConflictError: another was faster."""
        generation = Generation(
            format=FORMAT,
            number=self.number,
            publication=os.urandom(16).hex(),
            last_seq=last_seq,
            tables=tables,
            range_deletes=ranges,
        )
        generation.levels()
        _create(self.bucket, self.number, encode_generation(generation))
        return generation


def _next_generation(bucket: Bucket) -> int:
    """The number after the newest generation; ValueError if there is none.  One request."""
    number = 1 + (newest_generation(bucket) or 0)
    if number > LAST_GENERATION:
        raise ValueError(
            f"{bucket.url}: {generation_name(LAST_GENERATION)} is the last generation that can be: "
            "remove it, if it is not a publication's, or publish to another url"
        )
    return number


def _create(bucket: Bucket, number: int, data: bytes) -> None:
    """Create the generation's object; where an answer is lost, a look tells whether it was made."""
    for is_last in (False, True):
        try:
            bucket.create(generation_name(number), data)
            return
        except AlreadyThereError:
            break
        except OSError:
            if is_last:
                raise
            with contextlib.suppress(FileNotFoundError):
                _check_ours(bucket, number, data)
                return
    _check_ours(bucket, number, data)


def _check_ours(bucket: Bucket, number: int, data: bytes) -> None:
    if bucket.get_whole(generation_name(number), MAX_GENERATION_BYTES) != data:
        raise _lost_race(bucket, number)


def _lost_race(bucket: Bucket, number: int) -> PublishConflictError:
    return PublishConflictError(
        f"{bucket.url}: another process has published generation {number} meanwhile; "
        "publish again to replace it"
    )


def publish(
    bucket: Bucket,
    current: SuperVersion,
    contents: dict[int, str],
    keep: int | None,
    progress: Progress | None,
) -> PublishReport:
    """Publish the tables of ``current``; adds their whole-file checksums to ``contents``."""
    publication = Publication(bucket)
    readers = {reader.meta.number: reader for reader in current.version.tables()}
    for number, reader in readers.items():
        if number not in contents:
            contents[number] = _content_of(reader)
    names = {number: publication.name_of(contents[number]) for number in readers}
    tables = _published(current.version.levels, readers, names)
    base = publication.base
    erased = current.version.range_deletes
    ranges = [] if erased is None else [*erased.ranges]
    is_new = base is None or base.tables != tables or base.range_deletes != ranges
    sent: list[int] = []
    if is_new:
        # Tables from outside take numbers of their own, which memtables need not know.
        newest = max((reader.meta.newest_seq for reader in readers.values()), default=0)
        flushed = min(memtable.first_seq for memtable in current.memtables) - 1
        last_seq = max(newest, flushed)
        sent = _send(publication, readers, names, progress)
        publication.commit(tables, ranges, last_seq)
    removed = (0, 0) if keep is None else remove_old(bucket, keep)
    return PublishReport(
        url=bucket.url,
        generation=publication.number if is_new else publication.number - 1,
        is_new=is_new,
        table_count=len(tables),
        size_bytes=sum(table.meta.size_bytes for table in tables),
        sent_count=len(sent),
        sent_bytes=sum(sent),
        removed_generation_count=removed[0],
        removed_table_count=removed[1],
    )


def _content_of(reader: TableReader) -> str:
    """The XXH3-128 of a table's whole file, in hexadecimal."""
    running = running_content_checksum()
    size_bytes = reader.meta.size_bytes
    for offset in range(0, size_bytes, PART_BYTES):
        running.update(_file_bytes(reader, offset, min(PART_BYTES, size_bytes - offset)))
    return running.hexdigest()


def _file_bytes(reader: TableReader, offset: int, length: int) -> bytes:
    """Bytes of a table's file as they are, not counted as blocks."""
    return reader.file.pread(offset, length, ReadKind.COMPACTION, 0)


def _published(
    levels: Levels, readers: Mapping[int, TableReader], names: Mapping[int, str]
) -> list[PublishedTable]:
    return [
        PublishedTable(
            level=placed.level,
            run=placed.run,
            meta=reader.meta,
            name=names[placed.meta.number],
            data_length=reader.footer.data_length,
            dictionary_length=reader.footer.dictionary_length,
            filters_length=reader.footer.filters_length,
        )
        for placed in levels.placed()
        for reader in [readers[placed.meta.number]]
    ]


def _send(
    publication: Publication,
    readers: Mapping[int, TableReader],
    names: Mapping[int, str],
    progress: Progress | None,
) -> list[int]:
    """Send the tables that are not there, some at a time; returns their sizes."""
    total = sum(reader.meta.size_bytes for reader in readers.values())
    missing = {
        names[number]: reader
        for number, reader in readers.items()
        if not publication.is_there(names[number])
    }
    done = total - sum(reader.meta.size_bytes for reader in missing.values())
    sizes: list[int] = []
    under_way: dict[Future[None], TableReader] = {}
    rest = iter(missing.items())
    try:
        while True:
            if progress is not None:
                progress(done, total)
            while len(under_way) < _TABLES_AT_ONCE and (item := next(rest, None)) is not None:
                name, reader = item
                under_way[publication.start_sending(name, reader)] = reader
            if not under_way:
                return sizes
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                publication.bucket.result(future)
                size_bytes = under_way.pop(future).meta.size_bytes
                sizes.append(size_bytes)
                done += size_bytes
    finally:
        while under_way:  # none stays here: an error's traceback would keep it, and so the error
            future, _ = under_way.popitem()
            future.cancel()
        future = Future()


def remove_old(bucket: Bucket, keep: int) -> tuple[int, int]:
    """Remove all but the newest generations, then tables; returns how many of both."""
    listed = map(generation_number, bucket.names(GENERATIONS))
    numbers = sorted(number for number in listed if number is not None)
    if not numbers:  # the list lags behind what was just created
        return 0, 0
    old, kept = numbers[:-keep], numbers[-keep:]
    # First of all: a damaged generation ends this before anything is removed.
    needed = {table.name for number in kept for table in read_generation(bucket, number).tables}
    bucket.delete(generation_name(number) for number in old)
    unneeded = [
        name
        for name in bucket.names(TABLES)
        if name not in needed and (table_generation(name) or numbers[-1] + 1) <= numbers[-1]
    ]
    bucket.delete(f"{TABLES}/{name}" for name in unneeded)
    return len(old), len(unneeded)
