"""Refuses directories whose files another program wrote."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from lsmkv.errors import CorruptionError, NotAStoreError
from lsmkv.log.reader import LOG_MAGIC
from lsmkv.sstable.format import TABLE_MAGIC
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.manifest import read_current

_NOT_A_FILE: Final = {
    errno.ELOOP,
    errno.EOPNOTSUPP,
    errno.EISDIR,
    errno.ENXIO,
}  # links, pipes, folders

MAGIC_BYTES: Final = len(LOG_MAGIC)


def check_is_ours(storage: Storage, directory: str) -> None:
    """Raise NotAStoreError unless lsmkv wrote CURRENT, or any file beside it.

    LevelDB and RocksDB have a file of that name, too.
    """
    try:
        read_current(storage, directory)
        return
    except (CorruptionError, NotAStoreError):
        pass
    except OSError as error:
        if error.errno not in _NOT_A_FILE:
            raise
    for name in storage.list_directory(directory):
        if parse_file_name(name) is not None and _has_our_magic(storage, directory, name):
            return
    raise NotAStoreError(
        f"{directory} holds files that are not lsmkv's, though some are named like files of a store"
    )


def _has_our_magic(storage: Storage, directory: str, name: str) -> bool:
    with contextlib.suppress(OSError):
        file = storage.open_random(os.path.join(directory, name))
        if file.size >= MAGIC_BYTES:
            head = file.pread(0, MAGIC_BYTES, ReadKind.LOG)
            tail = file.pread(file.size - MAGIC_BYTES, MAGIC_BYTES, ReadKind.LOG)
            return head == LOG_MAGIC or tail == TABLE_MAGIC
    return False
