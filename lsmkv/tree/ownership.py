"""Tells whose files are in a directory.

Nothing is changed in another program's.  LevelDB and RocksDB have files with the names of a store's, and
anybody may call a file ``LOCK``.  So contents count: CURRENT with its checksum, the magic of logs,
manifests and tables, the words in ``LOCK`` and ``UNFINISHED``.  Of unfinished files the suffix counts,
which no other program uses.

A new store is made in this order: ``LOCK``, the log, the manifest, CURRENT.  Each of the last three gets
its name once it is whole and synced.  So whatever a crash leaves of it, each file can be told from any
other program's.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import replace
from typing import Final

from lsmkv.errors import CorruptionError, NotAStoreError, UnsupportedFormatError
from lsmkv.log.reader import HEADER_BYTES, LOG_MAGIC, read_log
from lsmkv.sstable.format import TABLE_MAGIC
from lsmkv.storage.file_names import (
    CURRENT,
    LOCK,
    UNFINISHED_COPY,
    is_let_be,
    is_unfinished_name,
    parse_file_name,
)
from lsmkv.storage.storage import MAX_LOCK_BYTES, ReadKind, Storage, is_lock_record
from lsmkv.tree.manifest import NEW_STATE, read_current, read_manifest

IS_A_FILE: Final = "is a file; a store is a directory"
UNFINISHED_NOTE: Final = (
    b"A checkpoint or a first backup of a store was being made here, and is not whole while this file\n"
    b"is here without a file CURRENT.  Make it again, or remove the directory.\n"
)
"""The contents of ``UNFINISHED``."""

MAGIC_BYTES: Final = len(LOG_MAGIC)
_RECORD_HEAD: Final = b'{"format":'
_HEAD_BYTES: Final = 200
# Links, pipes, folders.
_NOT_A_FILE: Final = {errno.ELOOP, errno.EOPNOTSUPP, errno.EISDIR, errno.ENXIO}
_FIRST_MANIFEST: Final = replace(NEW_STATE, next_file=NEW_STATE.next_file + 1)
_MOST_BYTES: Final = 1000  # of the first manifest
_THEIR_COMPARATOR: Final = b"leveldb."  # what LevelDB and RocksDB write into their manifests


def check_is_ours(storage: Storage, directory: str) -> None:
    """Raise NotAStoreError unless CURRENT is lsmkv's, or a damaged one's neighbours are."""
    link = ""
    try:
        read_current(storage, directory)
        return
    except (CorruptionError, NotAStoreError):
        pass
    except OSError as error:
        if error.errno not in _NOT_A_FILE:
            raise
        if error.errno == errno.ELOOP:
            link = f"; {CURRENT} {error.strerror}"
    names = storage.list_directory(directory)
    other = other_program(storage, directory, names)
    if other or _ours_among(storage, directory, names) is None:
        raise NotAStoreError(
            f"{directory} holds files that are not lsmkv's, though some are named like files of a store"
            + (f"; it is a store of {other}" if other else link)
        )


def leftovers_of_creation(storage: Storage, directory: str) -> list[str]:
    """Names of files that a creation of a store may remove.

    NotAStoreError if there is anything besides them and ``LOCK``; NotADirectoryError for a file.
    """
    try:
        names = [name for name in storage.list_directory(directory) if not is_let_be(name)]
    except NotADirectoryError as error:
        raise NotADirectoryError(error.errno, IS_A_FILE, directory) from None
    others = [name for name in names if not _is_of_creation(storage, directory, name)]
    if is_unfinished_copy(storage, directory):
        raise NotAStoreError(
            f"{directory} holds an unfinished checkpoint or backup: make it again, or remove the "
            "directory"
        )
    other = other_program(storage, directory, names)
    ours = _ours_among(storage, directory, others)
    if ours is not None and not other:
        raise NotAStoreError(
            f"{directory} holds {ours} but no {CURRENT}: a store that lost it, "
            "which lsmkv.repair can rebuild"
        )
    if others:
        found = f"a store of {other}" if other else f"{others[0]}, which is not lsmkv's"
        raise NotAStoreError(
            f"{directory} holds no lsmkv store, but {found}; a new store needs a directory that is "
            "empty or does not exist"
        )
    return [name for name in names if name != LOCK]


def other_program(storage: Storage, directory: str, names: list[str]) -> str:
    """The program whose manifest is among these files; empty if none is known."""
    for name in names:
        if (parse_file_name(name) or ("", 0))[0] == "manifest":
            with contextlib.suppress(OSError):
                head = _head(storage, os.path.join(directory, name), _HEAD_BYTES) or b""
                if _THEIR_COMPARATOR in head and not head.startswith(LOG_MAGIC):
                    return "LevelDB or RocksDB"
    return ""


def is_free(storage: Storage, directory: str) -> bool:
    """Whether a directory is empty, but for our lock and the like."""
    names = storage.list_directory(directory)
    return all(
        is_let_be(name) or (name == LOCK and is_our_lock(storage, directory)) for name in names
    )


def is_our_lock(storage: Storage, directory: str) -> bool:
    """Whether ``LOCK`` is missing, or holds nothing of another program."""
    head = _head(storage, os.path.join(directory, LOCK), MAX_LOCK_BYTES + 1)
    return head is not None and is_lock_record(head)


def is_unfinished_copy(storage: Storage, directory: str) -> bool:
    """Whether ``UNFINISHED`` is there, and ours."""
    with contextlib.suppress(OSError):
        path = os.path.join(directory, UNFINISHED_COPY)
        return _head(storage, path, len(UNFINISHED_NOTE) + 1) == UNFINISHED_NOTE
    return False


def is_our_record(storage: Storage, directory: str, name: str) -> bool:
    """Whether ``BACKUP`` or ``ERASED`` begins as ours does."""
    with contextlib.suppress(OSError):
        return _head(storage, os.path.join(directory, name), len(_RECORD_HEAD)) == _RECORD_HEAD
    return False


def _is_of_creation(storage: Storage, directory: str, name: str) -> bool:
    """Whether a creation may have left this file.

    It is unfinished, or just as a creation writes it, or empty: then nothing is lost with it.
    """
    if is_unfinished_name(name):
        return True
    kind, number = parse_file_name(name) or ("", 0)
    path = os.path.join(directory, name)
    try:
        if name == LOCK:
            return is_our_lock(storage, directory)
        if not kind:
            return False
        with storage.open_buffered(path) as file:
            size_bytes = file.size
        if not size_bytes:
            return True
        if (kind, number, size_bytes) == ("log", NEW_STATE.log_number, HEADER_BYTES):
            return read_log(storage, path, number, "log") is not None
        if (kind, number) == ("manifest", NEW_STATE.next_file) and size_bytes <= _MOST_BYTES:
            state, manifest = read_manifest(storage, directory, number)
            return replace(state, store_id="") == _FIRST_MANIFEST and not manifest.torn_bytes
    except FileNotFoundError:  # another process goes on with its creation
        return True
    except (CorruptionError, UnsupportedFormatError):
        return not storage.exists(path)
    except OSError as error:
        if error.errno not in _NOT_A_FILE:
            raise
    return False


def _ours_among(storage: Storage, directory: str, names: list[str]) -> str | None:
    """The first name of a log, manifest or table of lsmkv's."""
    for name in names:
        if parse_file_name(name) is not None and _has_our_magic(storage, directory, name):
            return name
    return None


def _has_our_magic(storage: Storage, directory: str, name: str) -> bool:
    with (
        contextlib.suppress(OSError, CorruptionError),
        storage.open_buffered(os.path.join(directory, name)) as file,
    ):
        if file.size >= MAGIC_BYTES:
            head = file.pread(0, MAGIC_BYTES, ReadKind.LOG, 0)
            tail = file.pread(file.size - MAGIC_BYTES, MAGIC_BYTES, ReadKind.LOG, 0)
            return head == LOG_MAGIC or tail == TABLE_MAGIC
    return False


def _head(storage: Storage, path: str, length: int) -> bytes | None:
    """The first bytes of a file, none without one; None for a link, a pipe or a folder."""
    try:
        with storage.open_buffered(path) as file:
            return file.pread(0, min(length, file.size), ReadKind.LOG, 0)
    except (FileNotFoundError, CorruptionError):  # it became shorter meanwhile
        return b""
    except OSError as error:
        if error.errno not in _NOT_A_FILE:
            raise
        return None
