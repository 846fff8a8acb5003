"""Loads many entries: they are sorted outside the tree, written as tables once, and adopted.

Sorted input becomes tables as it comes.  Other input is sorted in memory, and if it does not fit there,
through runs on disk (:mod:`lsmkv.compaction.external_sort`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from lsmkv.compaction.external_sort import ExternalSort, sorted_batches
from lsmkv.compaction.picker import output_error_rate
from lsmkv.encoding.entries import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    Value,
    key_bytes,
    out_of_order,
    value_bytes,
)
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.engine.adoption import NOTHING, IngestReport, Staging
from lsmkv.engine.engine import Engine
from lsmkv.errors import caused
from lsmkv.options import KIB, MIB
from lsmkv.sstable.multi_writer import CancelledError, TableJob, write_tables
from lsmkv.tree.version_set import table_format

_LEAST_MEMORY_BYTES: Final = MIB
_ENTRY_BYTES: Final = 160  # of memory, besides key and value: objects, and places while sorting
_BATCH_ENTRIES: Final = 512
_BATCH_BYTES: Final = 256 * KIB
_REPORT_EVERY: Final = 1 << 14  # entries

Pairs = Iterable[tuple[Any, Any]]
Progress = Callable[[int, int], object]


def bulk_load(
    engine: Engine,
    pairs: Pairs | Mapping[Any, Any],
    is_sorted: bool,
    memory_bytes: int,
    progress: Progress | None,
) -> IngestReport:
    """Adopt tables with all of ``pairs``.  Raises as ``DB.bulk_load``."""
    engine.check_for_writing()
    if not isinstance(memory_bytes, int) or memory_bytes < _LEAST_MEMORY_BYTES:
        raise ValueError(f"memory_bytes={memory_bytes!r}: give at least {_LEAST_MEMORY_BYTES}")
    if isinstance(pairs, Mapping):
        pairs = pairs.items()
    staging = Staging(engine.storage, engine.directory)
    load = _Load(engine, staging, operator.length_hint(pairs, 0), progress)
    try:
        if is_sorted:
            load.write_tables(load.ascending(pairs))
        else:
            load.sort(pairs, memory_bytes)
    except CancelledError:
        staging.remove()
        raise caused(engine.unusable(), None)
    except BaseException:
        staging.remove()
        raise
    return engine.adopt(staging) if staging.tables else NOTHING


class _Load:
    """Stages the tables of one load, and reports how far it is."""

    def __init__(
        self, engine: Engine, staging: Staging, expected_count: int, progress: Progress | None
    ) -> None:
        options = engine.options
        levels = engine.require_open().version.levels
        rate = output_error_rate(levels, (), expected_count, options, (max(1, levels.deepest), 0))
        self._staging = staging
        self._progress = progress
        self._read = self._written = self._due = 0
        self._job = TableJob(
            engine.storage,
            engine.directory,
            table_format(options, rate),
            options.table_size_bytes,
            staging.allocate,
            lambda: engine.is_closing,
            path_of=staging.path,
        )

    def write_tables(self, batches: Iterator[EntryBatch]) -> None:
        for meta in write_tables(self._counted(batches), self._job):
            self._staging.add(self._staging.path(meta.number))
        if self._progress is not None and self._written:
            self._progress(self._read, self._written)

    def _counted(self, batches: Iterator[EntryBatch]) -> Iterator[EntryBatch]:
        for batch in batches:
            count = batch.count
            yield batch
            self._written += count
            self._report(self._written)

    def _report(self, done: int) -> None:
        if self._progress is not None and done >= self._due:
            self._due = done + _REPORT_EVERY
            self._progress(self._read, self._written)

    def ascending(self, pairs: Pairs) -> Iterator[EntryBatch]:
        """Sorted pairs in batches; ValueError at a key that is not above the one before."""
        keys: list[bytes] = []
        values: list[Value] = []
        size_bytes = 0
        last: bytes | None = None
        for key, value in _entries(pairs):
            if last is not None and key <= last:
                raise ValueError(out_of_order(key, last))
            if size_bytes >= _BATCH_BYTES or len(keys) == _BATCH_ENTRIES:
                self._read += len(keys)
                yield EntryBatch(keys, values, [], may_repeat=False, one_seq=0)
                keys, values, size_bytes = [], [], 0
            keys.append(key)
            values.append(value)
            size_bytes += len(key) + len(value)
            last = key
        if keys:
            self._read += len(keys)
            yield EntryBatch(keys, values, [], may_repeat=False, one_seq=0)

    def sort(self, pairs: Pairs, memory_bytes: int) -> None:
        """Write tables of pairs in any order."""
        external = ExternalSort(self._job, memory_bytes)
        keys: list[bytes] = []
        values: list[bytes] = []
        size_bytes = 0
        for key, value in _entries(pairs):
            if size_bytes >= memory_bytes:
                external.add(keys, values)
                size_bytes = 0
            keys.append(key)
            values.append(value)
            size_bytes += len(key) + len(value) + _ENTRY_BYTES
            self._read += 1
            if self._read >= self._due:
                self._report(self._read)
                if self._job.is_cancelled():
                    raise CancelledError("the store is closing")
        self._due = 0
        if external.run_count == 0:
            if keys:
                self.write_tables(sorted_batches(keys, values))
            return
        external.add(keys, values)
        self.write_tables(external.merged())
        external.remove()


def _entries(pairs: Pairs) -> Iterator[tuple[bytes, bytes]]:
    for pair in pairs:
        try:
            key, value = pair
        except (TypeError, ValueError):
            raise TypeError(f"pairs are (key, value), not {pair!r:.100}") from None
        if type(key) is not bytes or len(key) > MAX_KEY_BYTES:
            key = key_bytes(key)
        if type(value) is not bytes or len(value) > MAX_VALUE_BYTES:
            value = value_bytes(value)
        yield key, value
