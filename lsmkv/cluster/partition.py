"""Writes the tables of one partition, on a worker."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import distributed
import numpy as np
import pandas as pd
import pyarrow as pa

import lsmkv
from lsmkv.cluster.pieces import row_bytes, sorted_rows
from lsmkv.cluster.report import WrittenPartition

_BATCH_ROWS: Final = 1024
_BATCH_BYTES: Final = 256 * 1024
_BATCHES_OF_A_TABLE: Final = 16  # at least: a table ends between two batches
_NUMBERS: Final = (1 << 31) - 1  # of tables in one generation

Columns = tuple[bytes, list[int], bytes, list[int]]
"""All keys, where each ends, all values, where each ends."""


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """How to write partition ``number`` of ``partitions``.

    The tables stay below the directory ``staging``; or ``publication`` sends them.
    """

    staging: str | None
    publication: lsmkv.TablePublication | None
    options: lsmkv.Options
    may_repeat: bool
    number: int
    partitions: int

    @property
    def first_number(self) -> int:
        """The first of the numbers that tables of no other partition have."""
        return 1 + self.number * (_NUMBERS // self.partitions)


@dataclass(frozen=True, slots=True)
class WrittenTables:
    """The tables of a partition in key order: files, or what was sent."""

    report: WrittenPartition
    paths: list[str]
    sent: list[lsmkv.SentTable]


def write_partition(frame: pd.DataFrame, job: PartitionJob) -> WrittenTables:
    """Sort the pairs of a partition and write them to tables.

    They are in a new folder: a task that Dask runs twice writes two, of which one counts.  After an
    error the folder is removed.
    """
    started = time.perf_counter()
    table = _table_of(frame)
    del frame
    rows = sorted_rows(table, may_repeat=job.may_repeat)
    with _folder(job) as folder:
        written = _write_tables(_batches(table, rows, job.options), folder, job.options)
        paths = [info.path for info in written]
        sent = []
        if job.publication is not None:
            sent, paths = job.publication.send(paths, job.first_number), []
    report = WrittenPartition(
        tables=len(written),
        rows=table.num_rows,
        entries=len(rows),
        raw_bytes=int(np.asarray(row_bytes(table).take(rows)).sum()),
        size_bytes=sum(info.size_bytes for info in written),
        seconds=time.perf_counter() - started,
        peak_memory_bytes=_peak_memory_bytes(),
    )
    return WrittenTables(report, paths, sent)


@contextlib.contextmanager
def _folder(job: PartitionJob) -> Iterator[str]:
    """A new folder, removed after an error or once tables are sent."""
    folder = tempfile.mkdtemp(prefix="lsmkv-", dir=job.staging or _local_directory())
    keeps = False
    try:
        yield folder
        keeps = job.publication is None
    finally:
        if not keeps:
            shutil.rmtree(folder, ignore_errors=True)


def _local_directory() -> str | None:
    """The worker's own directory."""
    try:
        found: str = distributed.get_worker().local_directory
    except ValueError:
        return None
    return found


def _table_of(frame: pd.DataFrame) -> pa.Table:
    """The frame's columns, each in one piece."""
    columns = {}
    for name in ("key", "value", "order"):
        column = pa.Array.from_pandas(frame[name])
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        columns[name] = column
    return pa.table(columns)


def _write_tables(
    batches: Iterator[Columns], folder: str, options: lsmkv.Options
) -> list[lsmkv.TableFileInfo]:
    """Write entries in key order to tables of ``table_size_bytes``."""
    written: list[lsmkv.TableFileInfo] = []
    writer: lsmkv.TableWriter | None = None
    try:
        for columns in batches:
            if writer is None:
                path = os.path.join(folder, f"{len(written):06}.sst")
                writer = lsmkv.TableWriter(path, options)
            writer.add_columns(*columns)
            if writer.size_bytes >= options.table_size_bytes:
                written.append(writer.finish())
                writer = None
        if writer is not None:
            written.append(writer.finish())
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    return written


def _batches(table: pa.Table, rows: pa.Array, options: lsmkv.Options) -> Iterator[Columns]:
    """The entries of the rows, in their order."""
    mean_bytes = max(1, table.nbytes // max(1, table.num_rows))
    most_bytes = min(_BATCH_BYTES, options.table_size_bytes // _BATCHES_OF_A_TABLE)
    step = max(1, min(_BATCH_ROWS, most_bytes // mean_bytes))
    pairs = table.select(["key", "value"])
    for start in range(0, len(rows), step):
        some = pairs.take(rows[start : start + step])
        keys, values = (_joined(some[name].combine_chunks()) for name in ("key", "value"))
        yield *keys, *values


def _joined(column: pa.Array) -> tuple[bytes, list[int]]:
    """The values one after another; and where each ends."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    first, last = int(ends[0]), int(ends[-1])
    joined = b"" if data is None else bytes(data[first:last])
    return joined, (ends[1:] - first).tolist()


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
