"""Writes the tables of one partition, on a worker."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import distributed
import numpy as np
import pandas as pd
import pyarrow as pa
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.cluster.pieces import row_bytes, sorted_rows
from lsmkv.cluster.report import WrittenPartition
from lsmkv.compaction.picker import LEVELED_RUN
from lsmkv.encoding.entry_batch import EntryBatch, ascending
from lsmkv.errors import Error
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.reader import open_table
from lsmkv.storage.file_names import MAX_FILE_NUMBER, table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format

if TYPE_CHECKING:
    from lsmkv.remote.generation import PublishedTable

_BATCH_ROWS: Final = 1024
_BATCH_BYTES: Final = 256 * 1024
_CHECK_S: Final = 1.0  # how soon a worker notices that its folder is gone


@dataclass(frozen=True, slots=True)
class Upload:
    """Where in object storage tables go, and the generation that needs them."""

    url: str
    generation: int


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """How to write partition ``number`` of ``partitions``.

    The tables stay below the directory ``staging``; or they are sent where ``upload`` says.
    """

    staging: str | None
    upload: Upload | None
    options: Options
    may_repeat: bool
    number: int
    partitions: int

    @property
    def numbers(self) -> range:
        """The table numbers that no other partition has."""
        each = MAX_FILE_NUMBER // self.partitions
        return range(1 + self.number * each, 1 + (self.number + 1) * each)


@dataclass(frozen=True, slots=True)
class WrittenTables:
    """The tables of a partition in key order: files, or what a generation says of objects."""

    report: WrittenPartition
    paths: list[str]
    published: list[PublishedTable]


def write_partition(frame: pd.DataFrame, job: PartitionJob) -> WrittenTables:
    """Sort the pairs of a partition and write them to tables.

    They are in a new folder: a task that Dask runs twice writes two, of which one counts.  After an
    error the folder is removed.
    """
    started = time.perf_counter()
    storage = Storage(file_mode=job.options.file_mode)
    table = _table_of(frame)
    del frame
    rows = sorted_rows(table, may_repeat=job.may_repeat)
    with _folder(storage, job) as folder:
        metas = write_tables(_batches(table, rows), _table_job(storage, folder, job))
        paths = [table_path(folder, meta.number) for meta in metas]
        published = []
        if job.upload is not None:
            published, paths = send_tables(storage, folder, metas, job.upload, job.options), []
    report = WrittenPartition(
        tables=len(metas),
        rows=table.num_rows,
        entries=len(rows),
        raw_bytes=int(np.asarray(row_bytes(table).take(rows)).sum()),
        size_bytes=sum(meta.size_bytes for meta in metas),
        seconds=time.perf_counter() - started,
        peak_memory_bytes=_peak_memory_bytes(),
    )
    return WrittenTables(report, paths, published)


@contextlib.contextmanager
def _folder(storage: Storage, job: PartitionJob) -> Iterator[str]:
    """A new folder, removed after an error or once tables are sent."""
    if job.staging is None:
        with tempfile.TemporaryDirectory(prefix="lsmkv-", dir=_local_directory()) as folder:
            yield folder
        return
    folder = os.path.join(job.staging, os.urandom(16).hex())
    storage.create_directory(folder)
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):
            storage.remove_tree(folder)
        raise


def _local_directory() -> str | None:
    """The worker's own directory."""
    try:
        found: str = distributed.get_worker().local_directory
    except ValueError:
        return None
    return found


def send_tables(
    storage: Storage, folder: str, metas: list[TableMeta], upload: Upload, options: Options
) -> list[PublishedTable]:
    """Put tables into object storage, under the names of their contents."""
    from lsmkv.remote.bucket import Bucket
    from lsmkv.remote.generation import TABLES, table_name
    from lsmkv.remote.publish import content_of, file_bytes, published_table

    bucket = Bucket(upload.url, options, storage.stats)
    try:
        cache = BlockCache(0, storage.stats)
        sent = []
        published = []
        for meta in metas:
            reader = open_table(storage, folder, cache, meta)
            name = table_name(content_of(reader), upload.generation)
            read = partial(file_bytes, reader)
            sent.append(bucket.start_upload(f"{TABLES}/{name}", meta.size_bytes, read))
            published.append(published_table(reader, 1, LEVELED_RUN, name))
        for future in sent:
            bucket.result(future)
    finally:
        bucket.close()
    return published


def _table_of(frame: pd.DataFrame) -> pa.Table:
    """The frame's columns, each in one piece."""
    columns = {}
    for name in ("key", "value", "order"):
        column = pa.Array.from_pandas(frame[name])
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        columns[name] = column
    return pa.table(columns)


def _table_job(storage: Storage, folder: str, job: PartitionJob) -> TableJob:
    numbers = iter(job.numbers)
    checked_s = time.monotonic()

    def is_cancelled() -> bool:
        nonlocal checked_s
        now_s = time.monotonic()
        if now_s - checked_s < _CHECK_S:
            return False
        checked_s = now_s
        return not storage.exists(folder)

    def allocate() -> int:
        number = next(numbers, None)
        if number is None:
            raise Error(f"partition {job.number} needs more than {len(job.numbers)} tables")
        return number

    options = job.options
    form = table_format(options, options.error_rate)
    return TableJob(storage, folder, form, options.table_size_bytes, allocate, is_cancelled)


def _batches(table: pa.Table, rows: pa.Array) -> Iterator[EntryBatch]:
    """The entries of the rows, in their order, with sequence number 0."""
    if not len(rows):
        return
    mean_bytes = max(1, table.nbytes // max(1, table.num_rows))
    step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean_bytes))
    pairs = table.select(["key", "value"])
    for start in range(0, len(rows), step):
        some = pairs.take(rows[start : start + step])
        batch = EntryBatch([], [], [], may_repeat=False, one_seq=0)
        batch.key_data, batch.key_ends = _joined(some["key"].combine_chunks())
        batch.value_data, batch.value_ends = _joined(some["value"].combine_chunks())
        batch.order = ascending(some.num_rows)
        yield batch


def _joined(column: pa.Array) -> tuple[bytes, vec[i64]]:
    """The values one after another; and where the first begins, and each ends."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    first, last = int(ends[0]), int(ends[-1])
    joined = b"" if data is None else bytes(data[first:last])
    return joined, vec[i64]((ends - first).tolist())


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
