"""Publishes tables from outside a store: any process sends some, one commits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from lsmkv.compaction.picker import LEVELED_RUN, level_target_bytes
from lsmkv.inspection.table_check import open_uncached
from lsmkv.options import Options
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.table_end import AdoptedEnd, adopted_end, read_end
from lsmkv.stats import Stats
from lsmkv.storage.file_names import MAX_FILE_NUMBER
from lsmkv.storage.storage import PathLike, Storage, absolute_path

if TYPE_CHECKING:  # loaded where it is used, because it needs a library that many programs lack
    from lsmkv.remote.bucket import Bucket


@dataclass(frozen=True, slots=True)
class SentTable:
    """A table that :meth:`TablePublication.send` has sent; it can be pickled.

    Attributes:
        number: its number in the generation.
        size_bytes: its length.
        record: what the generation will say of it.
    """

    number: int
    size_bytes: int
    record: bytes


@dataclass(frozen=True, slots=True)
class TablePublication:
    """The next generation at a URL, of tables that many processes send.

    :meth:`begin` makes it.  It is data, which can be pickled: give it to the processes that write
    tables, let each ``send`` its own, and ``commit`` what they return.  Needs
    ``pip install "lsmkv[remote]"``.

    Attributes:
        url: as of :meth:`DB.publish`.
        generation: the number that the generation will have.
        options: of its requests; ``level1_size_bytes`` and ``size_ratio`` say on which level it puts
            the tables.

    >>> import lsmkv, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     publication = lsmkv.TablePublication.begin(f"file://{folder}/bucket")
    ...     with lsmkv.TableWriter(os.path.join(folder, "animals.sst")) as table:
    ...         table.add(b"fox", b"red")
    ...     publication.commit(publication.send([table.finish().path], 1))
    ...     with lsmkv.open(publication.url, read_only=True) as db:
    ...         db[b"fox"]
    b'red'
    """

    url: str
    generation: int
    options: Options

    @classmethod
    def begin(cls, url: str, options: Options | None = None) -> TablePublication:
        """The publication of the generation after the newest one at ``url``.

        Raises:
            TypeError, ValueError: ``url`` is wrong, or no generation can follow.
            OSError: a request failed.
            MissingExtraError: ``lsmkv[remote]`` is not installed.
        """
        from lsmkv.remote.urls import checked_url

        checked_url(url)  # before what needs the library
        from lsmkv.remote.publish import next_generation

        chosen = Options() if options is None else options
        with _bucket(url, chosen) as bucket:
            return cls(bucket.url, next_generation(bucket), chosen)

    def send(self, paths: Iterable[PathLike], first_number: int) -> list[SentTable]:
        """Send tables that :class:`TableWriter` wrote, several at a time.

        The files stay as they are.

        Args:
            paths: the table files.
            first_number: the number of the first one in the generation, from 1 to 2,147,483,647; the
                others follow.  No two tables of the generation may have the same.

        Raises:
            ValueError: there is no such number.
            CorruptionError, OSError: a file is no table, or a request failed.  What was sent goes with
                a later :meth:`DB.publish` with ``keep``.
        """
        from lsmkv.remote.generation import TABLES, table_name
        from lsmkv.remote.publish import content_of, published_table

        files = [absolute_path(path) for path in paths]
        last_number = first_number + len(files) - 1
        if first_number < 1 or last_number > MAX_FILE_NUMBER:
            raise ValueError(
                f"first_number={first_number}: {len(files)} tables have numbers from 1 to "
                f"{MAX_FILE_NUMBER}"
            )
        storage, under_way, sent = Storage(), [], []
        with _bucket(self.url, self.options) as bucket:
            for number, path in enumerate(files, first_number):
                reader = open_uncached(storage, path)
                end = adopted_end(read_end(reader.file), number, 0)
                read = partial(_numbered_bytes, reader, end)
                size_bytes = end.meta.size_bytes
                name = table_name(content_of(read, size_bytes), self.generation)
                under_way.append(bucket.start_upload(f"{TABLES}/{name}", size_bytes, read))
                table = published_table(reader, 1, LEVELED_RUN, name)
                record = msgspec.json.encode(msgspec.structs.replace(table, meta=end.meta))
                sent.append(SentTable(number, size_bytes, record))
            for future in under_way:
                bucket.result(future)
        return sent

    def commit(self, tables: Iterable[SentTable]) -> None:
        """Make the generation, which holds these tables alone.

        Readers see it whole or not at all.

        Raises:
            PublishConflictError: another process has published to the URL meanwhile.
            ValueError: keys of two tables overlap, or two have one number.
            OSError: a request failed.
        """
        from lsmkv.remote.generation import PublishedTable
        from lsmkv.remote.publish import make_generation

        sent = list(tables)
        total = sum(table.size_bytes for table in sent)
        level = 1
        while level_target_bytes(level, self.options) < total:
            level += 1
        placed = [
            msgspec.structs.replace(
                msgspec.json.decode(table.record, type=PublishedTable), level=level
            )
            for table in sent
        ]
        if len({table.number for table in sent}) < len(sent):
            raise ValueError("two tables have one number: give each call of send() its own")
        with _bucket(self.url, self.options) as bucket:
            make_generation(bucket, self.generation, placed, 0)


def _bucket(url: str, options: Options) -> contextlib.closing[Bucket]:
    from lsmkv.remote.bucket import Bucket  # MissingExtraError without its library

    return contextlib.closing(Bucket(url, options, Stats()))


def _numbered_bytes(reader: TableReader, end: AdoptedEnd, offset: int, length: int) -> bytes:
    """Bytes of a table's file, with another end."""
    from lsmkv.remote.publish import file_bytes

    kept = max(0, min(length, end.offset - offset))
    start = max(0, offset - end.offset)
    changed = end.data[start : start + length - kept]
    return (file_bytes(reader, offset, kept) if kept else b"") + changed
