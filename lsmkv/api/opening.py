"""Opens, creates and destroys stores."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final

from lsmkv.api.db import DB
from lsmkv.api.readers import engine_for_reading
from lsmkv.background.events import OnEvent
from lsmkv.engine.engine import Engine
from lsmkv.errors import LockedError, NotAStoreError, StoreExistsError
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.options import Options, check_names
from lsmkv.runtime import check_interpreter
from lsmkv.storage.file_names import (
    BACKUP,
    CURRENT,
    LOCK,
    UNFINISHED_COPY,
    is_staging_name,
    parse_file_name,
)
from lsmkv.storage.storage import FileLock, PathLike, Storage, absolute_path, is_url
from lsmkv.storage.store_lock import holds_store, lock_store
from lsmkv.tree.manifest import CURRENT_BYTES
from lsmkv.tree.ownership import check_is_ours


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
    storage: Storage | None = None,
    **overrides: Any,
) -> DB:
    """Open the store in a directory, or a published one.

    Args:
        path: a directory that holds nothing else; or, with ``read_only=True``, the URL to which a store
            was published (``DB.publish``): ``s3://bucket/prefix``, ``gs://...``, ``az://...``.
        options: how to write and read the store (default: ``Options()``).
        create_if_missing: create the directory and a new store if there is none.
        error_if_exists: refuse to open a store that exists.
        read_only: change nothing and take no lock, so that another process may write to the store
            (``DB.refresh`` shows what it has written since).
        wait_s: how many seconds to wait while another handle has the store open for writing; 0 does not
            wait, ``math.inf`` waits for ever, and Ctrl-C ends the wait.  Reading waits for nobody.
        refresh_every_s: with ``read_only=True``, call ``DB.refresh`` that often, in a thread that
            ``close`` ends.  Errors are logged and raised by the next ``DB.refresh``.  None: never.
        on_event: called with an :class:`lsmkv.Event` after each flush, compaction, stall of a write,
            failure, ingest and refresh, in the thread where that happened, without any lock.  It must
            be thread-safe and quick: the thread waits for it.  It may read and write the store, but
            ``flush``, ``compact_range``, ``ingest``, ``bulk_load``, ``wait_until_settled`` and
            ``resume`` raise RuntimeError in it.  Exceptions of type Exception are logged and dropped.
            Others (KeyboardInterrupt, SystemExit, ...) are raised in threads of the program, whose
            write, if it was waiting for room, is then not done; in the store's own threads they are
            logged and dropped, too.  A pickled handle has none.  None: the logger ``lsmkv`` alone is
            told.
        storage: reads and writes the files; for tests.
        **overrides: single options that replace those in ``options``.

    Raises:
        NotAStoreError: there is no store, and ``create_if_missing`` is false.
        StoreExistsError: there is a store, and ``error_if_exists`` is true.
        LockedError: another process, or this one, has the store open for writing, after ``wait_s`` too.
        MissingExtraError: the path is a URL, and ``lsmkv[remote]`` is not installed.
        CorruptionError, UnsupportedFormatError: the store is damaged, or of an unknown format.
        TypeError, ValueError: an option or the path is wrong; nothing was changed.
        OSError: a file cannot be read or written.
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
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"options is an lsmkv.Options, not {type(options).__name__}")
    check_names(overrides, besides=_PARAMETERS)
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
    chosen = (Options() if options is None else options).replace(**overrides).within_budget()
    if is_url(path):
        if not read_only or error_if_exists:
            raise ValueError(
                f"path={path!r}: stores in object storage are only read, with read_only=True; "
                "write to a store in a directory, and publish it"
            )
        return DB(
            _opened(engine_for_reading(str(path), chosen, refresh_every_s, on_event=on_event))
        )
    directory = absolute_path(path)
    files = storage or Storage(direct_reads=chosen.direct_reads, file_mode=chosen.file_mode)
    _must_open(files, directory, create_if_missing and not read_only, error_if_exists)
    if read_only:
        engine = engine_for_reading(directory, chosen, refresh_every_s, files, on_event)
        return DB(_opened(engine))
    files.make_directory(directory)
    lock = _lock(files, directory, wait_s)
    try:
        engine = Engine(directory, chosen, files, lock, on_event=on_event)
    except BaseException:
        lock.release()
        raise
    try:
        # Asked again: another process may have made a store before this one had the lock.
        if _must_open(files, directory, create_if_missing, error_if_exists):
            engine.open()
        else:
            # Whoever made the directory may have failed before its name was durable.
            with contextlib.suppress(PermissionError):  # its parent may not be readable
                files.sync_directory(os.path.dirname(directory))
            engine.create()
        return DB(engine)
    except BaseException:
        engine.abandon()
        raise


