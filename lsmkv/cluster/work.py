"""Tasks of workers: sample a part of the source, divide it, write tables of a partition.

A part is an Arrow table of ``key``, ``value`` and ``order``: a pair's place in the whole source, with the
number of the part in the high bits.

Where partitions end is chosen from a sample.  Each part gives the keys whose hashes are lowest.  A hash
that is low in one part is low in all, so together they sample the *distinct* keys, however often some of
them are repeated (Beyer et al., SIGMOD 2007: a synopsis of k minimum values).
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import lsmkv

_PART_SHIFT: Final = 40  # a part of the source has fewer than 2^40 pairs
_HASHED_KEYS: Final = 1 << 16  # at once
_BATCH_ROWS: Final = 1024
_BATCH_BYTES: Final = 256 * 1024
_BATCHES_OF_A_TABLE: Final = 16  # at least: a table ends between two batches

_COLUMN: Final = pd.ArrowDtype(pa.large_binary())
SHUFFLED: Final = {"key": _COLUMN, "value": _COLUMN, "order": "int64", "partition": "int64"}
"""The columns that are shuffled, with their types."""


def to_table(piece: Any, key: str, value: str, part: int) -> pa.Table:
    """A part of the source: a frame's partition, or a bag's, of pairs.  Text becomes UTF-8."""
    if not isinstance(piece, pd.DataFrame):
        piece = pd.DataFrame(list(piece), columns=[key, value])
    keys = _column(piece, key, part, lsmkv.MAX_KEY_BYTES)
    values = _column(piece, value, part, lsmkv.MAX_VALUE_BYTES)
    order = np.arange(len(keys), dtype=np.int64) + (part << _PART_SHIFT)
    return pa.table({"key": keys, "value": values, "order": order}).combine_chunks()


def _column(frame: pd.DataFrame, name: str, part: int, most: int) -> pa.ChunkedArray:
    try:
        column = pa.Array.from_pandas(frame[name]).cast(pa.large_binary())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeError(f"partition {part}: {name!r} is bytes or text: {error}") from None
    if column.null_count:
        raise ValueError(f"partition {part}: {name!r} has {column.null_count} nulls")
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > most:
        raise ValueError(f"partition {part}: {name!r} of {longest} bytes: {most} are the most")
    return column


def sorted_rows(table: pa.Table) -> pa.Array:
    """The numbers of the rows in key order; of equal keys only that of the last in the source."""
    rows = pc.sort_indices(table["key"])
    if len(rows) < 2:
        return rows
    keys = table["key"].take(rows).combine_chunks()
    is_last = pa.concat_arrays([pc.not_equal(keys[:-1], keys[1:]), pa.array([True])])
    if pc.all(is_last).as_py():
        return rows
    rows = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("order", "ascending")])
    return rows.filter(is_last)


@dataclass(frozen=True, slots=True)
class Sample:
    """Size of a part, and sampled keys; each key with a hash below ``threshold``, or None, is there."""

    pairs: int
    source_bytes: int
    threshold: int | None
    keys: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Plan:
    """Where all partitions but the last end, and what the source holds."""

    ends: list[bytes]
    pairs: int
    source_bytes: int


def sample(table: pa.Table, count: int) -> Sample:
    """Sample ``count`` keys, or all, after repeated ones are dropped."""
    sizes = pc.add(pc.binary_length(table["key"]), pc.binary_length(table["value"]))
    rows = sorted_rows(table)
    keys = table["key"].take(rows)
    starts = range(0, max(1, len(keys)), _HASHED_KEYS)
    slices = (keys[start : start + _HASHED_KEYS].to_numpy() for start in starts)
    hashes = np.concatenate([pd.util.hash_array(some, categorize=False) for some in slices])
    threshold = None if len(keys) <= count else int(np.partition(hashes, count)[count])
    chosen = np.arange(len(keys)) if threshold is None else np.flatnonzero(hashes < threshold)
    columns = {
        "key": keys.take(chosen).to_pylist(),
        "hash": hashes[chosen],
        "bytes": sizes.take(rows).take(chosen).to_numpy(),
    }
    total = pc.sum(sizes).as_py() or 0
    return Sample(table.num_rows, total, threshold, pd.DataFrame(columns))


def plan(samples: Sequence[Sample], partitions: int, partition_bytes: int) -> Plan:
    """Partitions of about the same bytes: ``partitions``, or more if one had over ``partition_bytes``."""
    source_bytes = sum(part.source_bytes for part in samples)
    count = max(1, -(-source_bytes // partition_bytes), partitions)
    keys = pd.concat([part.keys for part in samples]).drop_duplicates("hash")
    thresholds = [part.threshold for part in samples if part.threshold is not None]
    if thresholds:
        keys = keys[keys["hash"] < min(thresholds)]
    keys = keys.sort_values("key")
    middles = keys["bytes"].cumsum() - keys["bytes"] / 2
    goals = np.arange(1, count) * (keys["bytes"].sum() / count)
    found = np.unique(np.searchsorted(middles, goals)) - 1
    ends = [keys["key"].iloc[end] for end in found if 0 <= end < len(keys) - 1]
    return Plan(ends, sum(part.pairs for part in samples), source_bytes)


def to_shuffle(table: pa.Table, ends: Sequence[bytes]) -> pd.DataFrame:
    """A part of the source in key order, with each row's partition."""
    ordered = table.take(sorted_rows(table))
    columns = {
        "key": pd.Series(ordered["key"].combine_chunks(), dtype=_COLUMN),
        "value": pd.Series(ordered["value"].combine_chunks(), dtype=_COLUMN),
        "order": ordered["order"].to_numpy(),
        "partition": partition_numbers(ordered["key"], ends),
    }
    return pd.DataFrame(columns)


