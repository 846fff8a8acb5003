"""Opening stores, making and destroying them: ``open`` and ``destroy``."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final

from lsmkv.api.db import DB
from lsmkv.engine.engine import Engine
from lsmkv.errors import LockedError, NotAStoreError, StoreExistsError
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.options import Options, check_names
from lsmkv.runtime import check_interpreter
from lsmkv.storage.file_names import CURRENT, LOCK, parse_file_name
from lsmkv.storage.storage import FileLock, PathLike, Storage, absolute_path
from lsmkv.storage.store_lock import holds_store, lock_store
from lsmkv.tree.manifest import CURRENT_BYTES
from lsmkv.tree.ownership import check_is_ours


def open(
    path: PathLike,
    options: Options | None = None,
    *,
    create_if_missing: bool = True,
    error_if_exists: bool = False,
    read_only: bool = False,
    storage: Storage | None = None,
    **overrides: Any,
) -> DB:
    """Open the store in the directory ``path``.

    Args:
        path: a directory of the store's own.
        options: how to write and read it; the defaults are ``Options()``.
        create_if_missing: make the directory and a new store when there is none.
        error_if_exists: refuse a store that is there already.
        read_only: change nothing and take no lock; works beside a writer in another process
            (``DB.refresh`` shows what it has written since).
        storage: what does the reading and writing of files; for tests.
        **overrides: single options, in place of those in ``options``.

    Raises:
        NotAStoreError: there is no store, and none is to be made.
        StoreExistsError: there is one, with ``error_if_exists``.
        LockedError: it is open for writing elsewhere.
        CorruptionError, UnsupportedFormatError: what is there cannot be trusted, or read.
        TypeError, ValueError: an option or the path is wrong; nothing was touched.
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
    for name, flag in (
        ("create_if_missing", create_if_missing),
        ("error_if_exists", error_if_exists),
        ("read_only", read_only),
    ):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} is True or False, not {flag!r}")
    chosen = (Options() if options is None else options).replace(**overrides)
    directory = absolute_path(path)
    files = storage or Storage(direct_reads=chosen.direct_reads, file_mode=chosen.file_mode)
    exists = holds_store(files, directory)
    if exists:
        if error_if_exists:
            raise _store_exists(directory)
        # A look at its length spares reading it twice.
        if files.file_size(os.path.join(directory, CURRENT)) < CURRENT_BYTES:
            check_is_ours(files, directory)
    if read_only:
        if not exists:
            _check_creation(files, directory, create_if_missing=False)
        engine = Engine(directory, chosen, files, None)
        engine.open_read_only()
        return DB(engine)
    if not exists:
        _check_creation(files, directory, create_if_missing)
    files.make_directory(directory)
    engine = Engine(directory, chosen, files, _lock(files, directory))
    try:
        if holds_store(files, directory):
            if error_if_exists:  # somebody has made it meanwhile
                raise _store_exists(directory)
            engine.open()
        else:
            _check_creation(files, directory, create_if_missing)
            # Whoever made the directory may have died, or failed, before its name was durable.
            with contextlib.suppress(PermissionError):  # of one who may not even read its parent
                files.sync_directory(os.path.dirname(directory))
            engine.create()
        return DB(engine)
    except BaseException:
        engine.abandon()
        raise


_PARAMETERS: Final = ("options", *(open.__kwdefaults__ or ()))


def _lock(files: Storage, directory: str) -> FileLock:
    try:
        return lock_store(files, directory)
    except LockedError as error:
        raise LockedError(error.path, error.pid, may_read=True) from None


def _store_exists(directory: str) -> StoreExistsError:
    return StoreExistsError(f"{directory} holds a store already")


def _check_creation(files: Storage, directory: str, create_if_missing: bool) -> None:
    """Refuse to make a store where none is wanted, or over one that has lost its CURRENT.

    What a creation that was cut short leaves behind, a log without records and a manifest, is no
    obstacle.
    """
    names = files.list_directory(directory) if files.exists(directory) else []
    if holds_store(files, directory):  # made by another process just now
        return
    for name in names:
        kind, _ = parse_file_name(name) or ("", 0)
        if kind == "table" or (kind == "log" and _holds_records(files, directory, name)):
            raise NotAStoreError(
                f"{directory} holds {name} but no {CURRENT}: a store that lost it, "
                "which lsmkv.repair can rebuild"
            )
    if not create_if_missing:
        raise NotAStoreError(f"{directory} holds no lsmkv store (it has no {CURRENT})")


def _holds_records(files: Storage, directory: str, log: str) -> bool:
    try:
        return files.file_size(os.path.join(directory, log)) > HEADER_BYTES
    except FileNotFoundError:  # another process is making a store here
        return False


def destroy(path: PathLike) -> None:
    """Remove the store in the directory ``path``, and the directory if nothing else is in it.

    Raises:
        NotAStoreError: there is no store.
        LockedError: it is open for writing.
        OSError: a file cannot be removed.
    """
    directory = absolute_path(path)
    files = Storage()
    if not holds_store(files, directory):
        raise NotAStoreError(f"{directory} holds no lsmkv store (it has no {CURRENT})")
    check_is_ours(files, directory)
    with lock_store(files, directory):
        files.remove(os.path.join(directory, CURRENT))
        files.sync_directory(directory)
        for name in files.list_directory(directory):
            if parse_file_name(name) is not None or name == f"{CURRENT}.tmp":
                files.remove(os.path.join(directory, name))
        files.remove(os.path.join(directory, LOCK))
    with contextlib.suppress(OSError):
        files.remove_directory(directory)