def _opened(engine: Engine) -> Engine:
    try:
        engine.open_read_only()
    except BaseException:
        engine.close()
        raise
    return engine


_SIDE_FILES: Final = {f"{CURRENT}.tmp", BACKUP, f"{BACKUP}.tmp", UNFINISHED_COPY}
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


def _must_open(
    files: Storage, directory: str, create_if_missing: bool, error_if_exists: bool
) -> bool:
    """Whether there is a store to open; False when there is one to create.

    An unfinished creation leaves a log without records and a manifest, which are no store.
    """
    if holds_store(files, directory):
        if error_if_exists:
            raise StoreExistsError(f"{directory} holds a store already")
        # The length of a sound CURRENT spares reading it twice.
        if files.file_size(os.path.join(directory, CURRENT)) < CURRENT_BYTES:
            check_is_ours(files, directory)
        return True
    names = files.list_directory(directory) if files.exists(directory) else []
    if UNFINISHED_COPY in names:
        raise NotAStoreError(
            f"{directory} holds an unfinished checkpoint or backup: make it again, or remove the "
            "directory"
        )
    kept = next((name for name in names if _holds_entries(files, directory, name)), None)
    if kept is not None:
        if holds_store(files, directory):  # another process has just made it
            return True
        raise NotAStoreError(
            f"{directory} holds {kept} but no {CURRENT}: a store that lost it, "
            "which lsmkv.repair can rebuild"
        )
    if not create_if_missing:
        raise _no_store(directory)
    return False


def _holds_entries(files: Storage, directory: str, name: str) -> bool:
    kind, _ = parse_file_name(name) or ("", 0)
    try:
        return kind == "table" or (
            kind == "log" and files.file_size(os.path.join(directory, name)) > HEADER_BYTES
        )
    except FileNotFoundError:  # another process is creating a store here
        return False


def _lock(files: Storage, directory: str, wait_s: float) -> FileLock:
    try:
        return lock_store(files, directory, wait_s)
    except LockedError as error:
        raise LockedError(error.path, error.pid, may_read=True) from None


def _no_store(directory: str) -> NotAStoreError:
    return NotAStoreError(f"{directory} holds no lsmkv store (it has no {CURRENT})")


def destroy(path: PathLike) -> None:
    """Remove the store in the directory ``path``.

    The directory is removed if nothing else is in it.

    Raises:
        NotAStoreError: there is no store.
        LockedError: the store is open for writing.
        OSError: a file cannot be removed.
    """
    directory = absolute_path(path)
    files = Storage()
    if not holds_store(files, directory):
        raise _no_store(directory)
    check_is_ours(files, directory)
    with lock_store(files, directory):
        files.remove(os.path.join(directory, CURRENT))
        files.sync_directory(directory)
        for name in files.list_directory(directory):
            if parse_file_name(name) is not None or name in _SIDE_FILES:
                files.remove(os.path.join(directory, name))
            elif is_staging_name(name):
                files.remove_tree(os.path.join(directory, name))
        files.remove(os.path.join(directory, LOCK))
    with contextlib.suppress(OSError):
        files.remove_directory(directory)