def partition_numbers(keys: pa.ChunkedArray, ends: Sequence[bytes]) -> np.ndarray:
    """The partition of each of the keys, which ascend."""
    numbers = np.zeros(len(keys), dtype=np.int64)
    for end in ends:  # O(partitions * log rows)
        numbers[bisect_right(keys, end, key=lambda key: key.as_py()) :] += 1
    return numbers


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """Tables in key order, and the worker's peak of memory until then."""

    tables: list[lsmkv.TableFileInfo]
    peak_memory_bytes: int


def write_partition(frame: pd.DataFrame, staging: str, options: lsmkv.Options) -> WrittenPartition:
    """Sort the pairs of a partition and write them to tables; each call makes a new folder."""
    table = pa.Table.from_pandas(frame, columns=["key", "value", "order"], preserve_index=False)
    table = table.combine_chunks()
    del frame
    batches = _batches(table, options)
    folder = tempfile.mkdtemp(prefix="lsmkv-", dir=staging)
    tables: list[lsmkv.TableFileInfo] = []
    try:
        columns = next(batches, None)
        while columns is not None:
            with lsmkv.TableWriter(f"{folder}/{len(tables):06}.sst", options) as writer:
                while columns is not None and writer.size_bytes < options.table_size_bytes:
                    writer.add_columns(*columns)
                    columns = next(batches, None)
            tables.append(writer.finish())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return WrittenPartition(tables, peak if sys.platform == "darwin" else peak * 1024)


def _batches(
    table: pa.Table, options: lsmkv.Options
) -> Iterator[tuple[bytes, list[int], bytes, list[int]]]:
    """The entries in key order: all keys, where each ends, all values, where each ends."""
    rows = sorted_rows(table)
    mean_bytes = max(1, table.nbytes // max(1, table.num_rows))
    most_bytes = min(_BATCH_BYTES, options.table_size_bytes // _BATCHES_OF_A_TABLE)
    step = max(1, min(_BATCH_ROWS, most_bytes // mean_bytes))
    pairs = table.select(["key", "value"])
    for start in range(0, len(rows), step):
        some = pairs.take(rows[start : start + step])
        yield *_joined(some["key"].combine_chunks()), *_joined(some["value"].combine_chunks())


def _joined(column: pa.Array) -> tuple[bytes, list[int]]:
    """The values one after another; and where each ends."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    first, last = int(ends[0]), int(ends[-1])
    return b"" if data is None else bytes(data[first:last]), (ends[1:] - first).tolist()
