"""The directory in which a copy of a store is made.

A new copy needs an empty directory.  The file ``UNFINISHED`` is there, whole, before any other file of
the copy, and until CURRENT is: so nobody takes half a copy for a damaged store, and the next attempt
knows that the files with names of a store's are its own to remove.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from lsmkv.inspection.report import Progress
from lsmkv.storage.file_names import (
    BACKUP,
    CURRENT,
    ERASED,
    LOCK,
    UNFINISHED_COPY,
    is_let_be,
    is_unfinished_name,
    parse_file_name,
)
from lsmkv.storage.storage import Storage
from lsmkv.storage.store_lock import lock_store
from lsmkv.tree.ownership import UNFINISHED_NOTE, is_our_lock, is_unfinished_copy


class Steps:
    """Tells ``progress`` how many bytes of a copy are there."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, size_bytes: int) -> None:
        self._done += size_bytes
        if self._progress is not None:
            self._progress(self._done, self._total)


def check_outside(source: str, target: str) -> None:
    """Raise ValueError if ``target`` is the store's directory, or inside it."""
    parent = os.path.realpath(target)
    while True:
        with contextlib.suppress(FileNotFoundError):  # the target need not exist yet
            if os.path.samefile(parent, source):
                raise ValueError(
                    f"{target} is the store's own directory, or inside it: give a directory outside"
                )
        if parent == os.path.dirname(parent):
            return
        parent = os.path.dirname(parent)


def check_new(storage: Storage, target: str) -> None:
    """Raise FileExistsError if a new copy cannot be made in ``target``."""
    if not storage.exists(target):
        return
    names = storage.list_directory(target)
    if CURRENT in names:
        reason = "holds a store already; give a directory that is empty or does not exist"
        raise FileExistsError(errno.EEXIST, reason, target)
    is_begun = is_unfinished_copy(storage, target)
    for name in names:
        if name == LOCK:
            is_allowed = is_our_lock(storage, target)
        else:
            is_of_copy = is_begun and _is_of_copy(name)
            is_allowed = is_let_be(name) or is_unfinished_name(name) or is_of_copy
        if not is_allowed:
            reason = f"is not empty (it has {name}); give a directory that is, or does not exist"
            raise FileExistsError(errno.EEXIST, reason, target)


@contextlib.contextmanager
def new_copy(storage: Storage, target: str, *, keep: bool) -> Iterator[None]:
    """Prepare ``target`` for a copy, CURRENT last; an error removes all, unless ``keep`` is set."""
    existed = storage.exists(target)
    storage.make_directory(target)
    if existed:
        storage.sync_name(target)  # whoever made it may have failed before
    with lock_store(storage, target):
        check_new(storage, target)  # again: another process may have been faster
        try:
            path = os.path.join(target, UNFINISHED_COPY)
            if storage.exists(path):
                storage.sync_directory(target)
            else:
                storage.write_atomically(path, UNFINISHED_NOTE)
            if not keep:
                _clear(storage, target)
            yield
        except BaseException:
            # If CURRENT is there, only its last sync failed: then the copy is whole.
            if not keep and not storage.exists(os.path.join(target, CURRENT)):
                with contextlib.suppress(OSError):
                    _clear(storage, target)
                    storage.remove(os.path.join(target, UNFINISHED_COPY))
                    storage.remove(os.path.join(target, LOCK))
                    if not existed:
                        storage.remove_directory(target)
            raise
        with contextlib.suppress(OSError):  # the copy is whole; an opening for writing removes it
            storage.remove(os.path.join(target, UNFINISHED_COPY))
            storage.sync_directory(target)


def _clear(storage: Storage, target: str) -> None:
    """Remove the files of the copy, except the marker."""
    for name in storage.list_directory(target):
        if is_unfinished_name(name) or (_is_of_copy(name) and name != UNFINISHED_COPY):
            storage.remove(os.path.join(target, name))


def _is_of_copy(name: str) -> bool:
    return name in (BACKUP, ERASED, UNFINISHED_COPY) or parse_file_name(name) is not None
