"""Tables of a backup that are made of the source's logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lsmkv.compaction.merge import flushed_batches
from lsmkv.compaction.picker import output_error_rate
from lsmkv.options import Options
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import check_file_number
from lsmkv.tree.version_set import table_format

_AHEAD: Final = 1 << 20  # file numbers: the source gives out fewer between two backups


def highest_number(storage: Storage, directory: str) -> int:
    """The highest file number in a directory; 0 without files."""
    parsed = filter(None, map(parse_file_name, storage.list_directory(directory)))
    return max((number for _, number in parsed), default=0)


def tables_of_logs(
    storage: Storage, target: str, capture: Capture, options: Options
) -> list[PlacedTable]:
    """Write each memtable as a run of level 0, oldest first; all is synced."""
    memtables = [memtable for memtable in capture.memtables if not memtable.is_empty]
    if not memtables:
        return []
    first = max(capture.state.next_file + _AHEAD, highest_number(storage, target) + 1)
    numbers = _numbers(first, target)
    made: list[PlacedTable] = []
    for memtable in memtables:
        count = memtable.key_count_bound
        rate = output_error_rate(capture.state.levels, (), count, options)
        job = TableJob(
            storage,
            target,
            table_format(options, rate, is_flush=True),
            options.table_size_bytes,
            lambda: next(numbers),
            lambda: False,
        )
        metas = write_tables(flushed_batches(memtable.entry_batches(), [], False), job)
        made += [PlacedTable(0, metas[0].number, meta) for meta in metas]
    return made


def _numbers(first: int, target: str) -> Iterator[int]:
    number = first
    while True:
        check_file_number(number, target)
        yield number
        number += 1
