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
from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Final

from lsmkv.encoding.checksums import running_content_checksum
from lsmkv.errors import CorruptionError, PublishConflictError
from lsmkv.inspection.report import Progress
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

_TABLES_AT_ONCE: Final = 4  # tables that are being sent


def publish(
    bucket: Bucket,
    current: SuperVersion,
    contents: dict[int, str],
    keep: int | None,
    progress: Progress | None,
) -> PublishReport:
    """Publish the tables of ``current``; adds their whole-file checksums to ``contents``."""
    number = 1 + (newest_generation(bucket) or 0)
    base = _base(bucket, number)
    known = [] if base is None else base.tables
    names = {table.content: table.name for table in known}
    readers = {reader.meta.number: reader for reader in current.version.tables()}
    tables = []
    for placed in current.version.levels.placed():
        reader = readers[placed.meta.number]
        if reader.meta.number not in contents:
            contents[reader.meta.number] = _content_of(reader)
        content = contents[reader.meta.number]
        tables.append(
            PublishedTable(
                level=placed.level,
                run=placed.run,
                meta=reader.meta,
                name=names.get(content) or table_name(content, number),
                data_length=reader.footer.data_length,
                dictionary_length=reader.footer.dictionary_length,
                filters_length=reader.footer.filters_length,
            )
        )
    erased = current.version.range_deletes
    ranges = [] if erased is None else [*erased.ranges]
    is_new = base is None or known != tables or base.range_deletes != ranges
    sent: list[int] = []
    if is_new:
        # Tables from outside take numbers of their own, which memtables need not know.
        newest = max((reader.meta.newest_seq for reader in readers.values()), default=0)
        flushed = min(memtable.first_seq for memtable in current.memtables) - 1
        made = Generation(
            format=FORMAT,
            number=number,
            publication=os.urandom(16).hex(),
            last_seq=max(newest, flushed),
            tables=tables,
            range_deletes=ranges,
        )
        made.levels()
        files = {table.name: readers[table.meta.number] for table in tables}
        sent = _send(bucket, files, {table.name for table in known}, progress)
        _create(bucket, number, encode_generation(made))
    removed = (0, 0) if keep is None else remove_old(bucket, keep)
    return PublishReport(
        url=bucket.url,
        generation=number if is_new else number - 1,
        is_new=is_new,
        table_count=len(tables),
        size_bytes=sum(table.meta.size_bytes for table in tables),
        sent_count=len(sent),
        sent_bytes=sum(sent),
        removed_generation_count=removed[0],
        removed_table_count=removed[1],
    )


def _base(bucket: Bucket, number: int) -> Generation | None:
    """The generation before ``number``; None if there is none, or it is damaged."""
    if number > LAST_GENERATION:
        raise ValueError(
            f"{bucket.url}: {generation_name(LAST_GENERATION)} is the last generation that can be: "
            "remove it, if it is not a publication's, or publish to another url"
        )
    try:
        return None if number == 1 else read_generation(bucket, number - 1)
    except CorruptionError:
        return None  # all tables are sent, and the new generation mends it
    except FileNotFoundError as error:
        raise _lost_race(bucket, number) from error


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


def _send(
    bucket: Bucket,
    files: Mapping[str, TableReader],
    known: Collection[str],
    progress: Progress | None,
) -> list[int]:
    """Send the tables that are not there, some at a time; returns their sizes."""
    missing = {name: reader for name, reader in files.items() if name not in known}
    if missing:  # an attempt that broke off may have sent some
        there = frozenset(bucket.names(TABLES))
        missing = {name: reader for name, reader in missing.items() if name not in there}
    total = sum(reader.meta.size_bytes for reader in files.values())
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
                read = partial(_file_bytes, reader)
                size_bytes = reader.meta.size_bytes
                under_way[bucket.start_upload(f"{TABLES}/{name}", size_bytes, read)] = reader
            if not under_way:
                return sizes
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                bucket.result(future)
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
