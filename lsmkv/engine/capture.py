"""Captures a store's state: of an open one, from its directory, or of a published one."""

from __future__ import annotations

from collections.abc import Callable

from lsmkv.engine.recovery import recover_beside_writer
from lsmkv.read.view import SuperVersion
from lsmkv.storage.file_names import log_path, table_path
from lsmkv.storage.storage import RandomFile, ReadKind, Storage
from lsmkv.tree.capture import Capture, CapturedLog
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import State


def capture_directory(storage: Storage, directory: str) -> Capture:
    """The state as a recovery finds it.  Raises as an opening for reading.

    It holds every write that the writer had acknowledged before: the operating system shows it to
    other processes at once.
    """

    def open_files(levels: Levels) -> dict[int, RandomFile]:
        return {
            table.number: storage.open_random(table_path(directory, table.number))
            for table in levels.tables()
        }

    found, tables = recover_beside_writer(storage, directory, open_files)
    logs = [CapturedLog(log.number, log.salt, log.end, log.piece) for log in found.logs]
    memtables = tuple(found.memtables)
    return Capture(directory, found.state, found.last_seq, tables, logs, memtables)


def capture_open(
    storage: Storage,
    directory: str,
    current: SuperVersion,
    last_seq: int,
    state: State,
    extents: list[tuple[int, int, int]],
) -> Capture:
    """The state of an open store; ``extents`` are number, salt and end of its logs."""
    logs = [
        CapturedLog(number, salt, end, _log_bytes(storage, directory, number))
        for number, salt, end in extents
        if number >= state.log_number
    ]
    return Capture(directory, state, last_seq, _files_of(current), logs)


def capture_published(current: SuperVersion, last_seq: int) -> Capture:
    """The state of a store in object storage, which has no logs."""
    levels = current.version.levels
    highest = max((table.number for table in levels.tables()), default=0)
    state = State(levels, highest + 1, last_seq, log_number=0)
    return Capture(None, state, last_seq, _files_of(current), [])


def _log_bytes(storage: Storage, directory: str, number: int) -> Callable[[int, int], bytes]:
    file = storage.open_buffered(log_path(directory, number))
    return lambda offset, length: file.pread(offset, length, ReadKind.LOG)


def _files_of(current: SuperVersion) -> dict[int, RandomFile]:
    return {table.meta.number: table.file for table in current.version.tables()}
