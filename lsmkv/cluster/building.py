"""Builds a store from the pairs of a Dask collection."""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import dask.bag
import dask.dataframe
import distributed
import pandas as pd
from dask.delayed import Delayed, delayed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

import lsmkv
from lsmkv.cluster import work
from lsmkv.filters import policy_named

PathLike = str | os.PathLike[str]

_MEMORY_SHARE: Final = 8  # a partition's pairs by the memory of a task: p2p holds them thrice
_LEAST_MEMORY_BYTES: Final = 1 << 20
_PARQUET_PART_BYTES: Final = 64 << 20
_SAMPLED_KEYS: Final = 400  # of a partition, and of a part: sizes then vary by about 5 %


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The report of :func:`lsmkv.cluster.build`.

    Attributes:
        pairs: the pairs of the source.
        entries: the distinct keys among them, which the store now has.
        source_bytes: bytes of the source's keys and values, repeated ones included.
        size_bytes: bytes of the tables.
        tables: their number.
        partitions: the number of key ranges.
        imbalance: the largest partition by the mean, in bytes of tables.
        peak_memory_bytes: the largest resident size of a worker that wrote tables.
        sampling_s, writing_s, adopting_s: time to read and sample the source; to read it again, shuffle
            it, and write the tables; to adopt them.
    """

    pairs: int
    entries: int
    source_bytes: int
    size_bytes: int
    tables: int
    partitions: int
    imbalance: float
    peak_memory_bytes: int
    sampling_s: float
    writing_s: float
    adopting_s: float


def build(  # more than 60 lines: its parameters and its docstring
    source: dask.bag.Bag | dask.dataframe.DataFrame | PathLike | list[PathLike],
    target: PathLike,
    options: lsmkv.Options | None = None,
    *,
    key: str = "key",
    value: str = "value",
    partitions: int | None = None,
    memory_bytes: int = 512 << 20,
    client: distributed.Client | None = None,
    **overrides: Any,
) -> BuildReport:
    """Write all pairs of a Dask collection to a store.

    The source is read twice: to count and sample it, and to shuffle it by key ranges.  Each partition
    of the shuffle is sorted and written by one task.  Neither scheduler nor client ever has the data.
    One change of the manifest adopts all tables, as :meth:`lsmkv.DB.ingest`: the pairs are newer than
    what the store has, and after any failure it is as it was.  Of a repeated key the last pair counts,
    in the order of the source: that of its partitions, and in each that of its rows.

    Args:
        source: a ``dask.bag.Bag`` of (key, value); a ``dask.dataframe.DataFrame``; or a path, a pattern
            or a list of paths of Parquet files.  Keys and values are bytes, or text, stored in UTF-8.
        target: the directory of a store, new or not, that all workers see under this path.
            :meth:`lsmkv.DB.publish` sends the store to object storage afterwards.
        options: of the store and its tables (default: ``Options()``).
        key, value: the columns of a data frame or of Parquet files.
        partitions: how many key ranges to write at least; more if the pairs of one would not fit into
            ``memory_bytes``.  Default: as few as fit.
        memory_bytes: the memory that one task may take, besides what its part of the source takes.
        client: the cluster (default: the current client).
        **overrides: single options that replace those in ``options``.

    Raises:
        TypeError, ValueError: an argument is wrong, or a pair is none that a store can hold.
        WorkerError: the cluster gave up, because workers died at the same task several times.
        LockedError: the store is open for writing.
        OSError: a file cannot be read or written; FileNotFoundError: no file matches the source.
    """
    started = time.perf_counter()
    chosen = (lsmkv.Options() if options is None else options).replace(**overrides)
    if chosen.filter_policy != "auto" and policy_named(chosen.filter_policy).is_registered:
        raise ValueError(
            f"filter_policy={chosen.filter_policy!r}: it is registered in this process alone"
        )
    if isinstance(target, str) and "://" in target:
        raise ValueError(
            f"target={target!r}: give a directory that all workers see, and publish the store "
            f"afterwards: lsmkv.open(directory).publish({target!r})"
        )
    if memory_bytes < _LEAST_MEMORY_BYTES:
        raise ValueError(f"memory_bytes={memory_bytes}: {_LEAST_MEMORY_BYTES} are the least")
    if partitions is not None and partitions < 1:
        raise ValueError(f"partitions={partitions}: must be at least 1")
    cluster = client or distributed.default_client()
    parts = _parts(source, key, value)
    with cluster.as_current(), _opened(target, chosen) as db:  # p2p asks for the current one
        count = _SAMPLED_KEYS * max(1, -(-(partitions or 1) // len(parts)))
        samples = [delayed(work.sample)(part, count) for part in parts]
        most_bytes = memory_bytes // _MEMORY_SHARE
        planning = delayed(work.plan)(samples, partitions or 1, most_bytes)  # on a worker
        plan: work.Plan = _results(cluster, [planning])[0]
        sampled = time.perf_counter()
        with db.staging() as folder:
            frames = _shuffled(parts, plan) if plan.pairs else []
            tasks = [delayed(work.write_partition)(frame, folder, chosen) for frame in frames]
            written: list[work.WrittenPartition] = _results(cluster, tasks)
            done = time.perf_counter()
            tables = [table for partition in written for table in partition.tables]
            db.ingest([table.path for table in tables], move=True, verify=False)
    sizes = [sum(table.size_bytes for table in partition.tables) for partition in written]
    return BuildReport(
        pairs=plan.pairs,
        entries=sum(table.entries for table in tables),
        source_bytes=plan.source_bytes,
        size_bytes=sum(sizes),
        tables=len(tables),
        partitions=len(sizes),
        imbalance=max(sizes) * len(sizes) / sum(sizes) if sizes else 1.0,
        peak_memory_bytes=max((part.peak_memory_bytes for part in written), default=0),
        sampling_s=sampled - started,
        writing_s=done - sampled,
        adopting_s=time.perf_counter() - done,
    )


def _parts(source: Any, key: str, value: str) -> list[Delayed]:
    """The tables of all parts of the source, in order; workers make them."""
    if key == value:
        raise ValueError(f"key={key!r} and value={value!r} are the same column")
    if isinstance(source, dask.bag.Bag):
        pieces = source.to_delayed()
    else:
        frame = source if isinstance(source, dask.dataframe.DataFrame) else _parquet(source)
        for name in (key, value):
            if name not in frame.columns:
                raise ValueError(f"the source has no column {name!r}; it has {list(frame.columns)}")
        pieces = frame[[key, value]].to_delayed()
    return [delayed(work.to_table)(piece, key, value, part) for part, piece in enumerate(pieces)]


def _parquet(source: Any) -> Any:
    paths = source if isinstance(source, list) else [source]
    if not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(
            "source is a dask.bag.Bag of (key, value), a dask.dataframe.DataFrame, or the path of "
            f"Parquet files, not {type(source).__name__}"
        )
    found = [os.fspath(path) for path in paths]
    for path in found:
        if "://" not in path and not glob.glob(path, recursive=True) and not os.path.exists(path):
            raise FileNotFoundError(f"source={path!r}: no file matches")
    return dask.dataframe.read_parquet(
        found if isinstance(source, list) else found[0],
        dtype_backend="pyarrow",
        split_row_groups="adaptive",
        blocksize=_PARQUET_PART_BYTES,
    )


@contextlib.contextmanager
def _opened(target: PathLike, options: lsmkv.Options) -> Iterator[lsmkv.DB]:
    """The store, locked; a new one is removed if the block fails."""
    try:
        db, is_new = lsmkv.open(target, options, create_if_missing=False), False
    except lsmkv.NotAStoreError:
        db, is_new = lsmkv.open(target, options, error_if_exists=True), True
    try:
        with db:
            yield db
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                lsmkv.destroy(target)
        raise


def _shuffled(parts: list[Delayed], plan: work.Plan) -> Any:
    """The partitions of the source."""
    columns = {name: pd.Series([], dtype=kind) for name, kind in work.SHUFFLED.items()}
    frames = [delayed(work.to_shuffle)(part, plan.ends) for part in parts]
    frame = dask.dataframe.from_delayed(frames, meta=pd.DataFrame(columns), verify_meta=False)
    divisions = tuple(range(len(plan.ends) + 2))
    return frame.set_index("partition", divisions=divisions, shuffle_method="p2p").to_delayed()


def _results(cluster: distributed.Client, tasks: list[Delayed]) -> Any:
    """The results of all tasks, in order.  Each is small."""
    futures = cluster.compute(tasks)
    try:
        return cluster.gather(futures)
    except (KilledWorker, FutureCancelledError) as error:
        raise lsmkv.WorkerError(f"the cluster gave up, and nothing was changed: {error}") from error
    finally:
        cluster.cancel(futures)
