"""Makes checkpoints: stores of their own that share their tables with the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsmkv.copies.contents import copy_logs, copy_table, install, link_table, source_path
from lsmkv.copies.target import Steps, check_new, check_outside, new_copy
from lsmkv.inspection.report import Progress, Report, count
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.capture import Capture


@dataclass(frozen=True, slots=True)
class CheckpointReport(Report):
    """The report of ``DB.checkpoint``.

    Attributes:
        path: the new store.
        table_count, table_bytes: its tables.
        linked_count: tables that share their file with the original's; the others are copies.
        copied_bytes: the bytes of those that are copies.
        log_bytes: the length of the logs that were copied.
    """

    path: str
    table_count: int
    table_bytes: int
    linked_count: int
    copied_bytes: int
    log_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {count(self.table_count, 'table')} of {count(self.table_bytes, 'byte')}, "
            f"{self.linked_count:,} linked; copied {count(self.copied_bytes, 'byte')} of tables and "
            f"{count(self.log_bytes, 'byte')} of logs"
        )


def checkpoint(
    storage: Storage,
    source: str | None,
    capture: Callable[[], Capture],
    target: str,
    progress: Progress | None,
) -> CheckpointReport:
    """Make a checkpoint of ``source``, if it is a directory.  Raises as ``DB.checkpoint``."""
    if source is not None:
        check_outside(source, target)
    check_new(storage, target)
    with new_copy(storage, target, keep=False):
        return _copied(storage, capture(), target, progress)


def _copied(
    storage: Storage, capture: Capture, target: str, progress: Progress | None
) -> CheckpointReport:
    tables = list(capture.state.levels.tables())
    table_bytes = sum(table.size_bytes for table in tables)
    log_bytes = sum(log.end for log in capture.logs)
    steps = Steps(progress, table_bytes + log_bytes)
    linked = copied_bytes = 0
    for table in tables:  # first of all: a compaction may remove them, and then they are copied
        source, path = source_path(capture, table.number), table_path(target, table.number)
        file = capture.tables[table.number]
        if source is not None and link_table(storage, source, file, path):
            linked += 1
            steps.add(table.size_bytes)
        else:
            copy_table(storage, file, path, steps)
            copied_bytes += table.size_bytes
    install(storage, target, copy_logs(storage, capture, target, steps))
    return CheckpointReport(
        path=target,
        table_count=len(tables),
        table_bytes=table_bytes,
        linked_count=linked,
        copied_bytes=copied_bytes,
        log_bytes=log_bytes,
    )
