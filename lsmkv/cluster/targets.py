"""Where a build puts its tables: a store's directory, or object storage.

The coordinator makes a target and adopts the tables at the end.  What workers need of it is in each
:class:`~lsmkv.cluster.partition.PartitionJob`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from lsmkv.api import opening
from lsmkv.api.db import DB
from lsmkv.cluster.partition import Upload, WrittenTables
from lsmkv.compaction.picker import LEVELED_RUN, level_target_bytes
from lsmkv.engine.adoption import Staging
from lsmkv.options import Options
from lsmkv.stats import Stats
from lsmkv.storage.file_names import new_staging_name
from lsmkv.storage.storage import Storage, absolute_path, is_url
from lsmkv.storage.store_lock import holds_store

if TYPE_CHECKING:
    from lsmkv.remote.bucket import Bucket


class Target(Protocol):
    """Takes the tables of all partitions at once.

    Attributes:
        staging: a directory for the workers' tables; None: each writes to one of its own.
        upload: where workers send tables; None: nowhere.
    """

    staging: str | None
    upload: Upload | None

    def adopt(self, written: Sequence[WrittenTables]) -> None:
        """Make all tables count, or none."""


@contextlib.contextmanager
def open_target(target: str | os.PathLike[str], options: Options) -> Iterator[Target]:
    """The target of a build; a failure within the block leaves it as it was."""
    if isinstance(target, str) and is_url(target):
        from lsmkv.remote.bucket import Bucket  # MissingExtraError without its library

        bucket = Bucket(target, options, Stats())
        try:
            yield _Published(bucket, options)
        finally:
            bucket.close()
        return
    storage = Storage(file_mode=options.file_mode)
    is_new = not holds_store(storage, absolute_path(target, "target"))
    db = opening.open(target, options)
    staging = os.path.join(db.path, new_staging_name())
    try:
        with db:
            storage.create_directory(staging)
            try:
                yield _Directory(db, staging)
            finally:
                with contextlib.suppress(OSError):  # the next opening removes what stays
                    storage.remove_tree(staging)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                opening.destroy(target)
        raise


class _Directory:
    """An open store, locked, whose workers write to a directory in it."""

    def __init__(self, db: DB, staging: str) -> None:
        self._db = db
        self.staging: str | None = staging
        self.upload: Upload | None = None

    def adopt(self, written: Sequence[WrittenTables]) -> None:
        engine = self._db._engine
        staging = Staging(engine.storage, engine.directory)
        try:
            for path in [path for tables in written for path in tables.paths]:
                staged = staging.path(staging.allocate())
                engine.storage.replace(path, staged)
                staging.add(staged)
        except BaseException:
            staging.remove()
            raise
        if staging.tables:
            engine.adopt(staging)


class _Published:
    """A URL, below which workers put tables for the next generation."""

    def __init__(self, bucket: Bucket, options: Options) -> None:
        from lsmkv.remote.publish import Publication

        self._publication = Publication(bucket)
        self._options = options
        self.staging: str | None = None
        self.upload: Upload | None = Upload(bucket.url, self._publication.number)

    def adopt(self, written: Sequence[WrittenTables]) -> None:
        tables = [table for part in written for table in part.published]
        total = sum(table.meta.size_bytes for table in tables)
        level = 1
        while level_target_bytes(level, self._options) < total:
            level += 1
        placed = [msgspec.structs.replace(table, level=level, run=LEVELED_RUN) for table in tables]
        self._publication.commit(placed, last_seq=0)
