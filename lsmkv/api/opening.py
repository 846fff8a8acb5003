"""Opens, creates and destroys stores."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Final, Unpack

from lsmkv.api.db import DB
from lsmkv.api.places import location_of, new_storage
from lsmkv.background.events import OnEvent
from lsmkv.encoding.expiry import Clock
from lsmkv.engine.engine import Engine
from lsmkv.engine.location import Directory
from lsmkv.errors import LockedError, NotAStoreError, StoreExistsError
from lsmkv.options import Options, OptionsDict, chosen_options
from lsmkv.runtime import check_interpreter
from lsmkv.storage.file_names import (
    BACKUP,
    CURRENT,
    ERASED,
    LOCK,
    UNFINISHED_COPY,
    is_staging_name,
    is_unfinished_name,
    parse_file_name,
)
from lsmkv.storage.storage import FileLock, PathLike, Storage, absolute_path, is_url, shown_url
from lsmkv.storage.store_lock import holds_store, lock_store
from lsmkv.tree.manifest import no_store
from lsmkv.tree.ownership import (
    check_is_ours,
    is_our_lock,
    is_our_record,
    is_unfinished_copy,
    leftovers_of_creation,
)


def open(  # more than 60 lines: its parameters and its docstring
    path: PathLike,
    options: Options | None = None,
    *,
    create_if_missing: bool = True,
    error_if_exists: bool = False,
    read_only: bool = False,
    wait_s: float = 0.0,
    refresh_every_s: float | None = None,
    on_event: OnEvent | None = None,
    clock: Callable[[], float] = time.time,
    storage: Storage | None = None,
    **overrides: Unpack[OptionsDict],
) -> DB:
    """Open the store in a directory, or a published one.

    Args:
        path: a directory that holds nothing else: a new store is made only in one that is missing or
            empty (but for ``lost+found``, ``.DS_Store`` and the like), or in which a creation was cut
            short.  Or, with ``read_only=True``, the URL to which a store was published (``DB.publish``).
        options: how to write and read the store (default: ``Options()``).
        create_if_missing: create the directory and a new store if there is none.
        error_if_exists: refuse to open a store that exists.
        read_only: change nothing and take no lock, so that another process may write to the store
            (``DB.refresh`` shows what it has written since).  Files that are symbolic links are read.
        wait_s: how many seconds to wait while another handle has the store open for writing; 0 does not
            wait, ``math.inf`` waits for ever, and Ctrl-C ends the wait.  Reading waits for nobody.
        refresh_every_s: with ``read_only=True``, call ``DB.refresh`` that often, in a thread that
            ``close`` ends.  Errors are logged and raised by the next ``DB.refresh``.  None: never.
        on_event: called with an :class:`lsmkv.Event` after each flush, compaction, stall of a write,
            failure, ingest and refresh, in the thread where that happened, which waits for it, without
            any lock.  It must be thread-safe.  It may read and write the store, but ``flush``,
            ``compact_range``, ``ingest``, ``bulk_load``, ``wait_until_settled`` and ``resume`` raise
            RuntimeError in it.  Its exceptions are logged and dropped; but KeyboardInterrupt, SystemExit
            and the like are raised in threads of the program, whose write, if it was waiting for room,
            is then not done.  A pickled handle has none.  None: the logger ``lsmkv`` alone is told.
        clock: tells the time by which entries are due, in seconds since 1970; for tests.  Where it is
            set back, entries that were due are there again until a compaction drops them.
        storage: reads and writes the files; for tests.
        **overrides: single options that replace those in ``options``.

    Raises:
        NotAStoreError: there is no store, and ``create_if_missing`` is false; or the directory holds
            files of another program, of a store that lost its CURRENT, or of an unfinished copy.
        StoreExistsError: there is a store, and ``error_if_exists`` is true.
        LockedError: another process, or this one, has the store open for writing, after ``wait_s`` too.
        MissingExtraError: the path is a URL, and ``lsmkv[remote]`` is not installed.
        CorruptionError, UnsupportedFormatError: the store is damaged, or of an unknown format.
        TypeError, ValueError: an option or the path is wrong; nothing was changed.
        OSError: a file cannot be read or written, or the file system has no locks.
        RuntimeError: this interpreter runs without the global lock.

    >>> import lsmkv, tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     with lsmkv.open(path, error_rate=0.001) as db:
    ...         db[b"key"] = b"value"
    ...     with lsmkv.open(path, read_only=True) as db:
    ...         db[b"key"], b"no" in db
    (b'value', False)
    """
    check_interpreter()
    chosen = chosen_options(options, overrides, besides=_PARAMETERS).within_budget()
    _check_flags(
        create_if_missing=create_if_missing, error_if_exists=error_if_exists, read_only=read_only
    )
    _check_seconds("wait_s", wait_s, 0.0)
    if refresh_every_s is not None:
        _check_seconds("refresh_every_s", refresh_every_s, _MOST_FREQUENT_S)
        if not read_only:
            raise ValueError(
                f"refresh_every_s={refresh_every_s!r}: only a store opened with read_only=True has "
                "something to refresh; leave it out"
            )
    if on_event is not None and not callable(on_event):
        raise TypeError(f"on_event is a function of one event, not {on_event!r}")
    if not callable(clock):
        raise TypeError(f"clock is a function that tells seconds since 1970, not {clock!r}")
    if is_url(path):
        from lsmkv.remote.urls import checked_url

        checked_url(str(path))
        if not read_only or error_if_exists:
            raise ValueError(
                f"path={shown_url(str(path))!r}: stores in object storage are only read, with "
                "read_only=True; write to a store in a directory, and publish it"
            )
        location = location_of(str(path), chosen)
    else:
        directory = absolute_path(path)
        files = storage or new_storage(chosen, read_only=read_only)
        may_create = create_if_missing and not read_only
        if _to_create(files, directory, may_create, error_if_exists) is None:
            check_is_ours(files, directory)
        if not read_only:
            files.make_directory(directory)
        location = Directory(directory, files)
    engine = Engine(
        location,
        chosen,
        read_only=read_only,
        refresh_every_s=refresh_every_s,
        on_event=on_event,
        clock=Clock(clock, chosen.default_ttl_s),
    )
    db = DB(engine)  # first: whatever interrupts come, the end of this object closes the engine
    try:
        if read_only:
            engine.open_read_only()
            return db
        engine.lock = _lock(files, directory, wait_s)
        # Asked again: another process may have made a store before this one had the lock.
        leftovers = _to_create(files, directory, create_if_missing, error_if_exists)
        if leftovers is None:
            engine.open()
        else:
            files.sync_name(directory)  # whoever made it may have failed before
            engine.create(leftovers)
        return db
    except BaseException:
        engine.abandon()
        raise


_MOST_FREQUENT_S: Final = 0.001  # a thread that refreshes more often does nothing else
_PARAMETERS: Final = ("options", *(open.__kwdefaults__ or ()))


def _check_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} is True or False, not {flag!r}")


def _check_seconds(name: str, seconds: object, least: float) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {seconds!r}")
    if not seconds >= least:  # nor is NaN
        raise ValueError(f"{name}={seconds!r}: give {least:g} or more seconds")


def _to_create(
    files: Storage, directory: str, create_if_missing: bool, error_if_exists: bool
) -> list[str] | None:
    """The leftovers where a store is to be created.  None: there is a store to open."""
    if holds_store(files, directory):
        if error_if_exists:
            raise StoreExistsError(f"{directory} holds a store already")
        return None
    try:
        leftovers = leftovers_of_creation(files, directory) if files.exists(directory) else []
    except NotAStoreError:
        if holds_store(files, directory):  # another process has just made it
            return _to_create(files, directory, create_if_missing, error_if_exists)
        raise
    if not create_if_missing:
        raise no_store(files, directory)
    return leftovers


def _lock(files: Storage, directory: str, wait_s: float) -> FileLock:
    try:
        return lock_store(files, directory, wait_s)
    except LockedError as error:
        raise LockedError(error.path, error.pid, may_read=True) from None


def destroy(path: PathLike) -> None:
    """Remove the store in the directory ``path``.

    Files that are not the store's stay, and so does the directory then.

    Raises:
        NotAStoreError: there is no store, or it is another program's.
        LockedError: the store is open for writing.
        OSError: a file cannot be removed.
    """
    directory = absolute_path(path)
    files = Storage()
    if not holds_store(files, directory):
        raise no_store(files, directory)
    check_is_ours(files, directory)
    with lock_store(files, directory):
        files.remove(os.path.join(directory, CURRENT))
        files.sync_directory(directory)
        for name in files.list_directory(directory):
            if is_staging_name(name):
                files.remove_tree(os.path.join(directory, name))
            elif not os.path.isdir(os.path.join(directory, name)) and (
                parse_file_name(name) is not None
                or is_unfinished_name(name)
                or (name in (BACKUP, ERASED) and is_our_record(files, directory, name))
                or (name == UNFINISHED_COPY and is_unfinished_copy(files, directory))
            ):
                files.remove(os.path.join(directory, name))
        if is_our_lock(files, directory):
            files.remove(os.path.join(directory, LOCK))
    with contextlib.suppress(OSError):
        files.remove_directory(directory)
