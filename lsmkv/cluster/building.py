"""Builds a store from the pairs of a Dask collection."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import dask.bag
import dask.dataframe
import distributed
import pandas as pd
import pyarrow as pa
from dask.delayed import Delayed, delayed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from lsmkv import Options, WorkerError
from lsmkv.cluster.partition import PartitionJob, WrittenTables, write_partition
from lsmkv.cluster.pieces import COLUMN, sorted_rows
from lsmkv.cluster.report import BuildReport
from lsmkv.cluster.sample import Plan, partition_numbers, plan, sample, sample_size
from lsmkv.cluster.sources import parts_of
from lsmkv.cluster.targets import open_target
from lsmkv.filters import PRIVATE_SCHEMES, policy_named

PathLike = str | os.PathLike[str]
RepeatedKeys = Literal["last", "error"]
Progress = Callable[[int, int], None]

_MEMORY_SHARE: Final = 8  # a partition's pairs by the memory of a task: p2p holds them thrice
_LEAST_MEMORY_BYTES: Final = 1 << 20
_SHUFFLED: Final = {"key": COLUMN, "value": COLUMN, "order": "int64", "partition": "int64"}


def build(  # more than 60 lines: its parameters and its docstring
    source: dask.bag.Bag | dask.dataframe.DataFrame | PathLike | list[PathLike],
    target: PathLike,
    options: Options | None = None,
    *,
    key: str = "key",
    value: str = "value",
    partitions: int | None = None,
    repeated_keys: RepeatedKeys = "last",
    memory_bytes: int = 512 << 20,
    client: distributed.Client | None = None,
    progress: Progress | None = None,
    **overrides: Any,
) -> BuildReport:
    """Write all pairs of a Dask collection to a store.

    The source is read twice: to count and sample it, and to shuffle it by key ranges.  Each partition
    of the shuffle is sorted and written by one task.  Neither scheduler nor client ever has the data.
    One change of the manifest adopts all tables, as :meth:`lsmkv.DB.ingest`: the pairs are newer than
    what the store has, and after any failure it is as it was.

    Args:
        source: a ``dask.bag.Bag`` of (key, value) in bytes; a ``dask.dataframe.DataFrame``; or a path,
            a pattern or a list of paths of Parquet files.
        target: the directory of a store, new or not, that all workers see under this path.  Or a URL
            of object storage (see :meth:`lsmkv.DB.publish`), to which workers send their tables; it gets
            a new generation that holds these pairs alone.
        options: of the store and its tables (default: ``Options()``).
        key, value: the columns of a data frame or of Parquet files: bytes, or text in UTF-8.
        partitions: how many key ranges to write at least; more if the pairs of one would not fit into
            ``memory_bytes``.  Default: as few as fit.
        repeated_keys: ``"last"`` keeps the last pair of each key, in the order of the source: that of
            its partitions, and in each that of its rows.  ``"error"`` refuses a repeated key.
        memory_bytes: the memory that one task may take, besides what its part of the source takes.
        client: the cluster (default: the current client).
        progress: called with the number of partitions written so far, and of all partitions.
        **overrides: single options that replace those in ``options``.

    Raises:
        TypeError, ValueError: an argument is wrong, or a pair is none that a store can hold, or a key
            is repeated and must not be (:class:`RepeatedKeyError`).
        WorkerError: the cluster gave up, because workers died at the same task several times.
        LockedError: the store is open for writing.
        PublishConflictError: another process has published to the URL meanwhile.
        OSError: a file or an object cannot be read or written; FileNotFoundError: no file matches
            the source.
    """
    started = time.perf_counter()
    chosen = _checked_options(options, overrides)
    if repeated_keys not in ("last", "error"):
        raise ValueError(f'repeated_keys={repeated_keys!r}: must be "last" or "error"')
    if memory_bytes < _LEAST_MEMORY_BYTES:
        raise ValueError(f"memory_bytes={memory_bytes}: {_LEAST_MEMORY_BYTES} are the least")
    if partitions is not None and partitions < 1:
        raise ValueError(f"partitions={partitions}: must be at least 1")
    cluster = client or _current_client()
    shuffle = _Shuffle(
        cluster,
        parts_of(source, key, value),
        repeated_keys == "last",
        progress or (lambda done, total: None),
    )
    with (
        cluster.as_current(),
        open_target(target, chosen) as opened,
    ):  # p2p asks for the current one
        found = shuffle.sample(partitions, memory_bytes // _MEMORY_SHARE)
        sampled = time.perf_counter()
        job = PartitionJob(
            staging=opened.staging,
            publication=opened.publication,
            options=chosen,
            may_repeat=repeated_keys == "last",
            number=0,
            partitions=found.partitions,
        )
        written = shuffle.write(found, job)
        done = time.perf_counter()
        opened.adopt(written)
    reports = [tables.report for tables in written]
    return BuildReport(
        pairs=found.pairs,
        entries=sum(report.entries for report in reports),
        source_bytes=found.source_bytes,
        size_bytes=sum(report.size_bytes for report in reports),
        tables=sum(report.tables for report in reports),
        generation=None if opened.publication is None else opened.publication.generation,
        partitions=tuple(reports),
        sampling_s=sampled - started,
        writing_s=done - sampled,
        adopting_s=time.perf_counter() - done,
    )


def _checked_options(options: Options | None, overrides: dict[str, Any]) -> Options:
    chosen = (Options() if options is None else options).replace(**overrides)
    policy = policy_named(chosen.filter_policy)
    if policy.scheme in PRIVATE_SCHEMES:
        raise ValueError(
            f"filter_policy={policy.name!r}: it is registered in this process alone, not on workers"
        )
    return chosen


def _current_client() -> distributed.Client:
    try:
        return distributed.get_client()
    except ValueError:
        raise ValueError(
            "there is no Dask client: give client=, or make one, such as distributed.Client()"
        ) from None


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """Runs the two passes over the parts of a source."""

    client: distributed.Client
    parts: list[Delayed]
    may_repeat: bool
    progress: Progress

    def sample(self, partitions: int | None, partition_bytes: int) -> Plan:
        """The plan, made on a worker of samples of all parts."""
        count = sample_size(partitions or len(self.parts), len(self.parts))
        samples = [delayed(sample)(part, count, may_repeat=self.may_repeat) for part in self.parts]
        found: Plan = self._results([delayed(plan)(samples, partitions, partition_bytes)])[0]
        return found

    def write(self, found: Plan, job: PartitionJob) -> list[WrittenTables]:
        """Shuffle the source, and write each partition."""
        frames = [
            delayed(to_shuffle)(part, found.splitters, may_repeat=self.may_repeat)
            for part in self.parts
        ]
        if not frames or not found.pairs:
            return []
        meta = pd.DataFrame({name: pd.Series([], dtype=kind) for name, kind in _SHUFFLED.items()})
        frame = dask.dataframe.from_delayed(frames, meta=meta, verify_meta=False)
        divisions = tuple(range(found.partitions + 1))
        shuffled = frame.set_index("partition", divisions=divisions, shuffle_method="p2p")
        tasks = [
            delayed(write_partition)(part, replace(job, number=number))
            for number, part in enumerate(shuffled.to_delayed())
        ]
        return self._results(tasks, self.progress)

    def _results(
        self, tasks: list[Delayed], progress: Progress = lambda done, total: None
    ) -> list[Any]:
        """The results of all tasks, in order.  Each is small."""
        futures = self.client.compute(tasks)
        try:
            results = {}
            for future, result in distributed.as_completed(futures, with_results=True):
                results[future.key] = result
                progress(len(results), len(tasks))
        except (KilledWorker, FutureCancelledError) as error:
            raise WorkerError(f"the cluster gave up, and nothing was changed: {error}") from error
        finally:
            self.client.cancel(futures)
        return [results[future.key] for future in futures]


def to_shuffle(table: pa.Table, ends: tuple[bytes, ...], *, may_repeat: bool) -> pd.DataFrame:
    """A part of the source in key order, with each row's partition."""
    ordered = table.take(sorted_rows(table, may_repeat=may_repeat))
    columns = {
        "key": pd.Series(ordered["key"].combine_chunks(), dtype=COLUMN),
        "value": pd.Series(ordered["value"].combine_chunks(), dtype=COLUMN),
        "order": ordered["order"].to_numpy(),
        "partition": partition_numbers(ordered, ends),
    }
    return pd.DataFrame(columns)
