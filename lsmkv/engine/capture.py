"""Captures a store from its directory, also beside its writer."""

from __future__ import annotations

from lsmkv.engine.recovery import recover_beside_writer
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import RandomFile, Storage
from lsmkv.tree.capture import Capture, CapturedLog
from lsmkv.tree.levels import Levels


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
