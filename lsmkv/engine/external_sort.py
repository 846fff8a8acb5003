"""Sorts more entries than memory holds: by sorted runs on disk, which are merged.

Each run is a table without filters.  When there are as many runs as may be merged at a time, they are
merged into one longer run.  Of a key in several runs the newest run's entry counts
(external merge sort: Knuth, TAOCP 3, 5.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lsmkv.compaction.merge import merge_tables
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.expiry import Held
from lsmkv.filters.policy import NONE
from lsmkv.memtable.radix_sort import SortedItems
from lsmkv.options import KIB, MIB
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import NO_LIMIT

_BATCH_ENTRIES: Final = 512
_BLOCK_BYTES: Final = 64 * KIB
_LEVEL: Final = 1  # of zstd: the fastest
_MERGE_BYTES: Final = 2 * MIB  # of memory, for each run that is merged
_MOST_MERGED: Final = 128


class ExternalSort:
    """Sorted runs on disk: ``add`` any number of times, then ``merged``, then ``remove``.

    ``job`` says where runs are written; of its form only compression is used.
    """

    def __init__(self, job: TableJob, memory_bytes: int) -> None:
        form = replace(
            job.form,
            block_size_bytes=_BLOCK_BYTES,
            compression_level=_LEVEL,
            dictionary_size_bytes=0,
            granularity="block",
            policy=NONE.name,
        )
        self._job = replace(job, form=form, table_size_bytes=NO_LIMIT, sync=False)
        self._cache = BlockCache(0, job.storage.stats)
        self._most_merged = max(2, min(_MOST_MERGED, memory_bytes // _MERGE_BYTES))
        # The runs that were merged equally often, oldest first; each is a list of tables.
        self._generations: list[list[list[TableMeta]]] = []

    @property
    def run_count(self) -> int:
        return sum(map(len, self._generations))

    def add(self, keys: list[bytes], values: list[Held]) -> None:
        """Write entries as a run; of a repeated key the last one counts.  Both lists are emptied."""
        batches = sorted_batches(keys, values)
        keys.clear()
        values.clear()
        self._write(0, batches)

    def merged(self) -> Iterator[EntryBatch]:
        """All entries, each key once."""
        runs = [run for generation in self._generations for run in reversed(generation)]
        return self._merge(runs)

    def remove(self) -> None:
        generations, self._generations = self._generations, []
        for generation in generations:
            self._remove(generation)

    def _write(self, level: int, batches: Iterator[EntryBatch]) -> None:
        tables = write_tables(batches, self._job)
        spilt_bytes = sum(table.size_bytes for table in tables)
        self._job.storage.stats.spill_bytes += spilt_bytes
        if level == len(self._generations):
            self._generations.append([])
        generation = self._generations[level]
        generation.append(tables)
        if len(generation) == self._most_merged:
            self._write(level + 1, self._merge(generation[::-1]))
            self._generations[level] = []
            self._remove(generation)

    def _merge(self, runs: list[list[TableMeta]]) -> Iterator[EntryBatch]:
        readers = [[self._open(meta) for meta in run] for run in runs]
        return merge_tables(readers, [], True)

    def _open(self, meta: TableMeta) -> TableReader:
        path = self._job.path(meta.number)
        return TableReader(self._job.storage, path, self._cache, meta, "off")

    def _remove(self, runs: list[list[TableMeta]]) -> None:
        for run in runs:
            for table in run:
                self._job.storage.remove(self._job.path(table.number))


def sorted_batches(keys: list[bytes], values: list[Held]) -> Iterator[EntryBatch]:
    """Entries in key order; of a repeated key only the last.  Sorts when it is called."""
    return SortedItems(keys, values).batches(_BATCH_ENTRIES, 0)
