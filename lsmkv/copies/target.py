"""The directory in which a copy of a store is made.

A new copy needs an empty directory.  The file ``UNFINISHED`` is there before any other file of the copy,
and until CURRENT is: so nobody takes half a copy for a damaged store, and the next attempt knows that it
may clear the directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import Final

from lsmkv.storage.file_names import BACKUP, CURRENT, LOCK, UNFINISHED_COPY, parse_file_name
from lsmkv.storage.storage import UNFINISHED, Storage
from lsmkv.storage.store_lock import lock_store

_NOTE: Final = (
    b"A checkpoint or a first backup of a store was being made here, and is not whole while this file\n"
    b"is here without a file CURRENT.  Make it again, or remove the directory.\n"
)
_OURS: Final = {LOCK, UNFINISHED_COPY, BACKUP, BACKUP + UNFINISHED, CURRENT + UNFINISHED}

Progress = Callable[[int, int], object]


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
    names = set(storage.list_directory(target))
    if CURRENT in names:
        reason = "holds a store already; give a directory that is empty or does not exist"
        raise FileExistsError(errno.EEXIST, reason, target)
    allowed = {LOCK}
    if UNFINISHED_COPY in names:
        allowed = _OURS | {name for name in names if parse_file_name(name) is not None}
    if others := sorted(names - allowed):
        reason = f"is not empty (it has {others[0]}); give a directory that is, or does not exist"
        raise FileExistsError(errno.EEXIST, reason, target)


@contextlib.contextmanager
def new_copy(storage: Storage, target: str, *, keep: bool) -> Iterator[None]:
    """Prepare ``target`` for a new copy, which the block makes, CURRENT last.

    An error removes what the block has made; with ``keep`` it stays for the next attempt, and so does
    what an earlier attempt left.
    """
    existed = storage.exists(target)
    storage.make_directory(target)
    with locked(storage, target):
        check_new(storage, target)  # again: another process may have been faster
        try:
            _mark(storage, target)
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


@contextlib.contextmanager
def locked(storage: Storage, target: str) -> Iterator[None]:
    lock = lock_store(storage, target)
    try:
        yield
    finally:
        lock.release()


def _mark(storage: Storage, target: str) -> None:
    path = os.path.join(target, UNFINISHED_COPY)
    if not storage.exists(path):
        with storage.create(path) as file:
            file.append(_NOTE)
            file.sync()
    storage.sync_directory(target)


def _clear(storage: Storage, target: str) -> None:
    """Remove everything but the lock and the marker."""
    for name in storage.list_directory(target):
        if name not in (LOCK, UNFINISHED_COPY):
            storage.remove(os.path.join(target, name))
