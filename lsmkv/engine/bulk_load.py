"""Loads many entries: they are sorted outside the tree, written as tables once, and adopted.

Sorted input becomes tables as it comes.  Other input is sorted in memory, and if it does not fit there,
through runs on disk (:mod:`lsmkv.engine.external_sort`).
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from lsmkv.compaction import budget
from lsmkv.compaction.picker import output_error_rate
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.expiry import Held
from lsmkv.engine.adoption import NOTHING, IngestReport, Staging
from lsmkv.engine.external_sort import ExternalSort, sorted_batches
from lsmkv.engine.pairs import PairReader
from lsmkv.engine.upkeep import Upkeep
from lsmkv.errors import caused
from lsmkv.options import MIB
from lsmkv.sstable.multi_writer import CancelledError, TableJob, write_tables
from lsmkv.tree.version_set import table_format

_LEAST_MEMORY_BYTES: Final = MIB
_MOST_MEMORY_BYTES: Final = 1 << 62
_REPORT_EVERY: Final = 1 << 14  # entries

Pairs = Iterable[tuple[Any, ...]]
Progress = Callable[[int, int], object]


def bulk_load(
    upkeep: Upkeep,
    pairs: Pairs | Mapping[Any, Any],
    is_sorted: bool,
    memory_bytes: int,
    progress: Progress | None,
    due_s: int | None,
) -> IngestReport:
    """Adopt tables with all of ``pairs``, which are due at ``due_s``.  Raises as ``DB.bulk_load``."""
    upkeep.check_for_adopting()
    if not isinstance(memory_bytes, int) or memory_bytes < _LEAST_MEMORY_BYTES:
        raise ValueError(f"memory_bytes={memory_bytes!r}: give at least {_LEAST_MEMORY_BYTES}")
    memory_bytes = min(memory_bytes, _MOST_MEMORY_BYTES)
    if isinstance(pairs, Mapping):
        pairs = pairs.items()
    if not isinstance(pairs, Iterable):
        raise TypeError(f"pairs={pairs!r}: give pairs of keys and values, or a mapping")
    staging = Staging(upkeep.tables.storage, upkeep.tables.directory)
    reader = PairReader(pairs, upkeep.state.clock, due_s)
    load = _Load(upkeep, staging, reader, operator.length_hint(pairs, 0), progress)
    try:
        if is_sorted:
            load.write_tables(reader.ascending())
        else:
            load.sort(memory_bytes)
    except CancelledError:
        staging.remove()
        raise caused(upkeep.state.unusable(), None)
    except BaseException:
        staging.remove()
        raise
    return upkeep.adopt(staging) if staging.tables else NOTHING


class _Load:
    """Stages the tables of one load, and reports how far it is."""

    def __init__(
        self,
        upkeep: Upkeep,
        staging: Staging,
        reader: PairReader,
        expected_count: int,
        progress: Progress | None,
    ) -> None:
        tables = upkeep.tables
        options = tables.options
        version = upkeep.state.require_open().version
        place = max(1, version.levels.deepest), 0
        if options.filter_memory_bytes and expected_count:
            form = budget.of_new_tables(tables, version, expected_count, 0, place)
        else:
            rate = output_error_rate(version.levels, (), expected_count, options, place)
            form = table_format(options, rate)
        self._staging = staging
        self._progress = progress
        self._reader = reader
        self._written = self._due = 0
        self._job = TableJob(
            tables.storage,
            tables.directory,
            form,
            options.table_size_bytes,
            staging.allocate,
            lambda: upkeep.state.is_ending,
            path_of=staging.path,
        )

    def write_tables(self, batches: Iterator[EntryBatch]) -> None:
        for meta in write_tables(self._counted(batches), self._job):
            self._staging.add(self._staging.path(meta.number))
        if self._progress is not None and self._written:
            self._progress(self._reader.count, self._written)

    def _counted(self, batches: Iterator[EntryBatch]) -> Iterator[EntryBatch]:
        for batch in batches:
            count = batch.count
            yield batch
            self._written += count
            self._report(self._written)

    def _report(self, done: int) -> None:
        if self._progress is not None and done >= self._due:
            self._due = done + _REPORT_EVERY
            self._progress(self._reader.count, self._written)

    def sort(self, memory_bytes: int) -> None:
        """Write tables of pairs in any order."""
        reader, external = self._reader, ExternalSort(self._job, memory_bytes)
        keys: list[bytes] = []
        values: list[Held] = []
        left_bytes = memory_bytes
        while not reader.is_done:
            left_bytes -= reader.take(keys, values, left_bytes, _REPORT_EVERY)
            time.sleep(0)  # lets other threads run
            self._report(reader.count)
            if self._job.is_cancelled():
                raise CancelledError("the store is closing")
            if left_bytes <= 0:
                external.add(keys, values)
                left_bytes = memory_bytes
        self._due = 0
        if external.run_count == 0:
            if keys:
                self.write_tables(sorted_batches(keys, values))
            return
        if keys:
            external.add(keys, values)
        self.write_tables(external.merged())
        external.remove()
