"""Backups of a store, open or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lsmkv.api.db import DB
from lsmkv.copies.backup import BackupReport, back_up
from lsmkv.engine.engine import Engine
from lsmkv.engine.location import capture_directory
from lsmkv.options import Options
from lsmkv.storage.storage import PathLike, Storage, absolute_path
from lsmkv.storage.store_lock import holds_store
from lsmkv.tree.capture import Capture
from lsmkv.tree.manifest import read_current
from lsmkv.tree.ownership import check_is_ours


def backup(
    source: PathLike | DB,
    target: PathLike,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> BackupReport:
    """Copy a store to ``target``, or renew the backup there.

    It has everything that was acknowledged before this call.  The source may be written to meanwhile,
    by this process or another.  A source that is open for writing here is flushed first.  Nothing is
    linked: the two share no file.  Tables that are in the target already, with the same length and
    checksums, are not copied again.

    A backup is a store: ``lsmkv.open(target, read_only=True)`` reads it, ``DB.verify`` checks it, and a
    copy of the directory restores it.  Its identity (``StoreInfo.store_id``) is its own, and stays
    when it is renewed.  At every moment, also after a crash or a power failure, the target opens as the
    previous backup or as the new one.  After an interruption the same call goes on.

    Args:
        source: a store's directory, or an open store.
        target: an empty directory, one that does not exist, or a backup of this store; not inside it.
        progress: called with the bytes that are there so far, and with all.

    Raises:
        NotAStoreError: there is no store in ``source``.
        FileExistsError: ``target`` holds something else than a backup, or one that was written to.
        ValueError: ``target`` is the backup of another store, or of a later state of this one; or it is
            inside the source.
        LockedError: ``target`` is open for writing, or another backup to it is under way.
        CorruptionError, UnsupportedFormatError: the source or the backup is damaged, or of an unknown
            format.
        OSError: a file cannot be read or written; the previous backup is as it was.
        BackgroundError: the source takes no writes after a failure; ``resume`` first.
    """
    directory = absolute_path(target, "target")
    if not isinstance(source, DB):
        path, storage = absolute_path(source, "source"), Storage()
        if holds_store(storage, path):
            check_is_ours(storage, path)
        read_current(storage, path)  # raises without a store
        capture = partial(capture_directory, storage, path)
        return back_up(storage, path, capture, directory, Options(), progress)
    engine = source._engine
    engine.state.require_open()
    location = engine.location
    if location.directory is None:
        raise ValueError(
            f"source={location.name!r}: it is a published store, and a backup is of a directory; "
            "DB.checkpoint downloads one"
        )
    capture = partial(_capture, engine)
    options = engine.state.options
    return back_up(location.storage, location.directory, capture, directory, options, progress)


def _capture(engine: Engine) -> Capture:
    """The present state; of a store that is open for writing without its logs, after a flush."""
    if engine.state.read_only:
        return engine.capture()
    engine.upkeep.flush()
    captured = engine.capture()
    return replace(captured, last_seq=captured.state.last_seq)
