"""Writes the files of a copy: tables, logs, and the manifest that makes them a store."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace
from typing import Final

from lsmkv.copies.target import Steps
from lsmkv.encoding.checksums import running_content_checksum
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.log.writer import LogWriter, write_log_copy
from lsmkv.storage.file_names import UNFINISHED, log_path, table_path
from lsmkv.storage.storage import RandomFile, ReadKind, Storage
from lsmkv.tree.capture import Capture
from lsmkv.tree.manifest import Manifest, State

_COPY_BYTES: Final = 1 << 20
# What links fail with where a copy may succeed: other devices, file systems without links, files of
# other users, too many links; and a table that a compaction has removed meanwhile.
_CANNOT_LINK: Final = {
    errno.EXDEV,
    errno.EPERM,
    errno.EACCES,
    errno.EMLINK,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.ENOENT,
}


def link_table(storage: Storage, source: str, file: RandomFile, target: str) -> bool:
    """Give a table, which is open, a second name; False where links are refused."""
    try:
        storage.link(source, target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return False
    if storage.is_at(target, file):
        return True
    storage.remove(target)  # another store took the place of the source
    return False


def copy_table(storage: Storage, file: RandomFile, path: str, steps: Steps) -> str:
    """Copy a table to ``path``, whole and synced; returns its XXH3-128 in hexadecimal."""
    temporary = path + UNFINISHED
    storage.remove(temporary)
    running = running_content_checksum()
    try:
        with storage.create(temporary) as copy:
            for offset in range(0, file.size, _COPY_BYTES):
                data = _read(file, offset)
                running.update(data)
                copy.append(data)
                steps.add(len(data))
            copy.sync()
        storage.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            storage.remove(temporary)
        raise
    return running.hexdigest()


def content_of(file: RandomFile) -> str:
    """The XXH3-128 of a file's bytes, in hexadecimal."""
    running = running_content_checksum()
    for offset in range(0, file.size, _COPY_BYTES):
        running.update(_read(file, offset))
    return running.hexdigest()


def _read(file: RandomFile, offset: int) -> bytes:
    return file.pread(offset, min(_COPY_BYTES, file.size - offset), ReadKind.COMPACTION, 0)


def copy_logs(storage: Storage, capture: Capture, target: str, steps: Steps) -> State:
    """Copy the logs; returns the state that a store with them has, closed properly."""
    for log in capture.logs:
        salt = log.salt if log is capture.logs[-1] else None
        path = log_path(target, log.number)
        write_log_copy(storage, path, log.end, log.read, mark_with=salt)
        steps.add(log.end)
    if not capture.logs:
        return with_empty_log(storage, target, capture.state)
    last = capture.logs[-1]
    next_file = max(capture.state.next_file, last.number + 1)
    closed = last.number, last.end
    return replace(capture.state, next_file=next_file, closed_log=closed, closed_salt=last.salt)


def with_empty_log(storage: Storage, target: str, state: State) -> State:
    """The state with a new log that has no record, closed properly."""
    number = state.next_file
    log = LogWriter.create(storage, log_path(target, number), number, "log")
    log.close()
    return replace(
        state,
        next_file=number + 1,
        log_number=number,
        closed_log=(number, HEADER_BYTES),
        closed_salt=log.salt,
    )


def install(storage: Storage, target: str, state: State, store_id: str = "") -> None:
    """Make the files a store: sync their names, write a manifest, and name it in CURRENT.

    Its identity is ``store_id``, or a new one: never that of the store it is copied from.
    """
    storage.sync_directory(target)
    manifest = Manifest(storage, target, replace(state, store_id=store_id))
    try:
        manifest.rewrite()
    finally:
        manifest.close()


def source_path(capture: Capture, number: int) -> str | None:
    """Where a table of the captured store is; None in object storage."""
    return None if capture.directory is None else table_path(capture.directory, number)
