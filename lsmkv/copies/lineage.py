"""Tells whether a directory holds a backup, and whether of this store."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from lsmkv.copies.record import Record, TableRecord, read_records
from lsmkv.log.chain import log_numbers
from lsmkv.log.reader import HEADER_BYTES, read_log
from lsmkv.storage.file_names import log_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.manifest import State, read_current, read_state
from lsmkv.tree.ownership import check_is_ours


@dataclass(frozen=True, slots=True)
class Previous:
    """The backup that is there; its tables are by number, and the salt is of its empty log."""

    record: Record
    state: State
    tables: dict[int, TableRecord]
    log_salt: int


def previous_backup(storage: Storage, target: str) -> Previous:
    """The backup in ``target``.  FileExistsError, NotAStoreError: it is none of ours."""
    check_is_ours(storage, target)
    records = read_records(storage, target)
    if records is None:
        reason = "holds a store that is no backup; give a directory that is empty or does not exist"
        raise FileExistsError(errno.EEXIST, reason, target)
    state = read_state(storage, target, read_current(storage, target))
    salt = _salt_of_empty_log(storage, target, state)
    for record in records:
        if salt is not None and record.is_of(state):
            return Previous(record, state, {table.number: table for table in record.tables}, salt)
    reason = (
        "was written to since the last backup, and is a store of its own now; give another "
        "directory, or remove it"
    )
    raise FileExistsError(errno.EEXIST, reason, target)


def _salt_of_empty_log(storage: Storage, target: str, state: State) -> int | None:
    """The salt of the only log; None if it has records, or there are others."""
    numbers = log_numbers(storage.list_directory(target), state.log_number)
    if numbers != [state.log_number]:
        return None
    path = log_path(target, state.log_number)
    contents = read_log(storage, path, state.log_number, "log")
    return None if contents is None or contents.end > HEADER_BYTES else contents.salt


def check_descends(
    storage: Storage, capture: Capture, previous: Previous, source: str, target: str
) -> None:
    """Raise ValueError unless the backup is of this store, and not newer.

    File numbers and sequence numbers only grow, and of one number there is one table and one log.  The
    backup is of a store with the same identity, or that is a copy of this backup, or has a table of it.
    """
    record = previous.record
    tables = {table.number: table for table in capture.state.levels.tables()}
    # A restored copy goes on with the log that the backup made for itself, under a number of its own
    # choice: a log of the source may have had it, too.
    logs = {log.number: log for log in capture.logs if log.salt != previous.log_salt}
    shared = [(table, tables[table.number]) for table in record.tables if table.number in tables]
    continued = [(log, logs[log.number]) for log in record.source_logs if log.number in logs]
    if any(
        (there.size_bytes, there.checksum) != (here.size_bytes, here.checksum)
        for there, here in shared
    ) or any(there.salt != here.salt for there, here in continued):
        raise _of_another_store(record, source, target)
    identities = record.source_id, previous.state.store_id
    if not shared and capture.state.store_id not in identities:
        raise _of_another_store(record, source, target)
    if capture.last_seq < record.last_seq or capture.state.next_file < record.next_file:
        raise ValueError(
            f"{target} is the backup of {record.source}, and newer than {source}, or went another "
            f"way: it has writes up to number {record.last_seq} and files up to "
            f"{record.next_file - 1}, the source writes up to {capture.last_seq} and files up to "
            f"{capture.state.next_file - 1}; to keep both, give another directory"
        )


def _of_another_store(record: Record, source: str, target: str) -> ValueError:
    return ValueError(
        f"{target} is the backup of another store, {record.source}: give a directory of its own "
        f"to the backup of {source}"
    )
